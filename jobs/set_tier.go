package jobs

import (
	"context"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// SetJobTier changes a job's tier, which may be above its account's. A waiting job moves to
// the tier's lane and keeps its place among the account's jobs; a held job moves when it is
// queued again. SetJobTier returns CONFLICT for an ended job.
func (o *Operator) SetJobTier(ctx context.Context, p Principal, id models.JobID, tier models.Tier) (*models.Job, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	if _, known := Policies[tier]; !known {
		return nil, apierror.Invalid("tier", "There is no such tier.")
	}
	if !id.Valid() {
		return nil, apierror.NotFound("job")
	}
	var done *Change
	err := changeJob(ctx, o.DB, id, func(ctx context.Context, tx bun.Tx, locked *Change) error {
		done = locked
		was := Payload{"tier": done.job.Tier, "lane": done.job.Lane}
		if err := done.setTier(ctx, p, tier); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "setJobTier", string(id), Payload{"before": was, "after": Payload{"tier": tier, "lane": tier}})
	})
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "job"), "set the tier of job %s", id)
	}
	o.Notifier.After(ctx, done)
	return done.job, nil
}

// waitingEvents are the events that put a job into a waiting state.
var waitingEvents = map[models.JobStatus]models.JobEventType{
	models.JobScheduled: models.EventScheduled,
	models.JobBlocked:   models.EventBlocked,
	models.JobQueued:    models.EventQueued,
}

func (c *Change) setTier(ctx context.Context, p Principal, tier models.Tier) error {
	job := c.job
	if job.Status.Terminal() {
		return apierror.Conflict("This job is %s: its tier is settled.", job.Status)
	}
	if job.Tier == tier && job.Lane == tier {
		return nil
	}
	was := job.Tier
	job.Tier, job.Lane = tier, tier
	if event, waits := waitingEvents[job.Status]; waits {
		c.note(event, Payload{"lane": job.Lane, "tier": tier, "was": was, "by": p.KeyID})
	}
	return c.save(ctx)
}
