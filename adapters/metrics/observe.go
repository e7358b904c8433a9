package metrics

import (
	"encoding/json"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/tracing"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
)

// submits counts what became of submits.
type submits struct{ accepted, refused *prometheus.CounterVec }

func newSubmits() submits {
	return submits{
		accepted: counter("reelay_submits_accepted_total", "Jobs that were accepted, by tier. A repeated idempotency key counts once.", "tier"),
		refused: counter("reelay_submits_refused_total",
			"Submits that were refused, by error code and tier. INTERNAL is a failure of Reelay's own.", "code", "tier"),
	}
}

func (s *submits) all() []prometheus.Collector { return []prometheus.Collector{s.accepted, s.refused} }

// Refused implements [jobs.Observer].
func (m *Metrics) Refused(code apierror.Code, tier models.Tier) {
	m.submits.refused.WithLabelValues(string(code), string(tier)).Inc()
}

// Submitted implements [jobs.Observer].
func (m *Metrics) Submitted(job *models.Job) {
	m.submits.accepted.WithLabelValues(string(job.Tier)).Inc()
	m.outcomes.submitted(job)
}

// Yielded implements [jobs.Observer].
func (m *Metrics) Yielded(to models.Tier, job *models.Job, wasted float64) {
	m.outcomes.yields.WithLabelValues(string(job.Lane), string(to)).Inc()
	m.outcomes.yieldCost.WithLabelValues(string(job.Lane)).Add(wasted)
}

// Changed implements [jobs.Observer].
func (m *Metrics) Changed(before, after *models.Job) {
	m.outcomes.changed(before, after)
	m.waits.changed(before, after)
}

// waits are the times of jobs, and by how much they were predicted wrong.
type waits struct {
	etaError, completionError, queue, dueLag, startLag, recovery, generation *prometheus.HistogramVec

	models, resolutions *bound
}

// errorBuckets are in seconds, as all buckets.
var (
	errorBuckets  = []float64{0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600}
	waitBuckets   = []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400}
	dueBuckets    = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60}
	startBuckets  = []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
	renderBuckets = []float64{1, 5, 10, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14400}
	lagBuckets    = []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60}
	uploadBuckets = []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300}
)

func newWaits(byModel *bound) waits {
	return waits{
		models: byModel, resolutions: newBound(maxResolutions),
		etaError: histogram("reelay_eta_error_seconds", "By how much a job's wait was predicted wrong when it was submitted, in seconds.",
			errorBuckets, "tier"),
		completionError: histogram("reelay_completion_error_seconds",
			"By how much a job's completion was predicted wrong when it was submitted, in seconds.", errorBuckets, "tier"),
		queue: histogram("reelay_queue_wait_seconds",
			"How long the runs of jobs were queued before their first lease, without the time in which their queue was paused, by tier.",
			waitBuckets, "tier"),
		dueLag: histogram("reelay_job_due_lag_seconds",
			"The time from a job's runAt, or the end of the pause before a retry, until it was queued.", dueBuckets),
		startLag: histogram("reelay_job_start_lag_seconds", "The time from a lease to the worker's first sign of work.", startBuckets),
		recovery: histogram("reelay_preemption_recovery_seconds",
			"The time from the requeueing of a preempted job to the start of its next attempt.", startBuckets),
		generation: histogram("reelay_generation_seconds",
			"How long workers held the runs of completed jobs, over all attempts, by model and resolution. Drafts are left out.", renderBuckets,
			"model", "resolution"),
	}
}

func (w *waits) all() []prometheus.Collector {
	return []prometheus.Collector{w.etaError, w.completionError, w.queue, w.dueLag, w.startLag, w.recovery, w.generation}
}

// changed compares a first lease, and a completion, with what was predicted at the submit, and
// measures times. Failures cannot be predicted, so a run with a failed attempt is left out there.
func (w *waits) changed(before, after *models.Job) {
	tier := string(after.Tier)
	switch {
	case before.Status.Waiting() && before.BlockedBy == 0 && !before.RunAt.IsZero() && after.Status == models.JobQueued:
		observe(w.dueLag.WithLabelValues(), max(after.QueuedAt.Sub(before.RunAt).Seconds(), 0), after)
	case before.Status == models.JobQueued && after.Status == models.JobAssigned:
		if before.WaitedSeconds == nil && after.WaitedSeconds != nil {
			observe(w.queue.WithLabelValues(tier), *after.WaitedSeconds, after)
		}
		if after.AttemptNo == 1 && after.PredictedWaitSeconds != nil && after.WaitedSeconds != nil {
			observe(w.etaError.WithLabelValues(tier), math.Abs(*after.PredictedWaitSeconds-*after.WaitedSeconds), after)
		}
	case before.Status == models.JobAssigned && after.Status == models.JobRunning:
		w.started(after)
	case before.Status != models.JobCompleted && after.Status == models.JobCompleted:
		w.completed(after)
	}
}

// started measures the start of an attempt, which Progress.UpdatedAt is at that moment.
func (w *waits) started(job *models.Job) {
	now := job.Progress.UpdatedAt
	observe(w.startLag.WithLabelValues(), max(now.Sub(job.LeasedAt).Seconds(), 0), job)
	if job.Requeued && job.Preemptions > 0 && !job.QueuedAt.IsZero() {
		observe(w.recovery.WithLabelValues(), max(now.Sub(job.QueuedAt).Seconds(), 0), job)
	}
}

