package jobs

import (
	"context"
	"database/sql"
	"errors"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Deleter deletes what a job holds on its owner's or an operator's word.
type Deleter struct {
	DB       *bun.DB
	Notifier *Notifier
}

// Delete removes a job's prompt and artifacts for good, and every text that its
// owner or its runtime put into it; the row stays. The prompt cannot be read
// from the moment of the commit, the objects go with the upkeep's next passes, an
// image that it begins from too if no other job does.
// Deleting a deleted job returns it. It returns CONFLICT for one that waits or
// runs.
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
