package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Retrier opens new runs of ended jobs.
type Retrier struct {
	DB        *bun.DB
	Catalogue *catalogue.Catalogue
	Sealer    *seal.Sealer
	Notifier  *change.Notifier
	// Estimates says what new runs cost; nil leaves what was estimated.
	Estimates *estimate.Estimator
}

// Retry opens a new run of a FAILED or CANCELLED job for its owner or an operator. The run
// starts from the newest checkpoint, unless fromScratch is set or none is left. Retry returns
// CONFLICT for a job in another state, a deleted one, or one that depends on a failed job, and
// QUOTA_EXCEEDED if the account's queue is full, and BUDGET_EXCEEDED if its budget has not enough left.
func (r *Retrier) Retry(ctx context.Context, p jobs.Principal, id models.JobID, fromScratch bool) (*models.Job, error) {
	seen, err := jobs.JobToChange(ctx, r.DB, p, id)
	if err != nil {
		return nil, err
	}
	var done *change.Change
	err = jobs.InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := submit.LockBudget(ctx, tx, seen.AccountID); err != nil {
			return err
		}
		job, err := models.LockJob(ctx, tx, id)
		if err != nil {
			return err
		}
		if done, err = change.New(ctx, tx, job); err != nil {
			return err
		}
		done.Bounded = true
		if err := p.AuditJob(ctx, tx, "retryJob", job); err != nil {
			return err
		}
		if err := models.ResolveDeadLetters(ctx, tx, []models.JobID{id}, models.ResolvedRetried, string(p.KeyID), ""); err != nil {
			return err
		}
		err = reopen(ctx, done, opening{event: models.EventQueued, by: p.KeyID, fromScratch: fromScratch, known: r.Catalogue.Current(), estimates: r.Estimates})
		if errors.Is(err, models.ErrNoRoom) {
			return submit.ErrQueueFull
		}
		return err
	})
	if err != nil {
		return nil, apierror.Wrap(err, "retry job %s", id)
	}
	r.Notifier.After(ctx, done)
	return done.Job, nil
}

// opening is how new runs differ from those before.
type opening struct {
	event       models.JobEventType // QUEUED or REDRIVEN
	by          models.KeyID
	lane        models.Tier // "": that of each job's tier
	fromScratch bool
	edit        *inputs.Edit // nil: nothing is edited
	known       *catalogue.Snapshot
	estimates   *estimate.Estimator
	// name, if it is not nil, words the refusal of a job.
	name func(*models.Job, *apierror.Error) error
	// last, if it is not nil, is called before the runs are counted.
	last func() error
}

// reopen opens and saves the next run of an ended job, which is locked.
func reopen(ctx context.Context, c *change.Change, o opening) error {
	return reopenAll(ctx, c.Tx, []*change.Change{c}, o)
}

// reopenAll opens and saves the next runs of ended jobs, which are locked and in an order in which
// parents come first. Other jobs, for which workers may wait, are locked when the runs are written.
func reopenAll(ctx context.Context, tx bun.Tx, changes []*change.Change, o opening) error {
	refused := func(c *change.Change, err error) error {
		if why := submit.Refusal(err); why != nil && o.name != nil {
			return o.name(c.Job, why)
		}
		return err
	}
	for _, c := range changes { // before anything else is locked
		if err := mayReopen(c); err != nil {
			return refused(c, err)
		}
	}
	runs := lo.Map(changes, func(c *change.Change, _ int) *models.JobRun {
		return &models.JobRun{
			JobID: c.Job.ID, Run: c.Job.Run, Status: c.Job.Status, Params: c.Job.Params, FailureClass: c.Job.FailureClass,
			FailureReason: c.Job.FailureReason, AttemptNo: c.Job.AttemptNo, CompletedAt: c.Job.CompletedAt,
		}
	})
	ids := lo.Map(changes, func(c *change.Change, _ int) models.JobID { return c.Job.ID })
	all, err := inputs.ReadRelations(ctx, tx, changes, ids)
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
	if changes[0].Bounded {
		again := lo.Map(changes, func(c *change.Change, _ int) *models.Job { return c.Job })
		if err := submit.CheckBudgets(ctx, tx, again, changes[0].Now); err != nil {
			return err
		}
	}
	if o.fromScratch || o.edit != nil {
		if err := models.RejectCheckpoints(ctx, tx, ids); err != nil {
			return fmt.Errorf("drop the checkpoints: %w", err)
		}
	}
	err = postgres.InBatches(runs, func(some []*models.JobRun) error { return models.InsertJobRuns(ctx, tx, some) })
	if err != nil {
		return fmt.Errorf("keep the closed runs: %w", err)
	}
	if err := change.PlaceAll(ctx, tx, changes); err != nil {
		return err
	}
	return change.WriteAll(ctx, tx, changes, models.Writes{}, func() error {
		if err := rewait(ctx, tx, changes[0].Now, ids); err != nil {
			return err
		}
		unsettled, err := all.Seen.Confirm(ctx, tx, ids)
		changes[0].Due = changes[0].Due || unsettled
		if err != nil || o.last == nil {
			return err
		}
		return o.last()
	})
}

// mayReopen returns why the job cannot have another run, or nil.
func mayReopen(c *change.Change) error {
	switch {
	case !c.Job.DeletedAt.IsZero():
		return apierror.Conflict("This job was deleted: submit a new one.")
	case c.Job.Status != models.JobFailed && c.Job.Status != models.JobCancelled:
		return apierror.Conflict("This job is %s: only a FAILED or CANCELLED one can run again.", c.Job.Status)
	}
	return nil
}

