package operate

import (
	"context"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/uptrace/bun"
)

// QueueOperator pauses and resumes queues, halts schedules and leases, and changes the tiers of jobs.
type QueueOperator struct {
	DB        *bun.DB
	Notifier  *change.Notifier
	Catalogue *catalogue.Catalogue
}

// Monitor records what an operator is about to do to the messages in Redis through asynqmon.
// The action must not run unless Monitor returns nil. path is asynqmon's, as sent; it names a
// queue, and a message or all messages in a state.
func (o *QueueOperator) Monitor(ctx context.Context, p jobs.Principal, method, path string) error {
	if err := p.RequireOperator(); err != nil {
		return err
	}
	if !text.Valid(path, 1, jobs.MaxTargetRunes) {
		return apierror.Invalid("path", "The path may have %d printable characters: nothing was done.", jobs.MaxTargetRunes)
	}
	return p.Audit(ctx, o.DB, "asynqmon", path, jobs.Payload{"method": text.Clip(method, 16)})
}

// maxPauseReason bounds the reason of a pause, in characters.
const maxPauseReason = 200

// PauseQueue stops giving workers the jobs of a lane, or of one model in it. Jobs
// that run continue, and new ones are accepted. The reason is shown to operators;
// it may be "".
func (o *QueueOperator) PauseQueue(ctx context.Context, p jobs.Principal, lane models.Tier, model, reason string) (*backlog.QueueCount,
	error) {
	if reason = strings.TrimSpace(reason); !text.Valid(reason, 0, maxPauseReason) {
		return nil, apierror.Invalid("reason", "The reason can have up to %d printable characters.", maxPauseReason)
	}
	return o.setPause(ctx, p, &models.QueuePause{Lane: lane, Model: model, Paused: true, Reason: reason})
}

// ResumeQueue ends the pause of a lane, or of one model in it. It returns CONFLICT
// for a model whose lane is paused as a whole; a model that is paused by itself
// stays so when its lane is resumed.
func (o *QueueOperator) ResumeQueue(ctx context.Context, p jobs.Principal, lane models.Tier, model string) (*backlog.QueueCount, error) {
	return o.setPause(ctx, p, &models.QueuePause{Lane: lane, Model: model})
}

func (o *QueueOperator) setPause(ctx context.Context, p jobs.Principal, pause *models.QueuePause) (*backlog.QueueCount, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	if _, known := jobs.Policies[pause.Lane]; !known {
		return nil, apierror.Invalid("tier", "There is no such tier.")
	}
	if pause.Model != "" {
		if _, err := o.Catalogue.Current().Model(pause.Model); err != nil {
			return nil, err
		}
	}
	pause.ChangedBy = string(p.KeyID)
	action, more := "resumeQueue", jobs.Payload{"model": pause.Model}
	if pause.Paused {
		action, more["reason"] = "pauseQueue", pause.Reason
	}
	err := jobs.InTx(ctx, o.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := models.SetQueuePause(ctx, tx, pause); err != nil {
			return err
		}
		return p.Audit(ctx, tx, action, string(pause.Lane), more)
	})
	if err != nil {
		return nil, apierror.Wrap(err, "%s %s %s", action, pause.Lane, pause.Model)
	}
	count, err := backlog.CountQueue(ctx, o.DB, pause.Lane, pause.Model)
	if err != nil {
		return nil, apierror.Wrap(err, "count the queue %s %s", pause.Lane, pause.Model)
	}
	if !pause.Paused && count.Paused() {
		return nil, apierror.Conflict("The whole lane is paused: resume it without naming a model.")
	}
	o.Notifier.Waiters.Look()
	return count, nil
}

// SetJobTier changes a job's tier, which may be above its account's. A waiting job moves to
// the tier's lane and keeps its place among the account's jobs; a held job moves when it is
// queued again. SetJobTier returns CONFLICT for an ended job.
func (o *QueueOperator) SetJobTier(ctx context.Context, p jobs.Principal, id models.JobID, tier models.Tier) (*models.Job, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	if _, known := jobs.Policies[tier]; !known {
		return nil, apierror.Invalid("tier", "There is no such tier.")
	}
	if !id.Valid() {
		return nil, apierror.NotFound("job")
	}
	var done *change.Change
	err := change.Do(ctx, o.DB, id, func(ctx context.Context, tx bun.Tx, locked *change.Change) error {
		done = locked
		was := jobs.Payload{"tier": done.Job.Tier, "lane": done.Job.Lane}
		if err := changeTier(ctx, done, p, tier); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "setJobTier", string(id), jobs.Payload{"before": was, "after": jobs.Payload{"tier": tier, "lane": tier}})
	})
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "job"), "set the tier of job %s", id)
	}
	o.Notifier.After(ctx, done)
	return done.Job, nil
}

// waitingEvents are the events that put a job into a waiting state.
var waitingEvents = map[models.JobStatus]models.JobEventType{
	models.JobScheduled: models.EventScheduled,
	models.JobBlocked:   models.EventBlocked,
	models.JobQueued:    models.EventQueued,
}

func changeTier(ctx context.Context, c *change.Change, p jobs.Principal, tier models.Tier) error {
	job := c.Job
	if job.Status.Terminal() {
		return apierror.Conflict("This job is %s: its tier can no longer change.", job.Status)
	}
	if job.Tier == tier && job.Lane == tier {
		return nil
	}
	was := job.Tier
	job.Tier, job.Lane = tier, tier
	if event, waits := waitingEvents[job.Status]; waits {
		c.Note(event, jobs.Payload{"lane": job.Lane, "tier": tier, "was": was, "by": p.KeyID})
	}
	return c.Save(ctx)
}
