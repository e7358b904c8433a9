package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Fence is what every call about an attempt carries: the attempt's id, and the token that
// proves that the caller holds its lease.
type Fence struct {
	AttemptID models.AttemptID
	Token     models.FencingToken
}

// Attempts performs the calls of a worker about the job that it has leased. Every call is fenced: it
// returns NOT_FOUND for an attempt of another worker, and ErrLeaseLost after the lease ended, and
// then changes nothing. A call that succeeds extends the lease.
type Attempts struct {
	DB        *bun.DB
	Objects   jobs.Objects
	Catalogue *catalogue.Catalogue
	Leaser    *Leaser

	beats           batch.Group[*beat]
	keys            batch.Group[*issue]
	keeping, ending batch.Group[*fencedCall]
}

// Heartbeats and progress reports are frequent, and agents do not wait for their answers. If
// several workers send them at the same time, a batch waits for more calls.
const (
	beatLinger   = 20 * time.Millisecond
	beatSiblings = 1
	beatsEnough  = 16
)

// NewAttempts returns a holder.
func NewAttempts(db *bun.DB, objects jobs.Objects, catalogue *catalogue.Catalogue, leaser *Leaser) *Attempts {
	return &Attempts{
		DB: db, Objects: objects, Catalogue: catalogue, Leaser: leaser,
		beats: batch.Group[*beat]{Linger: beatLinger, MinSiblings: beatSiblings, Enough: beatsEnough},
	}
}

// Answer is the result of a fenced call: when the lease expires now, and what the worker is asked
// to do.
type Answer struct {
	LeaseExpiresAt time.Time
	Directive      Directive
}

// lockedLease is a lease whose rows are all locked, in the one lock order.
type lockedLease struct {
	worker  *models.Worker
	job     *models.Job
	attempt *models.Attempt
	change  *change.Change

	wasWorker models.Worker
	// atWork means that the attempt has ended, and that something outside its worker may go on with the job.
	atWork bool

	// objects has what the database knows of the objects that the calls name.
	objects map[string]models.KnownObject
	issued  []*models.IssuedUpload
	kept    []*models.Artifact
}

// check returns NOT_FOUND or ErrLeaseLost unless the fence matches the attempt found, live or
// ended.
func (f Fence) check(p jobs.Principal, found *models.Attempt) error {
	switch {
	case found == nil || found.WorkerID != p.WorkerID:
		return apierror.NotFound("attempt")
	case !f.Token.Valid() || found.FencingToken != f.Token:
		return apierror.ErrLeaseLost
	}
	return nil
}

// askedBy refuses callers that are not workers, and malformed attempt ids.
func (f Fence) askedBy(p jobs.Principal) error {
	switch {
	case p.WorkerID == "":
		return apierror.Forbidden("This call requires the worker's own token, which registerWorker returned.")
	case !f.AttemptID.Valid():
		return apierror.NotFound("attempt")
	}
	return nil
}

// find returns the caller's attempt, live or ended. It returns NOT_FOUND or ErrLeaseLost if
// the fence does not match.
func (f Fence) find(ctx context.Context, db bun.IDB, p jobs.Principal) (*models.Attempt, error) {
	if err := f.askedBy(p); err != nil {
		return nil, err
	}
	attempt, err := models.GetAttempt(ctx, db, f.AttemptID)
	if err != nil {
		return nil, apierror.OrNotFound(err, "attempt")
	}
	return attempt, f.check(p, attempt)
}

// live is find for an attempt that must not have ended.
func (f Fence) live(ctx context.Context, db bun.IDB, p jobs.Principal) (*models.Attempt, error) {
	attempt, err := f.find(ctx, db, p)
	if err == nil && !attempt.EndedAt.IsZero() {
		return nil, apierror.ErrLeaseLost
	}
	return attempt, err
}

// lockLease locks all rows of a live attempt. It returns ErrLeaseLost if the attempt has ended.
func lockLease(ctx context.Context, tx bun.Tx, attempt *models.Attempt) (*lockedLease, error) {
	all, err := lockLeases(ctx, tx, []models.Fence{{WorkerID: attempt.WorkerID, AttemptID: attempt.ID, Token: attempt.FencingToken}}, 0)
	if err != nil {
		return nil, err
	}
	if l := all[attempt.ID]; l != nil {
		return l, nil
	}
	return nil, apierror.ErrLeaseLost
}

