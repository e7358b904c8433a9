package lease

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/internal/tracing"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

const (
	// LeaseTTL is how long a lease lasts from its last renewal.
	LeaseTTL = 30 * time.Second
	// HeartbeatEvery is how often a worker should renew its lease.
	HeartbeatEvery = 10 * time.Second
	// MaxLeaseWait bounds the wait of one lease call.
	MaxLeaseWait = 25 * time.Second
	// busyPause bounds the wait of a lease call of a worker that already has a job. It is short, so
	// that the worker soon gets another job if that one ends meanwhile, and long enough that a
	// worker that asks in a loop does not use up a processor.
	busyPause = time.Second
	// quarantinePause bounds the wait of a lease call of a worker in quarantine.
	quarantinePause = 5 * time.Second
	// SignEvery is the longest time between two calls of a healthy worker. A worker without a job
	// makes lease calls, which wait up to MaxLeaseWait.
	SignEvery = MaxLeaseWait + 5*time.Second
)

// Lease is a worker's exclusive, time-limited right to a job.
type Lease struct {
	Attempt     *models.Attempt
	Job         *models.Job
	Checkpoints []*models.Artifact // newest first, at most two
	Inputs      []inputs.Named     // the files from which the job starts
	// Params are the job's, with the values of other jobs' outputs filled in. See FillPrompt for
	// the prompt.
	Params json.RawMessage
	// CheckpointEvery is the time between two checkpoints.
	CheckpointEvery time.Duration
}

// Directive is what the control plane wants from a worker now.
type Directive struct {
	Action   DirectiveAction
	Reason   string
	JobID    models.JobID
	Deadline time.Time
}

// DirectiveAction is a directive's verb.
type DirectiveAction string

const (
	DirectContinue DirectiveAction = "CONTINUE"
	DirectCancel   DirectiveAction = "CANCEL"
	// DirectCheckpoint asks the worker to save a checkpoint of its job, and to hand the job back.
	DirectCheckpoint DirectiveAction = "CHECKPOINT"
	DirectDrain      DirectiveAction = "DRAIN"
	DirectTerminate  DirectiveAction = "TERMINATE"
)

// Leaser gives jobs to workers.
type Leaser struct {
	DB        *bun.DB
	Notifier  *change.Notifier
	Catalogue *catalogue.Catalogue
	// Checkpoints decides how often workers save them. It may be nil.
	Checkpoints *checkpoints.Plans
	// Estimates decides for which busy worker a job should wait because its model is loaded there.
	// It may be nil.
	Estimates *estimate.Estimator

	touches batch.Group[*touch]
	looks   batch.Keyed[string, *search] // by kind of worker
}

// NewLeaser returns a leaser.
func NewLeaser(db *bun.DB, notifier *change.Notifier, catalogue *catalogue.Catalogue) *Leaser {
	return &Leaser{DB: db, Notifier: notifier, Catalogue: catalogue, looks: batch.Keyed[string, *search]{MaxSize: claimSize}}
}

// maxRequestIDRunes bounds the id that identifies a repeated lease call.
const maxRequestIDRunes = 255

// LeaseCall is a worker's request for a job.
type LeaseCall struct {
	WorkerID  models.WorkerID
	Wait      time.Duration
	Warm      []string
	RequestID string
}

// Lease waits for a job that the worker can run. Lease and directive are nil if there was none in
// time. A worker that already has a lease gets the same one if it repeats the RequestID; otherwise
// it gets none, after at most a second. A RequestID whose lease has ended never gets another. Lease
// returns NOT_FOUND for a worker that is not the caller, and CONFLICT for one that is terminated.
func (l *Leaser) Lease(ctx context.Context, p jobs.Principal, call LeaseCall) (*Lease, *Directive, error) {
	if err := p.RequireWorker(call.WorkerID); err != nil {
		return nil, nil, err
	}
	if call.Wait < 0 || call.Wait > MaxLeaseWait {
		return nil, nil, apierror.Invalid("waitSeconds", "waitSeconds must be from 0 to %.0f.", MaxLeaseWait.Seconds())
	}
	if !text.Valid(call.RequestID, 0, maxRequestIDRunes) {
		return nil, nil, apierror.Invalid("requestId", "requestId may have %d printable characters.", maxRequestIDRunes)
	}
	known := l.Catalogue.Current()
	if err := catalogue.ValidNames("warmModels", call.Warm); err != nil {
		return nil, nil, err
	}
	worker, err := l.touch(ctx, call)
	if err != nil {
		return nil, nil, apierror.Wrap(err, "lease for worker %s", call.WorkerID)
	}
	lease, directive, err := l.wait(ctx, known, worker, call)
	return lease, directive, apierror.Wrap(err, "lease for worker %s", call.WorkerID)
}

