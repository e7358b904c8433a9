package jobs

import (
	"context"
	"database/sql"
	"errors"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Deleter deletes the contents of jobs for their owners and for operators.
type Deleter struct {
	DB       *bun.DB
	Notifier *Notifier
}

// Delete permanently removes a job's prompt, its artifacts, and every text that its owner or
// its runtime put into it; the row stays. The prompt is unreadable from the commit on. The
// objects are deleted by the next passes of the upkeep, as is the reference image if no other
// job uses it. Deleting a deleted job returns it. Delete returns CONFLICT for a job that waits
// or runs.
func (d *Deleter) Delete(ctx context.Context, p Principal, id models.JobID) (*models.Job, error) {
	if _, err := VisibleJob(ctx, d.DB, p, id); err != nil {
		return nil, err
	}
	var done *Change
	err := InTx(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		job, err := models.LockJob(ctx, tx, id)
		if err != nil {
			return apierror.OrNotFound(err, "job")
		}
		if !job.Status.Terminal() {
			return apierror.Conflict("This job is %s: cancel it first, and delete it once it has ended.", job.Status)
		}
		err = models.RedactJob(ctx, tx, id)
		if errors.Is(err, sql.ErrNoRows) {
			done, err = newChange(ctx, tx, job) // it was deleted before
			return err
		}
		if err == nil {
			err = p.auditJob(ctx, tx, "deleteJob", job)
		}
		if err != nil {
			return err
		}
		if err := models.DoomObjectsOf(ctx, tx, []models.JobID{id}); err != nil {
			return err
		}
		inputs, err := models.LockInputsOf(ctx, tx, []models.JobID{id})
		if err != nil {
			return err
		}
		if err := models.ForsakeInputs(ctx, tx, []models.JobID{id}, inputs); err != nil {
			return err
		}
		if err := models.ResolveDeadLetter(ctx, tx, id, models.ResolvedDeleted, string(p.KeyID), ""); err != nil {
			return err
		}
		if job, err = models.GetJob(ctx, tx, id); err != nil {
			return err
		}
		done, err = newChange(ctx, tx, job)
		return err
	})
	if err != nil {
		return nil, apierror.Wrap(err, "delete job %s", id)
	}
	d.Notifier.After(ctx, done)
	return done.job, nil
}
