package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/backlog"
)

var (
	depthDesc    = desc("reelay_queue_depth", "Jobs that wait for a worker, by tier and model.", "tier", "model")
	runningDesc  = desc("reelay_queue_running", "Jobs that workers hold, by tier and model.", "tier", "model")
	promotedDesc = desc("reelay_queue_promoted", "How many of the waiting jobs were promoted into the tier's lane.", "tier")
	oldestDesc   = desc("reelay_queue_oldest_wait_seconds",
		"How long the longest waiting job of a tier has waited, without promoted jobs and the time in which its queue was paused. Absent if none waits.", "tier")
	pausedDesc = desc("reelay_queue_paused", "1 if an operator paused the tier, or a model in it.", "tier")
	drainDesc  = desc("reelay_estimated_drain_time_seconds",
		"How long a tier's queues take to empty without new jobs: depth × mean render / workers. Absent if jobs wait and none of them can start.",
		"tier")
	drainAllDesc = desc("reelay_estimated_drain_time_all_seconds",
		"How long all queues together take to empty without new jobs. Absent if jobs wait and none of them can start.")
	leftOutDesc = desc("reelay_queue_stuck_jobs",
		"Queued jobs that do not start, and that the times to empty the queues leave out, by tier and reason.", "tier", "reason")
)

// newQueues is what waits and runs. Models beyond the bound are summed up.
func newQueues(from Sources) prometheus.Collector {
	models := newBound(maxModels)
	return &gauges[queueGauges]{
		what: "the queues", every: readEvery, read: from.queues(),
		descs: []*prometheus.Desc{depthDesc, runningDesc, promotedDesc, oldestDesc, pausedDesc, drainDesc, drainAllDesc, leftOutDesc},
		emit: func(g queueGauges, into chan<- prometheus.Metric) {
			emitDepths(g.queues, models, into)
			emitTiers(g.queues, into)
			if g.drains != nil {
				emitDrains(g, into)
			}
		},
	}
}

// queueGauges are the queues, and how long they take to empty.
type queueGauges struct {
	queues []queueCount
	drains *estimate.Drains
}

// queues reads both, or is nil if there is no source.
func (s *Sources) queues() func(context.Context) (queueGauges, error) {
	if s.Queues == nil {
		return nil
	}
	return func(ctx context.Context) (g queueGauges, err error) {
		if g.queues, err = s.Queues(ctx); err != nil || s.Drains == nil {
			return g, err
		}
		g.drains, err = s.Drains(ctx)
		return g, err
	}
}

// emitDrains emits how long the lanes that have or had jobs take to empty, and all of them.
func emitDrains(g queueGauges, into chan<- prometheus.Metric) {
	seen := map[models.Tier]bool{}
	for _, q := range g.queues {
		if q.Model == "" || seen[q.Lane] {
			continue
		}
		seen[q.Lane] = true
		drain := g.drains.Of(q.Lane, "")
		if drain.Seconds != nil {
			into <- gauge(drainDesc, *drain.Seconds, string(q.Lane))
		}
		for _, left := range drain.LeftOut {
			into <- gauge(leftOutDesc, float64(left.Jobs), string(q.Lane), string(left.Obstacle))
		}
	}
	if all := g.drains.All(); all.Seconds != nil {
		into <- gauge(drainAllDesc, *all.Seconds)
	}
}

type queueCount = backlog.QueueCount

func emitDepths(queues []queueCount, models *bound, into chan<- prometheus.Metric) {
	type key struct{ tier, model string }
	depth, running := map[key]int{}, map[key]int{}
	for _, q := range queues {
		if q.Model == "" {
			continue // a lane that is paused and has no jobs
		}
		k := key{string(q.Lane), models.of(q.Model)}
		depth[k], running[k] = depth[k]+q.Depth, running[k]+q.Running
	}
	for k, n := range depth {
		into <- gauge(depthDesc, float64(n), k.tier, k.model)
		into <- gauge(runningDesc, float64(running[k]), k.tier, k.model)
	}
}

func emitTiers(queues []queueCount, into chan<- prometheus.Metric) {
	type sum struct {
		oldest   *float64
		promoted int
		paused   bool
	}
	tiers := map[models.Tier]*sum{}
	for _, q := range queues {
		s := tiers[q.Lane]
		if s == nil {
			s = &sum{}
			tiers[q.Lane] = s
		}
		s.promoted += q.Promoted
		s.oldest = larger(s.oldest, q.OldestWaitSeconds)
		s.paused = s.paused || q.Paused()
	}
	for tier, s := range tiers {
		if s.oldest != nil {
			into <- gauge(oldestDesc, *s.oldest, string(tier))
		}
		into <- gauge(promotedDesc, float64(s.promoted), string(tier))
		into <- gauge(pausedDesc, oneIf(s.paused), string(tier))
	}
}

