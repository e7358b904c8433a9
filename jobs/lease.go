package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

const (
	// LeaseTTL is how long a lease lasts from its last renewal.
	LeaseTTL = 30 * time.Second
	// HeartbeatEvery is how often a worker shall renew its lease.
	HeartbeatEvery = 10 * time.Second
	// CheckpointEvery is how far apart checkpoints shall be while nothing is
	// known of a pool's preemption rate.
	CheckpointEvery = 30 * time.Second
	// MaxLeaseWait bounds one lease call.
	MaxLeaseWait = 25 * time.Second
)

// Lease is a worker's exclusive, time-limited right to a job.
type Lease struct {
	Attempt     *models.Attempt
	Job         *models.Job
	Checkpoints []*models.Artifact // newest first, at most two
}

// Directive is what the control plane wants of a worker now.
type Directive struct {
	Action   DirectiveAction
	Reason   string
	JobID    models.JobID
	Deadline time.Time
}

// DirectiveAction is a directive's verb.
type DirectiveAction string

const (
	DirectContinue  DirectiveAction = "CONTINUE"
	DirectCancel    DirectiveAction = "CANCEL"
	DirectDrain     DirectiveAction = "DRAIN"
	DirectTerminate DirectiveAction = "TERMINATE"
)

// Leaser gives jobs to workers.
type Leaser struct {
	DB       *bun.DB
	Notifier *Notifier
}

// LeaseCall is a worker's request for a job.
type LeaseCall struct {
	WorkerID  models.WorkerID
	Wait      time.Duration
	Warm      []string
	RequestID string
}

// candidates is how many heads of queues a claim looks at before it asks
// PostgreSQL itself: enough for the races of a few claims at once.
const candidates = 8

// Lease waits for a job that the worker can run. Lease and directive are nil if
// there was none in time. A worker that holds a lease already gets it again if
// it repeats the same RequestID, and else none. It returns NOT_FOUND for a
// worker that is not the caller and CONFLICT for one that is over.
func (l *Leaser) Lease(ctx context.Context, p Principal, call LeaseCall) (*Lease, *Directive, error) {
	if err := p.isWorker(call.WorkerID); err != nil {
		return nil, nil, err
	}
	if call.Wait < 0 || call.Wait > MaxLeaseWait {
		return nil, nil, invalid("waitSeconds", "waitSeconds must be from 0 to %.0f.", MaxLeaseWait.Seconds())
	}
	if !validText(call.RequestID, 0, maxKeyRunes) {
		return nil, nil, invalid("requestId", "requestId may have %d printable characters.", maxKeyRunes)
	}
	worker, err := models.TouchWorker(ctx, l.DB, call.WorkerID, call.Warm, nil)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, conflict("This worker is terminated: register again.")
	}
	if err != nil {
		return nil, nil, wrap(err, "lease for worker %s", call.WorkerID)
	}
	lease, directive, err := l.wait(ctx, worker, call)
	return lease, directive, wrap(err, "lease for worker %s", call.WorkerID)
}

// isWorker tells whether the caller is that worker.
func (p Principal) isWorker(id models.WorkerID) error {
	if p.WorkerID == "" {
		return forbidden("This call takes the worker's own token, which registerWorker returned.")
	}
	if p.WorkerID != id {
		return notFound("worker")
	}
	return nil
}

func (l *Leaser) wait(ctx context.Context, worker *models.Worker, call LeaseCall) (*Lease, *Directive, error) {
	if worker.Status == models.WorkerBusy || worker.Status == models.WorkerDraining {
		return l.held(ctx, worker, call)
	}
	timeout := time.NewTimer(call.Wait)
	defer timeout.Stop()

	waiting := l.Notifier.Waiters.join(worker)
	defer l.Notifier.Waiters.leave(waiting)
	for ctx.Err() == nil { // nobody would hear of a lease that is given after it
		lease, err := l.try(ctx, worker, call.RequestID)
		if lease != nil || err != nil {
			return lease, nil, err
		}
		now, err := getWorker(ctx, l.DB, worker.ID)
		if err != nil || now.Status != models.WorkerIdle {
			if err == nil {
				l.Notifier.Waiters.pass(worker.Models) // a wake that it could not use
				return l.held(ctx, worker, call)
			}
			return nil, nil, err
		}
		if l.Notifier.Waiters.isDismissed() {
			return nil, nil, nil
		}
		select {
		case <-waiting.woken:
		case <-timeout.C:
			return nil, nil, nil
		case <-ctx.Done():
		}
	}
	return nil, nil, nil // the worker went away
}

// held answers a worker that has a lease, or takes no more.
func (l *Leaser) held(ctx context.Context, worker *models.Worker, call LeaseCall) (*Lease, *Directive, error) {
	workers, err := models.GetWorkers(ctx, l.DB, []models.WorkerID{worker.ID})
	if err != nil || len(workers) == 0 {
		return nil, nil, err
	}
	directive := drainDirective(workers[0].Status, workers[0].DrainReason, workers[0].DrainDeadline)
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
	return lease, directive, err
}

func drainDirective(status models.WorkerStatus, reason string, deadline time.Time) *Directive {
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
	return &Lease{Attempt: attempt, Job: job, Checkpoints: checkpoints}, err
}

// claimRounds bounds how often one look for work starts over. A round that finds
// only stale heads means that other claims won those, or that they were just
// dropped: what is behind them shows in the next.
const claimRounds = 16