// lockLeases locks all rows of leases. The result leaves out leases that ended or belong to another
// worker.
func lockLeases(ctx context.Context, tx bun.Tx, holds []models.Fence, patience time.Duration) (map[models.AttemptID]*lockedLease, error) {
	now, locked, err := models.LockLeases(ctx, tx, holds, patience)
	if err != nil {
		return nil, fmt.Errorf("lock the leases: %w", err)
	}
	all := make(map[models.AttemptID]*lockedLease, len(locked))
	for _, row := range locked {
		if !row.Attempt.EndedAt.IsZero() {
			continue // it ended before the lock was granted
		}
		l := &lockedLease{worker: row.Worker, job: row.Job, attempt: row.Attempt, wasWorker: *row.Worker}
		l.change = change.At(tx, now, l.job)
		all[l.attempt.ID] = l
	}
	return all, nil
}

// started records the first sign of work.
func (h *lockedLease) started() error {
	if h.attempt.Status == models.AttemptLeased {
		h.attempt.Status, h.attempt.StartedAt = models.AttemptRunning, h.change.Now
	}
	return h.change.Started()
}

// extend extends the lease.
func (h *lockedLease) extend() {
	h.attempt.LastHeartbeatAt, h.worker.LastHeartbeatAt = h.change.Now, h.change.Now
	if until := h.change.Now.Add(LeaseTTL); until.After(h.attempt.LeaseExpiresAt) {
		h.attempt.LeaseExpiresAt = until
	}
}

// end ends the attempt and frees its worker. A lost attempt is assumed to have worked until
// its last heartbeat. Unless it succeeded, the GPU seconds since its last checkpoint are
// counted as wasted; all of them if its video was defective, since the account does not pay for it.
// Nothing is wasted of one that leaves its work to the next.
func (h *lockedLease) end(status models.AttemptStatus, class models.FailureClass, reason string) {
	now, a := h.change.Now, h.attempt
	a.Status, a.EndedAt, a.FailureClass, a.FailureReason = status, now, class, reason
	worked := now
	if status == models.AttemptLost && a.LastHeartbeatAt.After(a.LeasedAt) {
		worked = a.LastHeartbeatAt
	}
	a.GPUSeconds = max(worked.Sub(a.LeasedAt).Seconds(), 0) // a clock may be set back
	if status != models.AttemptSucceeded && !h.leavesWork(status) {
		since := a.LeasedAt
		if a.CheckpointAt.After(since) && class != models.FailDefectiveResult {
			since = a.CheckpointAt
		}
		a.WastedGPUSeconds = max(worked.Sub(since).Seconds(), 0)
		h.job.WastedGPUSeconds += a.WastedGPUSeconds
	}
	h.atWork = status != models.AttemptSucceeded && h.job.Handle != "" && class != models.FailDefectiveResult
	h.change.Ending = &jobs.AttemptEnd{
		Attempt: a, Job: h.job, Worker: h.worker, Preempted: h.takenAway(class),
		Expired: status == models.AttemptLost && a.LeaseExpiresAt.Before(now),
	}
	h.worker.GPUSeconds += a.GPUSeconds
	h.worker.LastHeartbeatAt = now
	if h.worker.Status == models.WorkerBusy {
		h.worker.Status, h.worker.IdleSince = models.WorkerIdle, now
	}
}

// leavesWork reports whether an attempt that ends with this status leaves work that still runs outside
// its worker, for the next attempt to adopt.
func (h *lockedLease) leavesWork(status models.AttemptStatus) bool {
	over := status == models.AttemptLost || status == models.AttemptReleased
	return over && h.job.HasHandle() && !h.job.AtMostOnce && h.job.CancelRequestedAt.IsZero()
}