func larger(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

var (
	workersDesc    = desc("reelay_workers", "Workers that have not ended, by status.", "status")
	workerBusyDesc = desc("reelay_worker_utilization",
		"The share of the workers that could have a job and do, 0 to 1. Absent without workers.")
)

// newWorkers counts the workers. There are no series per worker: a fleet that is preempted all the
// time would leave new ones for each machine.
func newWorkers(read func(context.Context) ([]alerts.WorkerCount, error)) prometheus.Collector {
	return &gauges[[]alerts.WorkerCount]{
		what: "the workers", every: readEvery, read: read, descs: []*prometheus.Desc{workersDesc, workerBusyDesc},
		emit: func(counts []alerts.WorkerCount, into chan<- prometheus.Metric) {
			of := map[models.WorkerStatus]int{}
			for _, c := range counts {
				of[c.Status] = c.Count
			}
			for _, status := range []models.WorkerStatus{models.WorkerBooting, models.WorkerIdle, models.WorkerBusy, models.WorkerDraining,
				models.WorkerLost} {
				into <- gauge(workersDesc, float64(of[status]), string(status))
			}
			if all := of[models.WorkerIdle] + of[models.WorkerBusy]; all > 0 {
				into <- gauge(workerBusyDesc, float64(of[models.WorkerBusy])/float64(all))
			}
		},
	}
}

var (
	stalledDesc     = desc("reelay_stalled_jobs", "Jobs that have rendered without progress for two minutes.")
	deadLettersDesc = desc("reelay_dlq_size", "Open dead letters that operators must act on, counted up to 10,000.")
	outboxDesc      = desc("reelay_outbox_lag_seconds", "The age of the oldest message of the outbox that waits to be relayed.")
	haltedDesc      = desc("reelay_halted_seconds", "For how long an operator has halted schedules or leases, 0 if they are not.", "what")
	unsettledDesc   = desc("reelay_unsettled_dependencies",
		"Dependencies on ended jobs that wait to be settled, counted up to 10,000: such a job still waits for an ended one.")
	settleDesc    = desc("reelay_settle_lag_seconds", "The age of the oldest dependency on an ended job that waits to be settled.")
	approvalsDesc = desc("reelay_open_approvals", "Nodes of workflows that wait for an answer, counted up to 10,000.")
	approvalDesc  = desc("reelay_open_approval_age_seconds", "For how long the oldest of the open approvals has waited for an answer.")
	deletionsDesc = desc("reelay_stuck_deletions", "Deletions of accounts that have deleted nothing for an hour.")
	standbysDesc  = desc("reelay_standbys",
		"Standbys that follow PostgreSQL: waited_for if commits wait for them, or may, and async if they do not.", "state")
	behindDesc  = desc("reelay_standby_behind_bytes", "How much of the log the slowest standby has not replayed yet, 0 without standbys.")
	commitsDesc = desc("reelay_commits_wait_for_standby",
		"1 if commits wait for a standby (synchronous_standby_names): then nothing can be written while none follows.")
	schedulerDesc = desc("reelay_scheduler_lag_seconds", "By how long the most overdue job, or slot of a schedule, has missed its time.")
)

// newHealth is what shows that work gets stuck.
func newHealth(read func(context.Context) (*alerts.Health, error)) prometheus.Collector {
	return &gauges[*alerts.Health]{
		what: "the health", every: readEvery, read: read, descs: []*prometheus.Desc{stalledDesc, deadLettersDesc, outboxDesc, schedulerDesc,
			unsettledDesc, settleDesc, haltedDesc, approvalsDesc, approvalDesc, deletionsDesc, standbysDesc, behindDesc, commitsDesc},
		emit: func(h *alerts.Health, into chan<- prometheus.Metric) {
			into <- gauge(stalledDesc, float64(h.StalledJobs))
			into <- gauge(deadLettersDesc, float64(h.DeadLetters))
			into <- gauge(outboxDesc, h.OutboxLagSeconds)
			into <- gauge(schedulerDesc, h.SchedulerLagSeconds)
			into <- gauge(unsettledDesc, float64(h.Unsettled))
			into <- gauge(settleDesc, h.UnsettledSeconds)
			into <- gauge(approvalsDesc, float64(h.OpenApprovals))
			into <- gauge(approvalDesc, h.OpenApprovalSeconds)
			into <- gauge(deletionsDesc, float64(h.DeletionsStuck))
			into <- gauge(haltedDesc, h.SchedulesHaltedSeconds, "schedules")
			into <- gauge(haltedDesc, h.LeasesHaltedSeconds, "leases")
			into <- gauge(standbysDesc, float64(h.Standbys-h.AsyncStandbys), "waited_for")
			into <- gauge(standbysDesc, float64(h.AsyncStandbys), "async")
			into <- gauge(commitsDesc, oneIf(h.CommitsWait))
			into <- gauge(behindDesc, float64(h.StandbyBehindBytes))
		},
	}
}
