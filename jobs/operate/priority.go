package operate

import (
	"context"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// SetJobPriority changes a job's order among its account's jobs of the same lane, from -100 to
// 100, for its owner or an operator. A queued job moves at once, a held one when it is queued
// again. SetJobPriority returns CONFLICT for an ended job.
func (o *QueueOperator) SetJobPriority(ctx context.Context, p jobs.Principal, id models.JobID, priority int) (*models.Job, error) {
	if priority < -submit.MaxPriority || priority > submit.MaxPriority {
		return nil, apierror.Invalid("priority", "priority must be from %d to %d.", -submit.MaxPriority, submit.MaxPriority)
	}
	if _, err := jobs.JobToChange(ctx, o.DB, p, id); err != nil {
		return nil, err
	}
	var done *change.Change
	err := change.Do(ctx, o.DB, id, func(ctx context.Context, tx bun.Tx, locked *change.Change) error {
		done = locked
		was := done.Job.Priority
		if err := changePriority(ctx, done, tx, p, priority); err != nil {
			return err
		}
		return p.AuditOf(ctx, tx, "setJobPriority", done.Job.AccountID, string(id), jobs.Payload{"before": was, "after": priority})
	})
	if err != nil {
		return nil, apierror.Wrap(err, "set the priority of job %s", id)
	}
	o.Notifier.After(ctx, done)
	return done.Job, nil
}

// changePriority saves the priority. A queued job stays in its queue, but its place in the ready
// index changes.
func changePriority(ctx context.Context, c *change.Change, tx bun.Tx, p jobs.Principal, priority int) error {
	job := c.Job
	if job.Status.Terminal() {
		return apierror.Conflict("This job is %s: its priority can no longer change.", job.Status)
	}
	if job.Priority == priority {
		return nil
	}
	was := job.Priority
	job.Priority = priority
	if event, waits := waitingEvents[job.Status]; waits {
		c.Note(event, jobs.Payload{"lane": job.Lane, "priority": priority, "was": was, "by": p.KeyID})
	}
	if err := c.Save(ctx); err != nil || job.Status != models.JobQueued {
		return err
	}
	c.Ready = change.ReadyOf(job, unknownTime)
	return apierror.Wrap(models.InsertOutbox(ctx, tx, change.ReadyMessages([]*models.Job{job})...), "announce the new place of job %s", job.ID)
}

// unknownTime is a ReadyJob's virtual time that leaves its account where it is.
const unknownTime = -1
