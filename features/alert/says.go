package alert

// says are the sentences of alerts. {value} is the value now and {limit} the threshold, each with
// its unit. They are short enough for a line of a list; the runbook says what to do.
var says = map[string]string{
	"drain-time":       "Queues empty in {value} (limit {limit}).",
	"queue-depth":      "{value} jobs wait (limit {limit}).",
	"queue-at-maximum": "{value} jobs wait and no pool can grow (limit {limit}).",
	"throughput":       "Jobs complete at {value} while others wait (minimum {limit}).",
	"pickup-time":      "Free workers take jobs after {value}, p99 (limit {limit}).",

	"machines-not-starting": "Pools whose machines do not start: {value}.",
	"engines-unreachable":   "Engines that cannot be reached or fail: {value}.",
	"engines-drained":       "Engines drained or held for half an hour: {value}.",
	"providers-failing":     "Hosted providers whose circuit is open: {value}.",
	"budgets-half":          "Budgets of accounts of which half is spent: {value}.",
	"budgets-near":          "Budgets of accounts of which 80 percent are spent: {value}.",
	"budgets-spent":         "Budgets of accounts that are spent: {value}.",
	"submits-unknown":       "Paid submits that were not answered, and wait for a decision: {value}.",
	"preemptions":           "{value} of attempts were preempted in the last hour (limit {limit}).",
	"lease-expirations":     "Leases expire at {value} (limit {limit}).",
	"checkpoint-time":       "Checkpoints take {value}, p95 (limit {limit}).",
	"gpu-utilization":       "Rendering GPUs are only {value} busy (minimum {limit}).",
	"workers-busy":          "{value} of workers are busy (limit {limit}).",
	"wasted-gpu":            "{value} wasted in 24 hours (limit {limit}).",

	"acceptance":           "Only {value} of submits were accepted in the last hour (minimum {limit}).",
	"completion":           "Only {value} of jobs completed in the last hour (minimum {limit}).",
	"failures":             "{value} of jobs failed in the last hour (limit {limit}).",
	"slo-fast-burn":        "Error budget burns {value}× too fast (limit {limit}×, windows of 1 h and 5 min).",
	"slo-slow-burn":        "Error budget burns {value}× too fast (limit {limit}×, windows of 6 h and 30 min).",
	"render-p50":           "Median render time is {value} in the last hour (limit {limit}).",
	"render-p95":           "Render time p95 is {value} in the last hour (limit {limit}).",
	"render-p99":           "Render time p99 is {value} in the last hour (limit {limit}).",
	"stalled-jobs":         "Jobs that render without progress: {value}.",
	"dead-letters":         "Dead letters open for operators: {value} (limit {limit}).",
	"dead-letters-growing": "Dead letters grew by {value} in an hour (limit {limit}).",

	"outbox-lag":       "The oldest outbox message is {value} old (limit {limit}).",
	"start-lag":        "A scheduled job is {value} overdue (limit {limit}).",
	"halted":           "Schedules or leases have been halted for {value} (limit {limit}).",
	"deletions-stuck":  "Deletions of accounts without progress for an hour: {value}.",
	"webhook-failures": "Webhooks fail for {value} of accounts (limit {limit}).",

	"regions-split":    "Other regions that served at the same time as this one: {value}.",
	"region-overtaken": "Regions that were overtaken, and are no standby yet: {value}.",
	"region-silent":    "Regions whose api does not answer, or cannot take over: {value}.",
	"region-alone":     "No standby follows PostgreSQL: the other region cannot take over.",
	"standby-behind":   "The slowest standby lacks {value} MiB of PostgreSQL's log (limit {limit} MiB).",
	"standby-async":    "Standbys that no commit waits for: {value}.",
}
