package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/seal"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Retrier opens new runs of ended jobs.
type Retrier struct {
	DB        *bun.DB
	Catalogue *catalogue.Catalogue
	Sealer    *seal.Sealer
	Notifier  *Notifier
}

// Retry opens a new run of a FAILED or CANCELLED job for its owner or an operator. The run
// starts from the newest checkpoint, unless fromScratch is set or none is left. Retry returns
// CONFLICT for a job in another state, a deleted one, or one that depends on a failed job, and
// QUOTA_EXCEEDED if the account's queue is full.
func (r *Retrier) Retry(ctx context.Context, p Principal, id models.JobID, fromScratch bool) (*models.Job, error) {
	if _, err := jobToChange(ctx, r.DB, p, id); err != nil {
		return nil, err
	}
	var done *Change
	err := InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) error {
		job, err := models.LockJob(ctx, tx, id)
		if err != nil {
			return err
		}
		if done, err = newChange(ctx, tx, job); err != nil {
			return err
		}
		done.bounded = true
		if err := p.auditJob(ctx, tx, "retryJob", job); err != nil {
			return err
		}
		if err := models.ResolveDeadLetter(ctx, tx, id, models.ResolvedRetried, string(p.KeyID), ""); err != nil {
			return err
		}
		err = done.reopen(ctx, opening{event: models.EventQueued, by: p.KeyID, lane: job.Tier, fromScratch: fromScratch, known: r.Catalogue.Current()})
		if errors.Is(err, models.ErrNoRoom) {
			return errQueueFull
		}
		return err
	})
	if err != nil {
		return nil, apierror.Wrap(err, "retry job %s", id)
	}
	r.Notifier.After(ctx, done)
	return done.job, nil
}

// opening is how a new run differs from the one before.
type opening struct {
	event       models.JobEventType // QUEUED or REDRIVEN
	by          models.KeyID
	lane        models.Tier
	fromScratch bool
	edit        *edit // nil: nothing is edited
	known       *catalogue.Snapshot
}

// edit is what an operator changed for the new run.
type edit struct {
	params json.RawMessage // checked, with its defaults; nil: as before
	// model estimates with the new params.
	model *catalogue.Model
	input *models.JobInput // the sealed prompt; nil: as before
	// values are what the texts contain of other jobs' outputs, those that are as before included.
	values []result
}

// reopen opens and saves the next run of an ended job, which is locked.
func (c *Change) reopen(ctx context.Context, o opening) error {
	if err := c.renew(ctx, o, nil); err != nil {
		return err
	}
	return c.save(ctx)
}

// renew opens the next run of an ended job, which is locked. The caller saves it, together with
// others, which it has opened before.
func (c *Change) renew(ctx context.Context, o opening, others map[models.JobID]*Change) error {
	job := c.job
	switch {
	case !job.DeletedAt.IsZero():
		return apierror.Conflict("This job was deleted: submit a new one.")
	case job.Status != models.JobFailed && job.Status != models.JobCancelled:
		return apierror.Conflict("This job is %s: only a FAILED or CANCELLED one can run again.", job.Status)
	}
	err := models.InsertJobRun(ctx, c.tx, &models.JobRun{
		JobID: job.ID, Run: job.Run, Status: job.Status, Params: job.Params, FailureClass: job.FailureClass,
		FailureReason: job.FailureReason, AttemptNo: job.AttemptNo, CompletedAt: job.CompletedAt,
	})
	if err != nil {
		return fmt.Errorf("keep the closed run: %w", err)
	}
	job.Run++
	if err := c.apply(ctx, o); err != nil {
		return err
	}
	if err := c.rewait(ctx); err != nil {
		return err
	}
	parents, err := models.ShareParents(ctx, c.tx, job.ID)
	if err != nil {
		return err
	}
	for _, parent := range parents {
		if other := others[parent.ID]; other != nil {
			parent.Job = *other.job
		}
	}
	depends := reckonDependencies(parents)
	if depends.failed != nil {
		return apierror.Conflict("This job depends on job %s, which is %s: retry that job first.", depends.failed.ID, depends.failed.Status)
	}
	if err := models.DropInputFetch(ctx, c.tx, job.ID); err != nil {
		return err
	}
	files := o.known.At(job.Model, job.ModelVersion).Inputs(job.Params)
	if depends.fetch, err = useInputs(ctx, c.tx, job, files, o.edit, lo.Map(parents, func(p *models.Parent, _ int) *models.Job { return &p.Job })); err != nil {
		return err
	}
	c.fresh(o.lane)
	c.note(o.event, Payload{"lane": o.lane, "run": job.Run, "by": o.by, "fromCheckpoint": job.LatestCheckpointID != ""})
	if job.BlockedBy = depends.count(); job.BlockedBy > 0 {
		job.Status = models.JobBlocked
		c.note(models.EventBlocked, Payload{"openDependencies": depends.open, "fetch": depends.fetch})
		return nil
	}
	job.Status, job.QueuedAt = models.JobQueued, c.now
	if o.event != models.EventQueued {
		c.note(models.EventQueued, Payload{"lane": o.lane})
	}
	return nil
}

