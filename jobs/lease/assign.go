package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// assignment is a locked job that is given to a locked worker.
type assignment struct {
	worker    *models.Worker
	job       *models.Job
	requestID string
	// closedUntil is when a queue of the job's lane was closed last.
	closedUntil time.Time

	lease  *Lease
	change *change.Change
}

// assignAll makes the attempts that give jobs to workers. It returns models.ErrTurn if the
// lane's turns have changed since they were read, and models.ErrNoRoom if an account has
// reached its running limit meanwhile.
func assignAll(ctx context.Context, tx bun.Tx, now time.Time, all []*assignment, starts models.Starts) error {
	var attempts []*models.Attempt
	var workers []models.Changed[models.Worker]
	var changes []*change.Change
	for _, a := range all {
		was := *a.worker
		if err := a.make(tx, now); err != nil {
			return err
		}
		if err := a.lease.read(ctx, tx); err != nil {
			return err
		}
		attempts, changes = append(attempts, a.lease.Attempt), append(changes, a.change)
		workers = append(workers, models.Changed[models.Worker]{Was: &was, Is: a.worker})
	}
	return change.SaveAll(ctx, tx, changes, models.Writes{Begun: attempts, Workers: workers, Starts: starts})
}

// make makes the lease in memory.
func (a *assignment) make(tx bun.Tx, now time.Time) error {
	w, job := a.worker, a.job
	c := change.At(tx, now, job)
	c.NeverPaused = job.QueuedAt.After(a.closedUntil)
	if err := c.Move(models.JobAssigned); err != nil {
		return err
	}
	if job.WaitedSeconds == nil {
		job.WaitedSeconds = new(max(now.Sub(job.QueuedAt).Seconds(), 0)) // a clock may be set back
	}
	job.LeasedAt = now
	job.AttemptNo++
	attempt := &models.Attempt{
		ID: models.NewAttemptID(), JobID: job.ID, Run: job.Run, AttemptNo: job.AttemptNo, WorkerID: w.ID,
		FencingToken: models.NewFencingToken(), LeaseRequestID: a.requestID, Status: models.AttemptLeased,
		LeasedAt: now, LeaseExpiresAt: now.Add(LeaseTTL), LastHeartbeatAt: now,
	}
	job.CurrentAttemptID = attempt.ID
	job.Progress.Enter(models.PhaseStarting, fmt.Sprintf("given to worker %s", w.ID), now)
	c.Note(models.EventLeased, jobs.Payload{"attemptNo": job.AttemptNo, "worker": w.ID})
	w.Status, w.IdleSince = models.WorkerBusy, time.Time{}
	a.change, a.lease = c, &Lease{Attempt: attempt, Job: job}
	return nil
}

// read adds what the job starts from.
func (l *Lease) read(ctx context.Context, tx bun.Tx) error {
	err := l.readInputs(ctx, tx)
	if err != nil {
		return err
	}
	if l.Job.LatestCheckpointID != "" {
		l.Checkpoints, err = models.ListCheckpoints(ctx, tx, l.Job.ID, 2)
	}
	return err
}