// try claims the first job that is due for the worker. It returns nil if there
// is none, or the worker can take none now.
func (l *Leaser) try(ctx context.Context, worker *models.Worker, requestID string) (*Lease, error) {
	for range claimRounds {
		heads, lost := l.Notifier.Index.First(ctx, worker.Models, candidates)
		if lost != nil {
			break
		}
		if len(heads) == 0 {
			return nil, nil
		}
		lease, err := l.claimFirst(ctx, worker.ID, requestID, heads)
		if errors.Is(err, errCapped) {
			break
		}
		if !errors.Is(err, errStale) {
			return lease, err
		}
	}
	return l.tryWithoutIndex(ctx, worker, requestID)
}

// tryWithoutIndex is try when the index is lost, or shows only accounts at their
// cap: PostgreSQL alone answers, in the same order.
func (l *Leaser) tryWithoutIndex(ctx context.Context, worker *models.Worker, requestID string) (*Lease, error) {
	for range claimRounds {
		next, err := models.NextJobs(ctx, l.DB, worker.Models, candidates)
		if err != nil || len(next) == 0 {
			return nil, err
		}
		lease, err := l.claimFirst(ctx, worker.ID, requestID, readyHints(next))
		if !errors.Is(err, errCapped) && !errors.Is(err, errStale) {
			return lease, err
		}
	}
	return nil, nil
}

var (
	errStale   = errors.New("the job is not queued any more")
	errCapped  = errors.New("the account runs as many jobs as it may")
	errNotIdle = errors.New("the worker is not idle")
)

// claimFirst claims the first of these jobs that is still to be had, or nil if
// the worker is not idle. If there was none it returns why: errCapped if an
// account's cap was a reason, and else errStale.
func (l *Leaser) claimFirst(ctx context.Context, worker models.WorkerID, requestID string, heads []ReadyJob) (*Lease, error) {
	none := errStale
	for _, head := range heads {
		lease, err := l.claim(ctx, worker, head, requestID)
		switch {
		case err == nil:
			return lease, nil
		case errors.Is(err, errNotIdle):
			return nil, nil
		case errors.Is(err, errCapped):
			none = errCapped
		case errors.Is(err, errStale):
			l.dropStale(ctx, head)
		default:
			return nil, err
		}
	}
	return nil, none
}

// dropStale takes a hint out of the index, unless the job is only locked by
// another claim.
func (l *Leaser) dropStale(ctx context.Context, head ReadyJob) {
	job, err := models.GetJob(ctx, l.DB, head.ID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return
	}
	if err != nil || job.Status != models.JobQueued || job.Lane != head.Lane || job.AccountID != head.Account {
		head.VirtualTime = -1
		l.Notifier.log(ctx, l.Notifier.Index.Remove(ctx, head))
	}
}

// claim gives one job to the worker: attempt, job, worker, counters and event in
// one transaction.
func (l *Leaser) claim(ctx context.Context, worker models.WorkerID, head ReadyJob, requestID string) (*Lease, error) {
	var lease *Lease
	var done *change
	err := l.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		account, err := models.LockAccount(ctx, tx, head.Account)
		if errors.Is(err, sql.ErrNoRows) {
			return errStale
		}
		if err != nil {
			return err
		}
		if account.Running >= account.MaxRunning {
			return errCapped
		}
		w, err := models.LockWorker(ctx, tx, worker)
		if err != nil {
			return err
		}
		if w.Status != models.WorkerIdle {
			return errNotIdle
		}
		job, err := models.LockQueuedJob(ctx, tx, head.ID)
		if errors.Is(err, sql.ErrNoRows) || err == nil && job.AccountID != head.Account {
			return errStale
		}
		if err != nil {
			return err
		}
		lease, done, err = assign(ctx, tx, w, job, requestID)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.Notifier.after(ctx, done)
	return lease, nil
}

// assign makes the attempt by which a locked worker gets a locked job.
func assign(ctx context.Context, tx bun.Tx, w *models.Worker, job *models.Job, requestID string) (*Lease, *change, error) {
	c, err := newChange(ctx, tx, job)
	if err != nil {
		return nil, nil, err
	}
	if err := c.move(models.JobAssigned); err != nil {
		return nil, nil, err
	}
	job.AttemptNo++
	attempt := &models.Attempt{
		ID: models.NewAttemptID(), JobID: job.ID, Run: job.Run, AttemptNo: job.AttemptNo, WorkerID: w.ID,
		FencingToken: models.NewFencingToken(), LeaseRequestID: requestID, Status: models.AttemptLeased,
		LeasedAt: c.now, LeaseExpiresAt: c.now.Add(LeaseTTL), LastHeartbeatAt: c.now,
	}
	if err := models.InsertAttempt(ctx, tx, attempt); err != nil {
		return nil, nil, fmt.Errorf("insert the attempt: %w", err)
	}
	job.CurrentAttemptID = attempt.ID
	job.Progress.Phase, job.Progress.UpdatedAt = models.PhaseStarting, c.now
	job.Progress.Message = fmt.Sprintf("given to worker %s", w.ID)
	c.note(models.EventLeased, payload{"attemptNo": job.AttemptNo, "worker": w.ID})
	if err := c.save(ctx); err != nil {
		return nil, nil, err
	}
	w.Status, w.IdleSince = models.WorkerBusy, time.Time{}
	if err := models.UpdateWorker(ctx, tx, w, models.WorkerIdle); err != nil {
		return nil, nil, fmt.Errorf("update the worker: %w", err)
	}
	lease := &Lease{Attempt: attempt, Job: job}
	if job.LatestCheckpointID != "" {
		lease.Checkpoints, err = models.ListCheckpoints(ctx, tx, job.ID, 2)
	}
	return lease, c, err
}
