package jobs

import (
	"context"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// SetJobPriority changes a job's order among its account's jobs of the same lane, from -100 to
// 100, for its owner or an operator. A queued job moves at once, a held one when it is queued
// again. SetJobPriority returns CONFLICT for an ended job.
func (o *Operator) SetJobPriority(ctx context.Context, p Principal, id models.JobID, priority int) (*models.Job, error) {
	if priority < -MaxPriority || priority > MaxPriority {
		return nil, apierror.Invalid("priority", "priority must be from %d to %d.", -MaxPriority, MaxPriority)
	}
	if _, err := jobToChange(ctx, o.DB, p, id); err != nil {
		return nil, err
	}
	var done *Change
	err := changeJob(ctx, o.DB, id, func(ctx context.Context, tx bun.Tx, locked *Change) error {
		done = locked
		was := done.job.Priority
		if err := changePriority(ctx, done, tx, p, priority); err != nil {
			return err
		}
		return p.AuditOf(ctx, tx, "setJobPriority", done.job.AccountID, string(id), Payload{"before": was, "after": priority})
	})
	if err != nil {
		return nil, apierror.Wrap(err, "set the priority of job %s", id)
	}
	o.Notifier.After(ctx, done)
	return done.job, nil
}

// changePriority saves the priority. A queued job stays in its queue, but its place in the ready
// index changes.
func changePriority(ctx context.Context, c *Change, tx bun.Tx, p Principal, priority int) error {
	job := c.job
	if job.Status.Terminal() {
		return apierror.Conflict("This job is %s: its priority can no longer change.", job.Status)
	}
	if job.Priority == priority {
		return nil
	}
	was := job.Priority
	job.Priority = priority
	if event, waits := waitingEvents[job.Status]; waits {
		c.note(event, Payload{"lane": job.Lane, "priority": priority, "was": was, "by": p.KeyID})
	}
	if err := c.save(ctx); err != nil || job.Status != models.JobQueued {
		return err
	}
	c.ready = readyJob(job, unknownTime)
	return apierror.Wrap(models.InsertOutbox(ctx, tx, readyMessages([]*models.Job{job})...), "announce the new place of job %s", job.ID)
}

// unknownTime is a ReadyJob's virtual time that leaves its account where it is.
const unknownTime = -1
