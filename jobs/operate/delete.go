package operate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Deleter deletes the contents of jobs for their owners and for operators.
type Deleter struct {
	DB       *bun.DB
	Notifier *change.Notifier
}

// Delete permanently removes a job's prompt, its artifacts, and every text that its owner or
// its runtime put into it; the row stays. The prompt is unreadable from the commit on. The
// objects are deleted by the next passes of the upkeep, as are its inputs if no other job uses
// them. Deleting a deleted job returns it. Delete returns CONFLICT for a job that waits or runs,
// and for one from which such a job takes its video, a picture or its output.
func (d *Deleter) Delete(ctx context.Context, p jobs.Principal, id models.JobID) (*models.Job, error) {
	if _, err := jobs.JobToChange(ctx, d.DB, p, id); err != nil {
		return nil, err
	}
	var done *change.Change
	err := jobs.InTx(ctx, d.DB, func(ctx context.Context, tx bun.Tx) error {
		job, err := models.LockJob(ctx, tx, id)
		if err != nil {
			return apierror.OrNotFound(err, "job")
		}
		if err := deletable(ctx, tx, job); err != nil {
			return err
		}
		before := *job
		err = models.RedactJob(ctx, tx, id)
		if errors.Is(err, sql.ErrNoRows) {
			done, err = change.New(ctx, tx, job) // it was deleted before
			return err
		}
		if err == nil {
			err = p.AuditJob(ctx, tx, "deleteJob", job)
		}
		if err != nil {
			return err
		}
		if err := models.WasteDrafts(ctx, tx, []models.JobID{id}); err != nil {
			return err
		}
		if err := models.DoomObjectsOf(ctx, tx, []models.JobID{id}); err != nil {
			return err
		}
		filesOf, err := models.LockInputsOf(ctx, tx, []models.JobID{id})
		if err != nil {
			return err
		}
		if err := models.ForsakeInputs(ctx, tx, []models.JobID{id}, filesOf); err != nil {
			return err
		}
		if err := models.ResolveDeadLetters(ctx, tx, []models.JobID{id}, models.ResolvedDeleted, string(p.KeyID), ""); err != nil {
			return err
		}
		if job, err = models.GetJob(ctx, tx, id); err != nil {
			return err
		}
		if done, err = change.New(ctx, tx, job); err == nil {
			done.Before = before // observers see what the deletion changed
		}
		return err
	})
	if err != nil {
		return nil, apierror.Wrap(err, "delete job %s", id)
	}
	d.Notifier.After(ctx, done)
	return done.Job, nil
}

// deletable returns CONFLICT unless a locked job, and all jobs that take something from it, have
// ended. A submit of such a job waits for the lock.
func deletable(ctx context.Context, tx bun.Tx, job *models.Job) error {
	if !job.Status.Terminal() {
		return apierror.Conflict("This job is %s: cancel it first, and delete it once it has ended.", job.Status)
	}
	user, err := models.FindUserOf(ctx, tx, job.ID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for jobs that take something from it: %w", err)
	}
	return apierror.Conflict("Job %s uses the results of this job and has not ended: wait for it, or cancel it first.", user)
}
