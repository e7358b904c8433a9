package video

import (
	"context"
	"errors"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
)

// Delete hides a video from all callers, and deletes its prompt and files: at once if
// its job has ended; otherwise it cancels the job, and deletes them when it has ended.
// It returns NOT_FOUND unless id is a video of the caller's account that is not deleted.
func (v *Videos) Delete(ctx context.Context, p jobs.Principal, id models.JobID) error {
	job, err := models.GetVideoJob(ctx, v.DB, p.AccountID, id)
	if err != nil {
		return apierror.Wrap(apierror.OrNotFound(err, "video"), "delete video %s", id)
	}
	if !job.Status.Terminal() {
		// From here on the sweep continues if this process ends.
		if err := models.AskVideoDeleted(ctx, v.DB, id); err != nil {
			return fmt.Errorf("delete video %s: %w", id, err)
		}
	}
	return v.finish(ctx, p, id)
}

// finish takes the next step to delete a video: it cancels its job, or deletes a job that has
// ended.
func (v *Videos) finish(ctx context.Context, p jobs.Principal, id models.JobID) error {
	job, err := v.Canceller.Cancel(ctx, p, id)
	switch {
	case apierror.HasCode(err, apierror.CodeConflict): // it ended first
	case err != nil:
		return err
	case !job.Status.Terminal():
		return nil
	}
	_, err = v.Deleter.Delete(ctx, p, id)
	return err
}

// videoBatch bounds what one pass of Sweep reads.
const videoBatch = 100

// Sweep goes on with the videos that were to be deleted while their jobs were not
// over. It is safe in every process at once, and returns how many it moved on.
func (v *Videos) Sweep(ctx context.Context) (int, error) {
	found, err := models.ListVideosToDelete(ctx, v.DB, videoBatch)
	if err != nil {
		return 0, fmt.Errorf("list videos to delete: %w", err)
	}
	var failed error
	for _, job := range found {
		owner := jobs.Principal{Role: access.RoleClient, AccountID: job.AccountID, KeyID: job.CreatedBy}
		if err := v.finish(ctx, owner, job.ID); err != nil {
			failed = errors.Join(failed, fmt.Errorf("delete video %s: %w", job.ID, err))
		}
	}
	return len(found), failed
}