// takenAway reports whether the end of an attempt with this class was a preemption, which neither
// Reelay nor an operator caused.
func (h *lockedLease) takenAway(class models.FailureClass) bool {
	if reason := h.worker.DrainReason; reason != models.LeavesPreempted && models.IsDeliberate(reason) {
		return false
	}
	return class == models.FailPreempted || class == models.FailWorkerLost && h.worker.CapacityClass == models.CapacitySpot
}

// preempted counts the loss of a spot worker, with notice or without.
func (h *lockedLease) preempted() {
	if h.worker.CapacityClass == models.CapacitySpot {
		h.job.Preemptions++
	}
}

// requeue puts the job of an ended attempt back in its place in the queue. A job that runs at
// most once fails instead.
func (h *lockedLease) requeue(message string) error {
	if h.job.AtMostOnce {
		return h.spent()
	}
	h.job.Progress.Enter(models.PhaseWaiting, message, h.change.Now)
	if err := h.change.Queued(true); err != nil {
		return err
	}
	h.change.Note(models.EventRequeued, nil)
	return nil
}

// save writes every row of the lease.
func (h *lockedLease) save(ctx context.Context) error {
	return saveLeases(ctx, h.change.Tx, []*lockedLease{h})
}

// saveLeases is save for many leases.
func saveLeases(ctx context.Context, tx bun.Tx, all []*lockedLease) error {
	var w models.Writes
	var changes []*change.Change
	for _, h := range all {
		if was := h.wasWorker.Status; h.worker.Status != was && !change.CanWorkerMove(was, h.worker.Status) {
			return fmt.Errorf("worker %s cannot go from %s to %s", h.worker.ID, was, h.worker.Status)
		}
		w.Workers = append(w.Workers, models.Changed[models.Worker]{Was: &h.wasWorker, Is: h.worker})
		w.Attempts = append(w.Attempts, h.attempt)
		w.Issued, w.Artifacts = append(w.Issued, h.issued...), append(w.Artifacts, h.kept...)
		changes = append(changes, h.change)
	}
	if err := change.SaveAll(ctx, tx, changes, w); err != nil {
		return err
	}
	return freeSlots(ctx, tx, all)
}

func (h *lockedLease) answer() *Answer {
	wanted := &models.Wanted{
		Status: h.worker.Status, DrainReason: h.worker.DrainReason, DrainDeadline: h.worker.DrainDeadline,
		JobID: h.job.ID, CancelRequestedAt: h.job.CancelRequestedAt, CancelReason: h.job.CancelReason,
	}
	if h.change.Now.Sub(h.attempt.YieldRequestedAt) < YieldWithin {
		wanted.YieldRequestedAt, wanted.YieldTo = h.attempt.YieldRequestedAt, h.attempt.YieldTo
	}
	return &Answer{LeaseExpiresAt: h.attempt.LeaseExpiresAt, Directive: directive(wanted)}
}

// directive returns the most urgent directive for a worker.
func directive(w *models.Wanted) Directive { return Directives(w)[0] }

// Directives returns the directives for a worker, the most urgent first. There is at least one,
// which can be CONTINUE. A draining worker is not asked to yield, since it takes no other job.
func Directives(w *models.Wanted) []Directive {
	var all []Directive
	if !w.CancelRequestedAt.IsZero() {
		all = append(all, Directive{Action: DirectCancel, Reason: w.CancelReason, JobID: w.JobID})
	}
	if d := DrainDirective(w.Status, w.DrainReason, w.DrainDeadline); d != nil {
		all = append(all, *d)
	}
	if len(all) == 0 && !w.YieldRequestedAt.IsZero() {
		all = append(all, Directive{
			Action: DirectCheckpoint, Reason: text.A(string(w.YieldTo)) + " job waits past its target",
			JobID: w.JobID, Deadline: w.YieldRequestedAt.Add(YieldWithin).UTC(),
		})
	}
	if len(all) == 0 {
		all = append(all, Directive{Action: DirectContinue})
	}
	return all
}

// delivered records that the answer tells the worker of a cancel.
func (h *Attempts) delivered(ctx context.Context, a *Answer, at time.Time) error {
	if a.Directive.Action != DirectCancel || !at.IsZero() {
		return nil
	}
	return models.DeliverCancel(ctx, h.DB, a.Directive.JobID)
}
