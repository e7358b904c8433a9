package alert

import (
	"slices"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/models/alerts"
)

// Below these numbers, a share says little: one failed job of two is no incident.
const (
	leastEnded    = 10
	leastAttempts = 10
	leastRendered = 20
)

// objective is the share of jobs that complete, of those that end and that no customer made fail:
// the service level that burn rates measure.
const objective = 0.99

// of takes a figure of one span.
func of(span func(*State) *history.Figures, figure func(*history.Figures) *float64) func(*State) *float64 {
	return func(s *State) *float64 {
		if f := span(s); f != nil {
			return figure(f)
		}
		return nil
	}
}

func minute(s *State) *history.Figures   { return s.Minute }
func five(s *State) *history.Figures     { return s.Five }
func ten(s *State) *history.Figures      { return s.Ten }
func halfHour(s *State) *history.Figures { return s.HalfHour }
func hour(s *State) *history.Figures     { return s.Hour }
func sixHours(s *State) *history.Figures { return s.SixHours }
func day(s *State) *history.Figures      { return s.Day }

// ended is a figure that counts only if enough jobs ended.
func ended(figure func(*history.Figures) *float64) func(*history.Figures) *float64 {
	return func(f *history.Figures) *float64 {
		if f.Completed()+f.Failed() < leastEnded {
			return nil
		}
		return figure(f)
	}
}

// rendered is a percentile of render times that counts only if enough jobs were rendered.
func rendered(q float64) func(*history.Figures) *float64 {
	return func(f *history.Figures) *float64 {
		if f.Completed() < leastRendered {
			return nil
		}
		return f.Render(q)
	}
}

func preempted(f *history.Figures) *float64 {
	if f.Attempts() < leastAttempts {
		return nil
	}
	return f.PreemptedShare()
}

func pickup(f *history.Figures) *float64 { return f.Pickup(0.99) }

func checkpoint(f *history.Figures) *float64 { return f.Checkpoint(0.95) }

// burning is how many times as fast as the objective allows jobs fail, over both a long and a
// short span, so that it ends soon after the failures do. See "Alerting on SLOs", The Site
// Reliability Workbook, chapter 5.
func burning(long, short func(*State) *history.Figures) func(*State) *float64 {
	return func(s *State) *float64 {
		rate := func(f *history.Figures) *float64 {
			if f == nil || f.Completed()+f.Failed() < leastEnded {
				return nil
			}
			failing := f.FailureRate()
			if failing == nil {
				return nil
			}
			burn := *failing / (1 - objective)
			return &burn
		}
		slow, fast := rate(long(s)), rate(short(s))
		if slow == nil || fast == nil {
			return nil
		}
		least := min(*slow, *fast)
		return &least
	}
}

// idleGPUs is how busy the GPUs of workers that hold jobs are.
func idleGPUs(f *history.Figures) *float64 {
	if busy := f.Busy(); busy == nil || *busy < 1 {
		return nil
	}
	return f.GPUUtilization()
}

// throughput is how many jobs complete while some wait. Those that an operator paused do not count.
func throughput(s *State) *float64 {
	if s.Ten == nil {
		return nil
	}
	if queued := s.Ten.Open(); queued == nil || *queued < 1 {
		return nil
	}
	return s.Ten.CompletedPerMinute()
}

// depthAtMaximum is how many jobs wait while no pool can grow: 0 while one can.
func depthAtMaximum(s *State) *float64 {
	if s.Minute == nil {
		return nil
	}
	if !s.Full {
		zero := 0.0
		return &zero
	}
	return s.Minute.Open()
}

// newDeadLetters is how many dead letters there are more than in the hour before the last.
func newDeadLetters(s *State) *float64 {
	if s.Before == nil || s.Now == nil {
		return nil
	}
	before := s.Before.DeadLetters()
	if before == nil {
		return nil
	}
	more := float64(s.Now.DeadLetters) - *before
	return &more
}

func now(figure func(*alerts.Health) float64) func(*State) *float64 {
	return func(s *State) *float64 {
		if s.Now == nil {
			return nil
		}
		value := figure(s.Now)
		return &value
	}
}

// webhookFailures is the share of accounts whose deliveries of the last hour fail. That of one
// account is for its owner to mend.
func webhookFailures(s *State) *float64 {
	if s.Webhooks == nil || s.Webhooks.Deliveries < leastEnded {
		return nil
	}
	share := 0.0
	if s.Webhooks.Failing > 1 {
		share = float64(s.Webhooks.Failing) / float64(s.Webhooks.Accounts)
	}
	return &share
}

// acceptance is the share of the submits of the last hour that did not fail through Reelay's fault.
func acceptance(s *State) *float64 {
	if s.Hour == nil {
		return nil
	}
	all := s.Hour.Submitted() + s.Refused
	if all < leastEnded {
		return nil
	}
	share := float64(s.Hour.Submitted()) / float64(all)
	return &share
}

// Defaults returns the rules as they are without configuration.
func Defaults() []*Rule {
	rules := slices.Concat(queueRules(), fleetRules(), jobRules(), plumbingRules(), regionRules())
	for _, r := range rules {
		r.Runbook, r.Says = runbooks[r.Name], says[r.Name]
	}
	return rules
}