// touch records that a worker asked for a job, batched with other workers.
func (l *Leaser) touch(ctx context.Context, call LeaseCall) (*models.Worker, error) {
	t := &touch{Touch: models.Touch{WorkerID: call.WorkerID, Warm: call.Warm}}
	if err := jobs.InTurn(ctx, &l.touches, t, l.touchAll); err != nil {
		return nil, err
	}
	return t.worker, t.err
}

// touch is a worker that asks for a job. worker is its row after that.
type touch struct {
	models.Touch
	worker *models.Worker
	err    error
}

// touchAll records that workers asked. It waits for each row up to patience.
func (l *Leaser) touchAll(ctx context.Context, all []*touch, patience time.Duration) error {
	newest := map[models.WorkerID]models.Touch{}
	for _, t := range all {
		newest[t.WorkerID] = t.Touch
	}
	var rows []*models.Worker
	err := jobs.WithRetry(ctx, func() (err error) {
		rows, err = models.TouchWorkers(ctx, l.DB, slices.Collect(maps.Values(newest)), patience)
		return err
	})
	if err != nil {
		return jobs.BatchError(err)
	}
	found := lo.KeyBy(rows, func(w *models.Worker) models.WorkerID { return w.ID })
	for _, t := range all {
		t.worker = found[t.WorkerID]
		if t.worker == nil || t.worker.Status == models.WorkerTerminated {
			t.err = apierror.Conflict("This worker is terminated: register again.")
		}
	}
	return nil
}

func (l *Leaser) wait(ctx context.Context, known *catalogue.Snapshot, worker *models.Worker, call LeaseCall) (*Lease, *Directive, error) {
	if worker.Status == models.WorkerBusy || worker.Status == models.WorkerDraining {
		lease, directive, err := l.answerBusy(ctx, worker, call)
		if lease == nil && directive == nil && err == nil {
			select {
			case <-time.After(min(call.Wait, busyPause)):
			case <-ctx.Done():
			}
		}
		return lease, directive, err
	}
	if sat, err := l.satOut(ctx, worker, call.Wait); sat || err != nil {
		return nil, nil, err
	}
	timeout := time.NewTimer(call.Wait)
	defer timeout.Stop()

	reach := known.CapabilityOf(worker.Offer)
	waiting := l.Notifier.Waiters.Join(worker, reach, func(name string) estimate.StartCost {
		model, err := known.Model(name)
		if err != nil {
			model = &catalogue.Model{Name: name} // it was removed, and its jobs still wait
		}
		return l.Estimates.StartCost(model, worker)
	})
	defer l.Notifier.Waiters.Leave(waiting)
	var woken jobs.Work
	looked := false        // it was woken to search again
	for ctx.Err() == nil { // a lease that is granted later would reach nobody
		s := &search{worker: worker, reach: reach, requestID: call.RequestID, kind: waiting.Kind, stays: call.Wait > 0}
		lease, passed, err := l.look(ctx, s)
		if errors.Is(err, models.ErrAnswered) {
			// This call is a late duplicate: its caller is gone and would not run the job.
			l.Notifier.Waiters.PassOn(waiting, woken)
			return nil, nil, nil
		}
		if looked && lease != nil {
			// There may be jobs for other workers too, such as after a pause.
			l.Notifier.Waiters.PassOn(waiting, jobs.Work{})
		}
		if lease != nil || err != nil {
			return lease, nil, err
		}
		now, err := jobs.GetWorker(ctx, l.DB, worker.ID)
		if err != nil || now.Status != models.WorkerIdle {
			if err == nil {
				l.Notifier.Waiters.Wake(woken.Queue, woken.Account) // this worker cannot use the wake
				return l.answerBusy(ctx, worker, call)
			}
			return nil, nil, err
		}
		if now.Key() != waiting.Kind {
			// Its pool now takes other jobs: the worker asks again at once.
			l.Notifier.Waiters.PassOn(waiting, woken)
			return nil, nil, nil
		}
		if l.Notifier.Waiters.IsDismissed() {
			return nil, nil, nil
		}
		if !now.QuarantinedUntil.Equal(worker.QuarantinedUntil) {
			// Its host went into quarantine since the call began: it asks again at once.
			l.Notifier.Waiters.PassOn(waiting, woken)
			return nil, nil, nil
		}
		if passed {
			l.Notifier.Waiters.PassOn(waiting, woken)
		}
		select {
		case woken = <-waiting.Woken:
			looked = woken == jobs.Work{}
		case <-s.later():
		case <-timeout.C:
			return nil, nil, nil
		case <-ctx.Done():
		}
	}
	return nil, nil, nil // the worker went away
}