// renew opens the next run of an ended job. Its parents in the same transaction were renewed before.
func renew(ctx context.Context, c *change.Change, o opening, all inputs.Relations) error {
	job := c.Job
	job.Run++
	if err := applyEdits(ctx, c, o); err != nil {
		return err
	}
	depends := change.ReckonDependencies(all.Parents[job.ID])
	if depends.Failed != nil {
		return apierror.Conflict("This job depends on job %s, which is %s: retry that job first.", depends.Failed.ID, depends.Failed.Status)
	}
	files := o.known.At(job.Model, job.ModelVersion).Inputs(job.Params)
	var err error
	if depends.Fetch, err = inputs.Use(ctx, c.Tx, job, files, o.edit, all); err != nil {
		return err
	}
	depends.Approval = job.Approval()
	lane := cmp.Or(o.lane, job.Tier)
	resetRun(c, lane)
	if o.estimates != nil { // prices, render times and params may be others now
		usd, err := o.estimates.JobUSD(ctx, job)
		if err != nil {
			return err
		}
		if usd != nil {
			job.EstimatedUSD = usd
		}
	}
	c.Note(o.event, jobs.Payload{"lane": lane, "run": job.Run, "by": o.by, "fromCheckpoint": job.LatestCheckpointID != ""})
	if job.BlockedBy = depends.Count(); job.BlockedBy > 0 {
		job.Status = models.JobBlocked
		c.Due = c.Due || depends.Fetch || c.Asks()
		c.Note(models.EventBlocked, jobs.Payload{"openDependencies": depends.Open, "fetch": depends.Fetch})
		return nil
	}
	job.Status, job.QueuedAt = models.JobQueued, c.Now
	if o.event != models.EventQueued {
		c.Note(models.EventQueued, jobs.Payload{"lane": lane})
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
	children := map[models.JobID]*change.Change{}
	for _, child := range waiting {
		children[child.ID] = change.At(tx, now, child)
	}
	renewed := lo.Keyify(again)
	var changed []*change.Change
	for _, edge := range edges {
		child := children[edge.JobID]
		if _, is := renewed[edge.DependsOn]; !is || child == nil || edge.OnFailure != models.FailureContinue ||
			still[[2]models.JobID{edge.DependsOn, edge.JobID}] {
			continue
		}
		if child.Job.BlockedBy++; child.Job.BlockedBy == child.Before.BlockedBy+1 {
			changed = append(changed, child)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return apierror.Wrap(change.WriteOthers(ctx, tx, changed), "let jobs wait again")
}

// resetRun resets a job to its state at submit, except for its history.
func resetRun(c *change.Change, lane models.Tier) {
	job := c.Job
	job.Lane, job.Requeued, job.Failures, job.Crashes, job.GPURank, job.Preemptions = lane, false, 0, 0, 0, 0
	job.Needs = job.Needs.Also(job.Spent())
	job.FailureClass, job.FailureReason, job.Output, job.Handle = "", "", nil, ""
	job.RunAt, job.ExpiresAt, job.AvoidUntil, job.AvoidWorkerID = time.Time{}, time.Time{}, time.Time{}, ""
	job.CancelBy, job.CancelReason = "", ""
	job.CancelRequestedAt, job.CancelDeliveredAt, job.CancelStoppedAt = time.Time{}, time.Time{}, time.Time{}
	job.StartedAt, job.CompletedAt, job.WaitedSeconds = time.Time{}, time.Time{}, nil
	job.QueuedSeconds, job.LeasedSeconds = new(0.0), new(0.0)
	job.PausedSeconds, job.BackoffSeconds, job.DelayedSeconds, job.DelayedAt = 0, 0, 0, c.Now
	job.ProgressEventAt, job.ProgressEventPercent = time.Time{}, nil
	job.Progress = models.Progress{Phase: models.PhaseWaiting, UpdatedAt: c.Now}
}

// applyEdits writes the edits, and lets go of the checkpoint if it no longer fits.
func applyEdits(ctx context.Context, c *change.Change, o opening) error {
	job := c.Job
	if o.edit != nil && o.edit.Params != nil {
		if job.TimeoutSeconds == o.edit.Model.Timeout(job.Params) { // else its owner chose it
			job.TimeoutSeconds = o.edit.Model.Timeout(o.edit.Params)
		}
		job.Params, job.EstimatedGPUSeconds = o.edit.Params, o.edit.Model.EstimateGPUSeconds(o.edit.Params)
		job.ModelVersion, job.TimeClass = o.edit.Model.Version, o.edit.Model.TimeClass(job.Params)
		if err := models.EditJobParams(ctx, c.Tx, job); err != nil {
			return fmt.Errorf("edit the params: %w", err)
		}
	}
	if o.edit != nil && o.edit.Input != nil {
		o.edit.Input.Run = job.Run
		if err := models.InsertJobInput(ctx, c.Tx, o.edit.Input); err != nil {
			return fmt.Errorf("edit the prompt: %w", err)
		}
	}
	if o.edit != nil && job.ReuseDigest != nil { // it is another request now
		job.ReuseDigest, job.ReuseRefs = nil, nil
		if err := models.SaveReuse(ctx, c.Tx, []*models.Job{job}); err != nil {
			return fmt.Errorf("forget the digest: %w", err)
		}
	}
	if o.fromScratch || o.edit != nil {
		job.LatestCheckpointID = ""
	}
	return nil
}