// rewait lets the BLOCKED jobs that would have run although this one failed wait for it again. They
// have waited all along if it is retried for their sake.
func (c *Change) rewait(ctx context.Context) error {
	awaited, err := models.DropParentRetry(ctx, c.tx, c.job.ID)
	if err != nil || awaited {
		return apierror.Wrap(err, "drop the retry for dependents")
	}
	waiting, edges, err := models.LockWaiting(ctx, c.tx, []models.JobID{c.job.ID}, nil)
	if err != nil || len(waiting) == 0 {
		return apierror.Wrap(err, "find the jobs that wait for job %s", c.job.ID)
	}
	children := lo.KeyBy(waiting, func(j *models.Job) models.JobID { return j.ID })
	var changed []*Change
	for _, edge := range edges {
		child := children[edge.JobID]
		if child == nil || edge.DependsOn != c.job.ID || edge.OnFailure != models.FailureContinue {
			continue
		}
		again := changeAt(c.tx, c.now, child)
		child.BlockedBy++
		changed = append(changed, again)
	}
	if len(changed) == 0 {
		return nil
	}
	return apierror.Wrap(writeOthers(ctx, c.tx, changed), "let jobs wait for job %s again", c.job.ID)
}

// fresh resets a job to its state at submit, except for its history.
func (c *Change) fresh(lane models.Tier) {
	job := c.job
	job.Lane, job.Requeued, job.Failures, job.Crashes, job.GPURank, job.Preemptions = lane, false, 0, 0, 0, 0
	job.Needs = job.Needs.Also(job.Spent())
	job.FailureClass, job.FailureReason, job.Output, job.Handle = "", "", nil, ""
	job.RunAt, job.ExpiresAt, job.AvoidUntil, job.AvoidWorkerID = time.Time{}, time.Time{}, time.Time{}, ""
	job.CancelBy, job.CancelReason = "", ""
	job.CancelRequestedAt, job.CancelDeliveredAt, job.CancelStoppedAt = time.Time{}, time.Time{}, time.Time{}
	job.StartedAt, job.CompletedAt, job.WaitedSeconds = time.Time{}, time.Time{}, nil
	job.QueuedSeconds, job.LeasedSeconds = new(0.0), new(0.0)
	job.ProgressEventAt, job.ProgressEventPercent = time.Time{}, nil
	job.Progress = models.Progress{Phase: models.PhaseWaiting, UpdatedAt: c.now}
}

// apply writes the edits, and drops the checkpoints that no longer fit.
func (c *Change) apply(ctx context.Context, o opening) error {
	job := c.job
	if o.edit != nil && o.edit.params != nil {
		if job.TimeoutSeconds == o.edit.model.Timeout(job.Params) { // else its owner chose it
			job.TimeoutSeconds = o.edit.model.Timeout(o.edit.params)
		}
		job.Params, job.EstimatedGPUSeconds = o.edit.params, o.edit.model.EstimateGPUSeconds(o.edit.params)
		job.ModelVersion = o.edit.model.Version
		if err := models.EditJobParams(ctx, c.tx, job.ID, job.Params, job.ModelVersion); err != nil {
			return fmt.Errorf("edit the params: %w", err)
		}
	}
	if o.edit != nil && o.edit.input != nil {
		o.edit.input.Run = job.Run
		if err := models.InsertJobInput(ctx, c.tx, o.edit.input); err != nil {
			return fmt.Errorf("edit the prompt: %w", err)
		}
	}
	if !o.fromScratch && o.edit == nil {
		return nil
	}
	job.LatestCheckpointID = ""
	if err := models.RejectCheckpoints(ctx, c.tx, job.ID); err != nil {
		return fmt.Errorf("drop the checkpoints: %w", err)
	}
	return nil
}