// satOut reports whether the worker's host is in quarantine, and waits then, for a few seconds at
// most: an operator may release it.
func (l *Leaser) satOut(ctx context.Context, worker *models.Worker, wait time.Duration) (bool, error) {
	if worker.QuarantinedUntil.IsZero() {
		return false, nil
	}
	now, err := postgres.Now(ctx, l.DB)
	if err != nil || !worker.Quarantined(now) {
		return false, err
	}
	select {
	case <-time.After(min(wait, quarantinePause)):
	case <-ctx.Done():
	}
	return true, nil
}

// answerBusy answers a worker that has a lease or takes no more jobs.
func (l *Leaser) answerBusy(ctx context.Context, worker *models.Worker, call LeaseCall) (*Lease, *Directive, error) {
	workers, err := models.GetWorkers(ctx, l.DB, []models.WorkerID{worker.ID})
	if err != nil || len(workers) == 0 {
		return nil, nil, err
	}
	directive := DrainDirective(workers[0].Status, workers[0].DrainReason, workers[0].DrainDeadline)
	attempt, err := models.FindLiveAttempt(ctx, l.DB, worker.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, directive, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if call.RequestID == "" || call.RequestID != attempt.LeaseRequestID {
		return nil, directive, nil
	}
	lease, err := readLease(ctx, l.DB, attempt)
	if err != nil {
		return nil, nil, err
	}
	return l.paced(lease, worker), directive, nil
}

// paced sets the checkpoint interval of a lease.
func (l *Leaser) paced(lease *Lease, worker *models.Worker) *Lease {
	lease.CheckpointEvery = l.Checkpoints.Interval(worker.PoolID, lease.Job.Model)
	return lease
}

// DrainDirective returns the directive for a worker that is DRAINING, or nil for others.
func DrainDirective(status models.WorkerStatus, reason string, deadline time.Time) *Directive {
	if status != models.WorkerDraining {
		return nil
	}
	return &Directive{Action: DirectDrain, Reason: reason, Deadline: deadline}
}

func readLease(ctx context.Context, db bun.IDB, attempt *models.Attempt) (*Lease, error) {
	job, err := models.GetJob(ctx, db, attempt.JobID)
	if err != nil {
		return nil, err
	}
	checkpoints, err := models.ListCheckpoints(ctx, db, job.ID, 2)
	if err != nil {
		return nil, err
	}
	lease := &Lease{Attempt: attempt, Job: job, Checkpoints: checkpoints}
	return lease, lease.readInputs(ctx, db)
}

// readInputs reads the files and the values in params that the job takes from elsewhere.
func (l *Lease) readInputs(ctx context.Context, db bun.IDB) (err error) {
	if l.Inputs, err = inputs.Of(ctx, db, l.Job); err == nil {
		l.Params, err = inputs.FillParams(ctx, db, l.Job)
	}
	return err
}

// Traceparent returns the traceparent of the attempt's span, for its worker, or "" if the job has
// none.
func (l *Lease) Traceparent() string {
	if l.Job.Traceparent == "" {
		return ""
	}
	return tracing.ForAttempt(l.Job.Traceparent, string(l.Job.ID), l.Attempt.AttemptNo)
}