func queueRules() []*Rule {
	return []*Rule{
		{Name: "drain-time", Title: "Time to empty the queues", Severity: alerts.SeverityP2, Threshold: 600, For: 15 * time.Minute,
			Unit: history.Seconds, Value: of(minute, (*history.Figures).Drain)},
		{Name: "queue-depth", Title: "Queued jobs", Severity: alerts.SeverityP3, Threshold: 200, For: 5 * time.Minute,
			Value: of(minute, (*history.Figures).Open)},
		{Name: "queue-at-maximum", Title: "Queued jobs while no pool can grow", Severity: alerts.SeverityP2, Threshold: 500, For: 5 * time.Minute,
			Value: depthAtMaximum},
		{Name: "throughput", Title: "Jobs completed while some wait", Severity: alerts.SeverityP2, Threshold: 0.5, Below: true,
			For: 10 * time.Minute, Unit: history.PerMinute, Value: throughput},
		{Name: "pickup-time", Title: "Time until a free worker takes a job, p99", Severity: alerts.SeverityP2, Threshold: 30,
			For: 5 * time.Minute, Unit: history.Seconds, Value: of(ten, pickup)},
	}
}

func fleetRules() []*Rule {
	return []*Rule{
		{Name: "machines-not-starting", Title: "Pools whose machines do not start", Severity: alerts.SeverityP1, Threshold: 0,
			Value: now(func(h *alerts.Health) float64 { return float64(h.NotBootingPools) })},
		{Name: "engines-unreachable", Title: "Engines that cannot be reached or fail", Severity: alerts.SeverityP2, Threshold: 0,
			Value: now(func(h *alerts.Health) float64 { return float64(h.EnginesDown) })},
		{Name: "engines-drained", Title: "Engines drained or held for half an hour", Severity: alerts.SeverityP3, Threshold: 0,
			Value: now(func(h *alerts.Health) float64 { return float64(h.EnginesDrained) })},
		{Name: "providers-failing", Title: "Hosted providers whose circuit is open", Severity: alerts.SeverityP2, Threshold: 0,
			Value: now(func(h *alerts.Health) float64 { return float64(h.ProvidersDown) })},
		{Name: "submits-unknown", Title: "Paid submits that were not answered", Severity: alerts.SeverityP2, Threshold: 0,
			Value: now(func(h *alerts.Health) float64 { return float64(h.SubmitsUnknown) })},
		{Name: "budgets-half", Title: "Budgets of accounts of which half is spent", Severity: alerts.SeverityP3, Threshold: 0,
			Value: now(func(h *alerts.Health) float64 { return float64(h.BudgetsHalf) })},
		{Name: "budgets-near", Title: "Budgets of accounts of which 80 percent are spent", Severity: alerts.SeverityP3, Threshold: 0,
			Value: now(func(h *alerts.Health) float64 { return float64(h.BudgetsNear) })},
		{Name: "budgets-spent", Title: "Budgets of accounts that are spent", Severity: alerts.SeverityP2, Threshold: 0,
			Value: now(func(h *alerts.Health) float64 { return float64(h.BudgetsSpent) })},
		{Name: "preemptions", Title: "Share of attempts of the last hour that were preempted", Severity: alerts.SeverityP1, Threshold: 0.2,
			Unit: history.Share, Value: of(hour, preempted)},
		{Name: "lease-expirations", Title: "Leases that expire", Severity: alerts.SeverityP1, Threshold: 5, For: 5 * time.Minute,
			Unit: history.PerMinute, Value: of(five, (*history.Figures).LeaseExpirationsPerMinute)},
		{Name: "checkpoint-time", Title: "Time to save a checkpoint, p95", Severity: alerts.SeverityP2, Threshold: 30, For: 10 * time.Minute,
			Unit: history.Seconds, Value: of(ten, checkpoint)},
		{Name: "gpu-utilization", Title: "Use of the GPUs that render", Severity: alerts.SeverityP3, Threshold: 0.5, Below: true,
			For: 5 * time.Minute, Unit: history.Share, Value: of(five, idleGPUs)},
		{Name: "workers-busy", Title: "Share of workers that are busy", Severity: alerts.SeverityP3, Threshold: 0.95, For: 10 * time.Minute,
			Unit: history.Share, Value: of(ten, (*history.Figures).WorkerUtilization)},
		{Name: "wasted-gpu", Title: "GPU time wasted within 24 hours", Severity: alerts.SeverityP3, Threshold: 20, Unit: history.GPUHours,
			Value: of(day, (*history.Figures).WastedGPUHours)},
	}
}

