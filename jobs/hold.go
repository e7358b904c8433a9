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

// Fence is what every call about an attempt carries: which attempt, and the
// token that shows that the caller holds its lease.
type Fence struct {
	AttemptID models.AttemptID
	Token     models.FencingToken
}

// Holder is what a worker may do with the job that it holds a lease on. Every
// call is fenced: it returns NOT_FOUND for an attempt that is not the caller's
// and ErrLeaseLost once the lease is gone, and changes nothing then. Every other
// call extends the lease.
type Holder struct {
	DB        *bun.DB
	Objects   Objects
	Catalogue *Catalogue
	Leaser    *Leaser
}

// Answer is what a fenced call learns: how long the lease lasts now, and what
// the control plane wants.
type Answer struct {
	LeaseExpiresAt time.Time
	Directive      Directive
}

// held is a lease with every row of it locked, in the one order of locks.
type held struct {
	worker  *models.Worker
	job     *models.Job
	attempt *models.Attempt
	change  *change
	was     models.WorkerStatus
}

// find returns the caller's attempt, live or ended, or NOT_FOUND or
// ErrLeaseLost.
func (f Fence) find(ctx context.Context, db bun.IDB, p Principal) (*models.Attempt, error) {
	if p.WorkerID == "" {
		return nil, forbidden("This call takes the worker's own token, which registerWorker returned.")
	}
	if !f.AttemptID.Valid() {
		return nil, notFound("attempt")
	}
	attempt, err := models.GetAttempt(ctx, db, f.AttemptID)
	if err != nil {
		return nil, orNotFound(err, "attempt")
	}
	if attempt.WorkerID != p.WorkerID {
		return nil, notFound("attempt")
	}
	if !f.Token.Valid() || attempt.FencingToken != f.Token {
		return nil, ErrLeaseLost
	}
	return attempt, nil
}

// live is find for an attempt that must not be over.
func (f Fence) live(ctx context.Context, db bun.IDB, p Principal) (*models.Attempt, error) {
	attempt, err := f.find(ctx, db, p)
	if err == nil && !attempt.EndedAt.IsZero() {
		return nil, ErrLeaseLost
	}
	return attempt, err
}

// lockHeld locks all rows of a live attempt, or returns ErrLeaseLost if it ended
// meanwhile.
func lockHeld(ctx context.Context, tx bun.Tx, attempt *models.Attempt) (*held, error) {
	job, err := models.GetJob(ctx, tx, attempt.JobID)
	if err != nil {
		return nil, err
	}
	if _, err := models.LockAccount(ctx, tx, job.AccountID); err != nil {
		return nil, fmt.Errorf("lock the account: %w", err)
	}
	return lockLease(ctx, tx, attempt)
}

// lockLease is lockHeld without the account, for what keeps its counters as
// they are.
func lockLease(ctx context.Context, tx bun.Tx, attempt *models.Attempt) (*held, error) {
	h := &held{}
	var err error
	if h.worker, err = models.LockWorker(ctx, tx, attempt.WorkerID); err != nil {
		return nil, fmt.Errorf("lock the worker: %w", err)
	}
	if h.job, err = models.LockJob(ctx, tx, attempt.JobID); err != nil {
		return nil, fmt.Errorf("lock the job: %w", err)
	}
	if h.attempt, err = models.LockAttempt(ctx, tx, attempt.ID); err != nil {
		return nil, fmt.Errorf("lock the attempt: %w", err)
	}
	if !h.attempt.EndedAt.IsZero() {
		return nil, ErrLeaseLost
	}
	h.was = h.worker.Status
	h.change, err = newChange(ctx, tx, h.job)
	return h, err
}

// started notes the first sign of work.
func (h *held) started() error {
	if h.attempt.Status == models.AttemptLeased {
		h.attempt.Status, h.attempt.StartedAt = models.AttemptRunning, h.change.now
	}
	return h.change.started()
}

// extend restarts the lease.
func (h *held) extend() {
	h.attempt.LastHeartbeatAt, h.worker.LastHeartbeatAt = h.change.now, h.change.now
	if until := h.change.now.Add(LeaseTTL); until.After(h.attempt.LeaseExpiresAt) {
		h.attempt.LeaseExpiresAt = until
	}
}

// end ends the attempt and frees its worker. A lost one worked, as far as is
// known, until its last sign. The GPU seconds since its last checkpoint are
// wasted, unless it succeeded.
func (h *held) end(status models.AttemptStatus, class models.FailureClass, reason string) {
	now, a := h.change.now, h.attempt
	a.Status, a.EndedAt, a.FailureClass, a.FailureReason = status, now, class, reason
	worked := now
	if status == models.AttemptLost && a.LastHeartbeatAt.After(a.LeasedAt) {
		worked = a.LastHeartbeatAt
	}
	a.GPUSeconds = max(worked.Sub(a.LeasedAt).Seconds(), 0) // a clock may be set back
	if status != models.AttemptSucceeded {
		since := a.LeasedAt
		if a.CheckpointAt.After(since) {
			since = a.CheckpointAt
		}
		a.WastedGPUSeconds = max(worked.Sub(since).Seconds(), 0)
		h.job.WastedGPUSeconds += a.WastedGPUSeconds
	}
	h.worker.GPUSeconds += a.GPUSeconds
	h.worker.LastHeartbeatAt = now
	if h.worker.Status == models.WorkerBusy {
		h.worker.Status, h.worker.IdleSince = models.WorkerIdle, now
	}
}

