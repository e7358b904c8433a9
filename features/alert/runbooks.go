package alert

// runbooks are by the names of the rules. docs/operators/runbooks.md is made of them.
var runbooks = map[string]Runbook{
	"drain-time": {
		Meaning: "The work that waits takes the workers longer than ten minutes. New jobs of the lower lanes wait at least that long.",
		Causes:  []string{"More jobs arrive than usual, often of one customer.", "Workers were lost, or do not boot.", "A lane or a pool is paused, and its jobs pile up."},
		Steps: []string{
			"Queues (/queues): which lane and model holds the work, and is anything paused?",
			"Accounts in the lane: one that floods it is held back by its own cap and weight; lower its limits under Accounts (/accounts) if others suffer.",
			"Pools (/pools): are pools at their maximum, backing off or out of quota? Raise maxWorkers, or add a pool in another zone.",
			"If the work is not urgent, do nothing: the order stays fair, and nothing is lost.",
		},
	},
	"halted": {
		Meaning: "For more than an hour no schedule fires, or no waiting job starts, since an operator halted them. Running jobs continue and new ones are accepted.",
		Causes:  []string{"An incident or a migration that takes longer than planned.", "They were not resumed afterwards."},
		Steps: []string{
			"The banner on every page, and `reelay halt`, say what is halted, by whom and why. Ask them.",
			"If the reason is gone: the button in the banner, or `reelay resume all`.",
			"Before leases resume after a long halt, look at Queues (/queues): what waited starts at once, in the usual order. Pause the lanes that should wait longer.",
			"Before schedules resume: each schedule treats the slots of the halt by its rule for late slots (Schedules, /schedules). Pause those that must not catch up.",
		},
	},
	"machines-not-starting": {
		Meaning: "Several machines of a pool in a row did not start: their agents did not register, or ended soon after. The pool gets one machine at a time, after pauses of up to an hour. Its jobs wait.",
		Causes: []string{
			"The image, the startup script or the container is wrong, so that no agent runs.",
			"The agent cannot reach the API: a firewall, a wrong public URL, an untrusted certificate.",
			"The enrolment key was revoked, or the API refuses the registration.",
			"A boot takes longer than the pool's bootLimitSeconds.",
		},
		Steps: []string{
			"Pools (/pools): the page of the pool shows the last line of the agent, the API's refusal, or what the provider says of the machine.",
			"Workers (/workers): the newest of the pool that ended say the same, each for itself. The agents' own logs are on the machines.",
			"Correct the cause: the pool, the key, the image, the network.",
			"Then resume the pool (`reelay pools resume NAME`), or change it: the scaler boots at once. Otherwise it tries one machine at the time that the page shows.",
			"Until then, jobs run on other pools that can run them: raise maxWorkers of one, if there is one.",
		},
	},
	"queue-depth": {
		Meaning: "More than 200 jobs wait. That is a burst if the time to empty the queues is short, and a lack of workers if it is not.",
		Causes:  []string{"A batch was submitted.", "Fewer workers than usual."},
		Steps:   []string{"Compare with the time to empty the queues on the overview (/overview).", "Queues (/queues): which lane? BATCH may wait for hours by design.", "If it grows for more than an hour, see drain-time (/alerts/rules/drain-time)."},
	},
	"queue-at-maximum": {
		Meaning: "More than 500 jobs wait, and no pool may grow. Without a change, waits only get longer.",
		Causes:  []string{"maxWorkers is too low for the load.", "A stockout of spot machines, while on-demand pools are small."},
		Steps:   []string{"Pools (/pools): raise maxWorkers where quota and budget allow it.", "Add an on-demand pool, or one in another region.", "Lower the queue limits of accounts that submit more than they bought (/accounts)."},
	},
	"throughput": {
		Meaning: "Jobs wait, but hardly any completes.",
		Causes:  []string{"No worker offers the models that are asked for.", "Workers crash or are preempted before they finish.", "The jobs are very long."},
		Steps:   []string{"A waiting job says why it waits: open one of the oldest (/jobs?q=status:queued).", "Workers (/workers): are there idle ones? Then the models do not match: compare Models (/models) with the pools.", "Dead letters (/dead-letters): a group that grows is the cause."},
	},
	"pickup-time": {
		Meaning: "A free worker needs longer than 30 s to get a job that it can run. GPUs are paid and idle.",
		Causes:  []string{"PostgreSQL or the API is slow.", "Agents poll through a proxy that buffers.", "Workers load the model first: that counts as rendering, not as pickup."},
		Steps:   []string{"System (/system): the lag of the stores and the age of each process.", "The metrics of the API: duration of leaseJob.", "doctor (/doctor) finds a ready index that lost entries; the pass that repairs it runs every 5 s."},
	},
	"preemptions": {
		Meaning: "More than a fifth of the attempts of the last hour lost their machine. Jobs resume from checkpoints, but pay for it in time.",
		Causes:  []string{"The provider reclaims spot machines in a zone.", "A maintenance of the provider."},
		Steps:   []string{"Heat map (/heatmap): which region and GPU?", "Pools (/pools): shift minWorkers to pools in other zones, or to on-demand ones; pause the pool that loses most.", "Check that checkpoints are saved: the wasted GPU time per attempt is on each job.", "Afterwards: the pool's page shows what the reclamation cost."},
	},
	"lease-expirations": {
		Meaning: "Workers vanish without notice, more than five a minute. Their jobs are queued again 30 s later.",
		Causes:  []string{"Machines are killed without a notice: an out-of-memory kill of the host, a broken network, a power loss.", "The API cannot be reached from the workers' network.", "Agents are overloaded: heartbeats come too late."},
		Steps:   []string{"Workers (/workers): do the losses share a host, a zone or a pool? Quarantine hosts that stand out.", "Can a worker reach the API? `curl ENDPOINT/healthz` on one of them.", "If many were lost at once, the provider reclaimed them: see preemptions (/alerts/rules/preemptions)."},
	},
	"checkpoint-time": {
		Meaning: "Saving a checkpoint takes longer than 30 s, the length of a notice of preemption: work since the one before is lost.",
		Causes:  []string{"The object store is slow or far away.", "Checkpoints are large, and are not compressed.", "The machine's disk is full or slow."},
		Steps:   []string{"Is the bucket in the workers' region?", "`reelay pools checkpoints` shows size and time per model.", "docs/operators/checkpoints.md: compression and intervals."},
	},
	"gpu-utilization": {
		Meaning: "GPUs of workers that hold jobs are used less than half. You pay for time in which nothing is computed.",
		Causes:  []string{"Models are loaded again and again: few jobs of many models.", "Inputs and results are transferred slowly.", "The runtime computes on the CPU: a driver that does not fit."},
		Steps:   []string{"Workers (/workers): which pool and model?", "A worker's page shows its GPUs over time, next to what it ran.", "Give pools fewer models, so that they stay warm."},
	},
	"workers-busy": {
		Meaning: "Nearly all workers are busy: new jobs wait until one ends or another boots.",
		Causes:  []string{"The load is at the fleet's size. That is good use, if waits are within the targets."},
		Steps:   []string{"Queues (/queues): are the targets of the lanes met?", "If not, raise maxWorkers or warmWorkers of a pool (/pools)."},
	},
	"wasted-gpu": {
		Meaning: "Over 24 hours, more than 20 GPU hours were paid for work that had to be done again.",
		Causes:  []string{"Losses without notice, long after the last checkpoint.", "Models without checkpoints on spot machines.", "A job that crashes again and again."},
		Steps:   []string{"Heat map (/heatmap): where?", "Pools (/pools): wasted time per pool. Use on-demand machines for models that save no checkpoints.", "Dead letters (/dead-letters): crashes waste too."},
	},
	"completion": {
		Meaning: "Fewer than 95 % of the jobs that ended in the last hour completed. Failures that customers caused do not count.",
		Causes:  []string{"A model or its runtime is broken, often after a change.", "A bad host eats jobs.", "The object store or the network fails."},
		Steps:   []string{"Dead letters (/dead-letters): the largest group names the cause, with the last log.", "Changes (/changes): what changed before it began? Models are versioned: apply the version before.", "Workers (/workers): hosts with the most crashes; quarantine one that stands out.", "When it is repaired, redrive the group: a canary first."},
	},
	"failures": {
		Meaning: "More than a tenth of the jobs that ended in the last hour failed, without failures that customers caused.",
		Causes:  []string{"As for completion."},
		Steps:   []string{"See completion (/alerts/rules/completion)."},
	},
	"slo-fast-burn": {
		Meaning: "Jobs fail so fast that the failures of a month that the objective of 99 % allows would be used up in two days.",
		Causes:  []string{"As for completion."},
		Steps:   []string{"See completion (/alerts/rules/completion). Act now."},
	},
	"slo-slow-burn": {
		Meaning: "Jobs have failed for hours so often that the failures of a month that the objective of 99 % allows would be used up in five days.",
		Causes:  []string{"As for completion, for a part of the jobs: one model, one pool, one customer."},
		Steps:   []string{"Dead letters (/dead-letters), by model.", "See completion (/alerts/rules/completion)."},
	},
	"render-p50": {
		Meaning: "Half of the videos take longer than three minutes to render.",
		Causes:  []string{"Customers ask for longer or larger videos.", "Slower GPUs than usual.", "A model's new version is slower."},
		Steps:   []string{"Charts on the overview (/overview), by model.", "If the videos are as they should be, raise the threshold: docs/operators/alerts.md."},
	},
	"render-p95": {
		Meaning: "One video of twenty takes longer than ten minutes to render.",
		Causes:  []string{"As for render-p50.", "Jobs that were preempted several times."},
		Steps:   []string{"Jobs that run longest (/jobs?q=status:running).", "See render-p50 (/alerts/rules/render-p50)."},
	},
	"render-p99": {
		Meaning: "One video of a hundred takes longer than 15 minutes to render.",
		Causes:  []string{"As for render-p95."},
		Steps:   []string{"See render-p95 (/alerts/rules/render-p95)."},
	},
	"stalled-jobs": {
		Meaning: "A job renders without any progress for minutes. After five minutes its worker ends it with TIMEOUT.",
		Causes:  []string{"The runtime hangs: a driver, a deadlock, a step that takes very long.", "Progress does not reach the API."},
		Steps:   []string{"Open the job (/jobs?q=status:running): its log, and its worker's GPU.", "If one host has several, quarantine it (/workers).", "For a model with long steps, let its runtime report more often."},
	},
	"dead-letters": {
		Meaning: "More than ten jobs failed for good and wait for a decision.",
		Causes:  []string{"A broken model, host or store, over the time of one incident."},
		Steps:   []string{"Dead letters (/dead-letters): the groups, by cause.", "Redrive a canary of a group once the cause is repaired, then the rest; discard what nobody needs."},
	},
	"dead-letters-growing": {
		Meaning: "There are at least five dead letters more than an hour ago.",
		Causes:  []string{"An incident has begun, or continues."},
		Steps:   []string{"Dead letters (/dead-letters): the newest group.", "See completion (/alerts/rules/completion)."},
	},
	"acceptance": {
		Meaning: "More than one submit in a thousand failed with INTERNAL or OVERLOADED in the last hour. Clients that do not retry lose their jobs; refusals by an account's own limits do not count.",
		Causes:  []string{"PostgreSQL is away, slow, or out of connections.", "All queues together are full: OVERLOADED.", "The processes of the API were restarted without being drained.", "A defect of a new version."},
		Steps: []string{
			"System (/system): do PostgreSQL and Redis answer, and are all processes there, with the same version?",
			"The logs of the API: each INTERNAL is logged with its cause. reelay_submits_refused_total tells the codes apart.",
			"OVERLOADED: see queue-depth (/alerts/rules/queue-depth). Lower the limits of accounts that flood (/accounts), or raise what the pools may have (/pools).",
			"If it began with an upgrade, go back to the version before: submits with an idempotency key can be repeated safely.",
		},
	},
	"outbox-lag": {
		Meaning: "Messages wait for more than a minute to be relayed: webhooks come late, and jobs become ready late.",
		Causes:  []string{"No control process runs.", "Redis is down: passes of control do the same work, more slowly.", "PostgreSQL is overloaded."},
		Steps:   []string{"System (/system): the processes of control, and Redis.", "Start a control process, or restart Redis. Nothing is lost meanwhile."},
	},
	"start-lag": {
		Meaning: "A scheduled job is due for more than a minute, and was not queued.",
		Causes:  []string{"No control process runs.", "PostgreSQL is overloaded."},
		Steps:   []string{"System (/system): the processes of control.", "doctor (/doctor)."},
	},
	"webhook-failures": {
		Meaning: "Of more than a tenth of the accounts, and of two at least, most webhooks of the last hour failed three times or for good. The dead endpoint of one account raises no alert: its owner must act.",
		Causes:  []string{"A customer's endpoint is down or refuses signatures.", "Outgoing connections are blocked."},
		Steps:   []string{"Webhooks (/webhooks): is it one endpoint? Then tell its owner: deliveries are retried for 24 hours.", "If it is all of them: can this network reach the internet?", "Failed deliveries can be sent again from the job's page."},
	},
}