func jobRules() []*Rule {
	return []*Rule{
		{Name: "acceptance", Title: "Share of submits of the last hour that were accepted", Severity: alerts.SeverityP1, Threshold: 0.999,
			Below: true, For: 5 * time.Minute, Unit: history.Share, Value: acceptance},
		{Name: "completion", Title: "Share of jobs of the last hour that completed", Severity: alerts.SeverityP1, Threshold: 0.95, Below: true,
			Unit: history.Share, Value: of(hour, ended((*history.Figures).CompletionRate))},
		{Name: "failures", Title: "Share of jobs of the last hour that failed", Severity: alerts.SeverityP2, Threshold: 0.1, Unit: history.Share,
			Value: of(hour, ended((*history.Figures).FailureRate))},
		{Name: "slo-fast-burn", Title: "Burn of the error budget, over an hour and 5 minutes", Severity: alerts.SeverityP1, Threshold: 14.4,
			Value: burning(hour, five)},
		{Name: "slo-slow-burn", Title: "Burn of the error budget, over 6 hours and 30 minutes", Severity: alerts.SeverityP2, Threshold: 6,
			Value: burning(sixHours, halfHour)},
		{Name: "render-p50", Title: "Render time of the last hour, median", Severity: alerts.SeverityP3, Threshold: 180, Unit: history.Seconds,
			Value: of(hour, rendered(0.5))},
		{Name: "render-p95", Title: "Render time of the last hour, p95", Severity: alerts.SeverityP3, Threshold: 600, Unit: history.Seconds,
			Value: of(hour, rendered(0.95))},
		{Name: "render-p99", Title: "Render time of the last hour, p99", Severity: alerts.SeverityP3, Threshold: 900, Unit: history.Seconds,
			Value: of(hour, rendered(0.99))},
		{Name: "stalled-jobs", Title: "Jobs that render without progress", Severity: alerts.SeverityP2, Threshold: 0, For: time.Minute,
			Value: now(func(h *alerts.Health) float64 { return float64(h.StalledJobs) })},
		{Name: "dead-letters", Title: "Dead letters that wait for an operator", Severity: alerts.SeverityP2, Threshold: 10,
			Value: now(func(h *alerts.Health) float64 { return float64(h.DeadLetters) })},
		{Name: "dead-letters-growing", Title: "More dead letters than an hour ago", Severity: alerts.SeverityP2, Threshold: 4,
			For: 5 * time.Minute, Value: newDeadLetters},
	}
}

func plumbingRules() []*Rule {
	return []*Rule{
		{Name: "outbox-lag", Title: "Age of the oldest message in the outbox", Severity: alerts.SeverityP1, Threshold: 60, Unit: history.Seconds,
			Value: now(func(h *alerts.Health) float64 { return h.OutboxLagSeconds })},
		{Name: "start-lag", Title: "Delay of the most overdue scheduled job", Severity: alerts.SeverityP2, Threshold: 60, Unit: history.Seconds,
			For: time.Minute, Value: now(func(h *alerts.Health) float64 { return h.SchedulerLagSeconds })},
		{Name: "halted", Title: "Time since schedules or leases were halted", Severity: alerts.SeverityP2, Threshold: 3600, Unit: history.Seconds,
			Value: now(func(h *alerts.Health) float64 { return max(h.SchedulesHaltedSeconds, h.LeasesHaltedSeconds) })},
		{Name: "deletions-stuck", Title: "Deletions of accounts without progress for an hour", Severity: alerts.SeverityP2, Threshold: 0,
			Value: now(func(h *alerts.Health) float64 { return float64(h.DeletionsStuck) })},
		{Name: "webhook-failures", Title: "Share of accounts whose webhooks of the last hour fail", Severity: alerts.SeverityP3, Threshold: 0.1,
			For: 5 * time.Minute, Unit: history.Share, Value: webhookFailures},
	}
}

// regionRules are about a second region, and about the standbys of PostgreSQL.
func regionRules() []*Rule {
	of := func(count func(Regions) int) func(*State) *float64 {
		return func(s *State) *float64 {
			value := float64(count(s.Regions))
			return &value
		}
	}
	return []*Rule{
		{Name: "regions-split", Title: "Other regions that served at the same time", Severity: alerts.SeverityP1, Threshold: 0,
			Value: of(func(r Regions) int { return r.Serving })},
		{Name: "region-overtaken", Title: "Regions that were overtaken, and are no standby yet", Severity: alerts.SeverityP2, Threshold: 0,
			Value: of(func(r Regions) int { return r.Overtaken })},
		{Name: "region-silent", Title: "Regions whose api does not answer, or cannot take over", Severity: alerts.SeverityP2, Threshold: 0,
			For: 5 * time.Minute, Value: of(func(r Regions) int { return r.Silent + r.Foreign })},
		{Name: "region-alone", Title: "Primaries of two regions that no standby follows", Severity: alerts.SeverityP2, Threshold: 0,
			For: 5 * time.Minute, Value: of(func(r Regions) int {
				if r.Alone {
					return 1
				}
				return 0
			})},
		{Name: "standby-behind", Title: "MiB of PostgreSQL's log that the slowest standby lacks", Severity: alerts.SeverityP2, Threshold: 256,
			For: 5 * time.Minute, Value: now(func(h *alerts.Health) float64 { return float64(h.StandbyBehindBytes) / (1 << 20) })},
		{Name: "standby-async", Title: "Standbys of a second region that no commit waits for", Severity: alerts.SeverityP3, Threshold: 0,
			For: 15 * time.Minute, Value: of(func(r Regions) int { return r.Async })},
	}
}