// requeue puts the job of an ended attempt back in its place.
func (h *held) requeue(message string) error {
	h.job.Progress.Phase, h.job.Progress.ETASeconds = models.PhaseWaiting, nil
	h.job.Progress.Message, h.job.Progress.UpdatedAt = message, h.change.now
	if err := h.change.queued(true); err != nil {
		return err
	}
	h.change.note(models.EventRequeued, nil)
	return nil
}

// save writes every row of the lease.
func (h *held) save(ctx context.Context) error {
	tx := h.change.tx
	if h.worker.Status != h.was && !CanWorkerMove(h.was, h.worker.Status) {
		return fmt.Errorf("worker %s cannot go from %s to %s", h.worker.ID, h.was, h.worker.Status)
	}
	if err := models.UpdateWorker(ctx, tx, h.worker, h.was); err != nil {
		return fmt.Errorf("update the worker: %w", err)
	}
	if err := models.UpdateAttempt(ctx, tx, h.attempt); err != nil {
		return fmt.Errorf("update the attempt: %w", err)
	}
	return h.change.save(ctx)
}

func (h *held) answer() *Answer {
	return &Answer{LeaseExpiresAt: h.attempt.LeaseExpiresAt, Directive: directive(
		h.job.ID, h.job.CancelRequestedAt, h.job.CancelReason, h.worker.Status, h.worker.DrainReason, h.worker.DrainDeadline)}
}

func directive(job models.JobID, cancelled time.Time, why string, status models.WorkerStatus, drainReason string, deadline time.Time) Directive {
	if !cancelled.IsZero() {
		return Directive{Action: DirectCancel, Reason: why, JobID: job}
	}
	if d := drainDirective(status, drainReason, deadline); d != nil {
		return *d
	}
	return Directive{Action: DirectContinue}
}

// fenced runs one transaction over a live lease: it extends it, lets act change
// it, and saves it.
func (h *Holder) fenced(ctx context.Context, p Principal, f Fence, lock func(context.Context, bun.Tx, *models.Attempt) (*held, error),
	act func(ctx context.Context, l *held) error,
) (*held, error) {
	attempt, err := f.live(ctx, h.DB, p)
	if err != nil {
		return nil, err
	}
	var l *held
	err = inTx(ctx, h.DB, func(ctx context.Context, tx bun.Tx) error {
		if l, err = lock(ctx, tx, attempt); err != nil {
			return err
		}
		l.extend()
		if err := l.started(); err != nil {
			return err
		}
		if err := act(ctx, l); err != nil {
			return err
		}
		return l.save(ctx)
	})
	if err != nil {
		return nil, err
	}
	h.Leaser.Notifier.after(ctx, l.change)
	return l, nil
}

// delivered notes that the worker is being told of a cancel.
func (h *Holder) delivered(ctx context.Context, a *Answer, at time.Time) error {
	if a.Directive.Action != DirectCancel || !at.IsZero() {
		return nil
	}
	return models.DeliverCancel(ctx, h.DB, a.Directive.JobID)
}

// Heartbeat restarts the lease. A lease that ran out but was not reaped yet is
// still the newest one, so it is extended: a worker cut off for a minute keeps
// an hour of work. The first one begins the job. samples are the newest of the
// worker's GPUs, or nil.
func (h *Holder) Heartbeat(ctx context.Context, p Principal, f Fence, samples []GPUSample) (*Answer, error) {
	answer, err := h.heartbeat(ctx, p, f, samples)
	return answer, wrap(err, "heartbeat of attempt %s", f.AttemptID)
}

func (h *Holder) heartbeat(ctx context.Context, p Principal, f Fence, samples []GPUSample) (*Answer, error) {
	utilization, err := utilization(samples)
	if err != nil {
		return nil, err
	}
	if !f.AttemptID.Valid() || !f.Token.Valid() || p.WorkerID == "" {
		_, err := f.live(ctx, h.DB, p)
		return nil, err
	}
	beat, err := models.ExtendLease(ctx, h.DB, p.WorkerID, f.AttemptID, f.Token, LeaseTTL)
	if errors.Is(err, sql.ErrNoRows) { // the first one of an attempt, or none of the caller's
		l, err := h.fenced(ctx, p, f, lockLease, func(context.Context, *held) error { return nil })
		if err != nil {
			return nil, err
		}
		answer := l.answer()
		return answer, h.delivered(ctx, answer, l.job.CancelDeliveredAt)
	}
	if err != nil {
		return nil, err
	}
	if _, err := models.TouchWorker(ctx, h.DB, p.WorkerID, nil, utilization); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	answer := &Answer{LeaseExpiresAt: beat.LeaseExpiresAt, Directive: directive(
		beat.JobID, beat.CancelRequestedAt, beat.CancelReason, beat.WorkerStatus, beat.DrainReason, beat.DrainDeadline)}
	return answer, h.delivered(ctx, answer, beat.CancelDeliveredAt)
}