func (w *waits) completed(job *models.Job) {
	if job.LeasedSeconds != nil && job.DraftSteps == 0 && job.ReusedFrom == "" && !job.Approval() {
		observe(w.generation.WithLabelValues(w.models.of(job.Model), w.resolutions.of(resolution(job))), *job.LeasedSeconds, job)
	}
	if job.Run == 1 && job.Failures == 0 && job.PredictedSeconds != nil {
		took := job.CompletedAt.Sub(job.CreatedAt).Seconds()
		observe(w.completionError.WithLabelValues(string(job.Tier)), math.Abs(*job.PredictedSeconds-took), job)
	}
}

// resolution is the resolution that a job's params name, or "".
func resolution(job *models.Job) string {
	var params struct {
		Resolution string `json:"resolution"`
	}
	if json.Unmarshal(job.Params, &params) != nil {
		return ""
	}
	return params.Resolution
}

// observe counts a value of a job, with its trace as an exemplar if the trace is recorded.
func observe(in prometheus.Observer, value float64, job *models.Job) {
	if job.Traceparent != "" {
		if id := tracing.SampledID(job.Traceparent); id != "" {
			in.(prometheus.ExemplarObserver).ObserveWithExemplar(value, prometheus.Labels{"trace_id": id})
			return
		}
	}
	in.Observe(value)
}

// attempts counts the ends of attempts and their checkpoints. Counters by pool or region are of
// the worker that had the attempt.
type attempts struct {
	ended, preemptions, expirations *prometheus.CounterVec
	checkpoint                      *prometheus.HistogramVec

	pools           *poolNames
	models, regions *bound
}

func newAttempts(pools *poolNames, byModel *bound) attempts {
	return attempts{
		pools: pools, models: byModel, regions: newBound(maxPools),
		ended: counter("reelay_attempts_ended_total", "Attempts that ended, by status and pool.", "status", "pool"),
		preemptions: counter("reelay_preemptions_total", "Attempts whose capacity was taken away, with notice or without, by region and pool.",
			"region", "pool"),
		expirations: counter("reelay_lease_expirations_total", "Leases that ran out because their worker was silent, by pool.", "pool"),
		checkpoint: histogram("reelay_checkpoint_duration_seconds", "How long it took to make and upload a checkpoint, by model.", uploadBuckets,
			"model"),
	}
}

func (a *attempts) all() []prometheus.Collector {
	return []prometheus.Collector{a.ended, a.preemptions, a.expirations, a.checkpoint}
}

// Ended implements [jobs.Observer].
func (m *Metrics) Ended(end jobs.AttemptEnd) {
	a, attempt, worker := &m.attempts, end.Attempt, end.Worker
	pool := a.pools.of(worker.PoolID)
	a.ended.WithLabelValues(string(attempt.Status), pool).Inc()
	if end.Preempted {
		a.preemptions.WithLabelValues(a.regions.of(worker.Region), pool).Inc()
	}
	if end.Expired {
		a.expirations.WithLabelValues(pool).Inc()
	}
}

// Checkpointed implements [jobs.Observer].
func (m *Metrics) Checkpointed(job *models.Job, seconds *float64) {
	if seconds != nil {
		observe(m.attempts.checkpoint.WithLabelValues(m.attempts.models.of(job.Model)), *seconds, job)
	}
}

// newWebhooks counts the tries of webhooks.
func newWebhooks() *prometheus.CounterVec {
	return counter("reelay_webhook_deliveries_total",
		"Webhook deliveries by outcome: delivered, failed (retried later) and given_up (not retried).", "outcome")
}

// Webhook counts a try of a webhook.
func (m *Metrics) Webhook(outcome string) { m.webhooks.WithLabelValues(outcome).Inc() }

// slots counts what became of the slots of schedules.
type slots struct {
	ended, left *prometheus.CounterVec
	lag         *prometheus.HistogramVec
}

func newSlots() slots {
	return slots{
		ended: counter("reelay_schedule_slots_total",
			"Slots of schedules that ended, by state (FIRED, SKIPPED or REFUSED) and cause (CRON, CATCH_UP, TRIGGER or BACKFILL).", "state",
			"cause"),
		left: counter("reelay_schedule_slots_left_out_total",
			"Rows of slots that did not fire, by reason: late (no process decided in time), limit (the account had too many waiting), paused, "+
				"changed (its times were), overlap, given_up (not submitted for too long) or refused.", "reason"),
		lag: histogram("reelay_schedule_fire_lag_seconds",
			"From the time of a slot, with its jitter, to its job or workflow, by tier. Slots of an outage, triggers and backfills do not count.",
			lagBuckets, "tier"),
	}
}

// Slot counts a slot of a schedule that ended, and by how much it missed its time.
func (m *Metrics) Slot(slot *schedules.Slot, lag time.Duration) {
	m.slots.ended.WithLabelValues(string(slot.State), string(slot.Cause)).Inc()
	if slot.LeftOut != "" {
		m.slots.left.WithLabelValues(string(slot.LeftOut)).Inc()
	}
	if slot.State == schedules.SlotFired && slot.Cause == schedules.SlotCron {
		m.slots.lag.WithLabelValues(string(slot.Tier)).Observe(lag.Seconds())
	}
}
