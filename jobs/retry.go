package jobs

import (
	"cmp"
	"context"
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
		if err := models.ResolveDeadLetters(ctx, tx, []models.JobID{id}, models.ResolvedRetried, string(p.KeyID), ""); err != nil {
			return err
		}
		err = reopen(ctx, done, opening{event: models.EventQueued, by: p.KeyID, fromScratch: fromScratch, known: r.Catalogue.Current()})
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

// opening is how new runs differ from those before.
type opening struct {
	event       models.JobEventType // QUEUED or REDRIVEN
	by          models.KeyID
	lane        models.Tier // "": that of each job's tier
	fromScratch bool
	edit        *edit // nil: nothing is edited
	known       *catalogue.Snapshot
	// name, if it is not nil, words the refusal of a job.
	name func(*models.Job, *apierror.Error) error
	// last, if it is not nil, is called before the runs are counted.
	last func() error
}

// reopen opens and saves the next run of an ended job, which is locked.
func reopen(ctx context.Context, c *Change, o opening) error {
	return reopenAll(ctx, c.tx, []*Change{c}, o)
}

// reopenAll opens and saves the next runs of ended jobs, which are locked and in an order in which
// parents come first. Other jobs, for which workers may wait, are locked when the runs are written.
func reopenAll(ctx context.Context, tx bun.Tx, changes []*Change, o opening) error {
	refused := func(c *Change, err error) error {
		if why := refusal(err); why != nil && o.name != nil {
			return o.name(c.job, why)
		}
		return err
	}
	for _, c := range changes { // before anything else is locked
		if err := mayReopen(c); err != nil {
			return refused(c, err)
		}
	}
	runs := lo.Map(changes, func(c *Change, _ int) *models.JobRun {
		return &models.JobRun{
			JobID: c.job.ID, Run: c.job.Run, Status: c.job.Status, Params: c.job.Params, FailureClass: c.job.FailureClass,
			FailureReason: c.job.FailureReason, AttemptNo: c.job.AttemptNo, CompletedAt: c.job.CompletedAt,
		}
	})
	ids := lo.Map(changes, func(c *Change, _ int) models.JobID { return c.job.ID })
	all, err := readRelations(ctx, tx, changes, ids)
	if err != nil {
		return err
	}
	if err := models.DropInputFetches(ctx, tx, ids); err != nil {
		return fmt.Errorf("drop the fetches of earlier runs: %w", err)
	}
	for _, c := range changes {
		if err := renew(ctx, c, o, all); err != nil {
			return refused(c, err)
		}
	}
	if o.fromScratch || o.edit != nil {
		if err := models.RejectCheckpoints(ctx, tx, ids); err != nil {
			return fmt.Errorf("drop the checkpoints: %w", err)
		}
	}
	err = inBatches(runs, func(some []*models.JobRun) error { return models.InsertJobRuns(ctx, tx, some) })
	if err != nil {
		return fmt.Errorf("keep the closed runs: %w", err)
	}
	if err := placeAll(ctx, tx, changes); err != nil {
		return err
	}
	return writeAll(ctx, tx, changes, models.Writes{}, func() error {
		if err := rewait(ctx, tx, changes[0].now, ids); err != nil {
			return err
		}
		if changes[0].unsettled, err = all.seen.confirm(ctx, tx, ids); err != nil || o.last == nil {
			return err
		}
		return o.last()
	})
}

// mayReopen returns why the job cannot have another run, or nil.
func mayReopen(c *Change) error {
	switch {
	case !c.job.DeletedAt.IsZero():
		return apierror.Conflict("This job was deleted: submit a new one.")
	case c.job.Status != models.JobFailed && c.job.Status != models.JobCancelled:
		return apierror.Conflict("This job is %s: only a FAILED or CANCELLED one can run again.", c.job.Status)
	}
	return nil
}

// renew opens the next run of an ended job. Its parents in the same transaction were renewed before.
func renew(ctx context.Context, c *Change, o opening, all relations) error {
	job := c.job
	job.Run++
	if err := applyEdits(ctx, c, o); err != nil {
		return err
	}
	depends := reckonDependencies(all.parents[job.ID])
	if depends.failed != nil {
		return apierror.Conflict("This job depends on job %s, which is %s: retry that job first.", depends.failed.ID, depends.failed.Status)
	}
	files := o.known.At(job.Model, job.ModelVersion).Inputs(job.Params)
	var err error
	if depends.fetch, err = useInputs(ctx, c.tx, job, files, o.edit, all); err != nil {
		return err
	}
	lane := cmp.Or(o.lane, job.Tier)
	resetRun(c, lane)
	c.note(o.event, Payload{"lane": lane, "run": job.Run, "by": o.by, "fromCheckpoint": job.LatestCheckpointID != ""})
	if job.BlockedBy = depends.count(); job.BlockedBy > 0 {
		job.Status = models.JobBlocked
		c.note(models.EventBlocked, Payload{"openDependencies": depends.open, "fetch": depends.fetch})
		return nil
	}
	job.Status, job.QueuedAt = models.JobQueued, c.now
	if o.event != models.EventQueued {
		c.note(models.EventQueued, Payload{"lane": lane})
	}
	return nil
}

// rewait lets the BLOCKED jobs that would have run although these failed wait for them again. They
// have waited all along for those that are retried for their sake.
func rewait(ctx context.Context, tx bun.Tx, now time.Time, retried []models.JobID) error {
	awaited, err := models.DropParentRetries(ctx, tx, retried)
	if err != nil {
		return fmt.Errorf("drop the retries for dependents: %w", err)
	}
	unsettled, err := models.ForgetUnsettled(ctx, tx, retried)
	if err != nil {
		return fmt.Errorf("forget what was to be settled: %w", err)
	}
	still := map[[2]models.JobID]bool{}
	for _, edge := range unsettled {
		still[[2]models.JobID{edge.DependsOn, edge.JobID}] = true
	}
	again := lo.Without(retried, awaited...)
	waiting, edges, err := models.LockWaiting(ctx, tx, again, nil)
	if err != nil || len(waiting) == 0 {
		return apierror.Wrap(err, "find the jobs that wait")
	}
	children := map[models.JobID]*Change{}
	for _, child := range waiting {
		children[child.ID] = changeAt(tx, now, child)
	}
	renewed := lo.Keyify(again)
	var changed []*Change
	for _, edge := range edges {
		child := children[edge.JobID]
		if _, is := renewed[edge.DependsOn]; !is || child == nil || edge.OnFailure != models.FailureContinue || still[[2]models.JobID{edge.DependsOn, edge.JobID}] {
			continue
		}
		if child.job.BlockedBy++; child.job.BlockedBy == child.before.BlockedBy+1 {
			changed = append(changed, child)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return apierror.Wrap(writeOthers(ctx, tx, changed), "let jobs wait again")
}

// resetRun resets a job to its state at submit, except for its history.
func resetRun(c *Change, lane models.Tier) {
	job := c.job
	job.Lane, job.Requeued, job.Failures, job.Crashes, job.GPURank, job.Preemptions = lane, false, 0, 0, 0, 0
	job.Needs = job.Needs.Also(job.Spent())
	job.FailureClass, job.FailureReason, job.Output, job.Handle = "", "", nil, ""
	job.RunAt, job.ExpiresAt, job.AvoidUntil, job.AvoidWorkerID = time.Time{}, time.Time{}, time.Time{}, ""
	job.CancelBy, job.CancelReason = "", ""
	job.CancelRequestedAt, job.CancelDeliveredAt, job.CancelStoppedAt = time.Time{}, time.Time{}, time.Time{}
	job.StartedAt, job.CompletedAt, job.WaitedSeconds = time.Time{}, time.Time{}, nil
	job.QueuedSeconds, job.LeasedSeconds = new(0.0), new(0.0)
	job.PausedSeconds, job.BackoffSeconds, job.DelayedSeconds, job.DelayedAt = 0, 0, 0, c.now
	job.ProgressEventAt, job.ProgressEventPercent = time.Time{}, nil
	job.Progress = models.Progress{Phase: models.PhaseWaiting, UpdatedAt: c.now}
}

// applyEdits writes the edits, and lets go of the checkpoint if it no longer fits.
func applyEdits(ctx context.Context, c *Change, o opening) error {
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
	if o.fromScratch || o.edit != nil {
		job.LatestCheckpointID = ""
	}
	return nil
}
