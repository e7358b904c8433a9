package query

import (
	"context"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// Video returns the video of a COMPLETED job. It returns CONFLICT for a job that has not
// completed, and NOT_FOUND if the video was deleted or the job made none.
func (r *Reader) Video(ctx context.Context, p jobs.Principal, id models.JobID) (*models.Artifact, error) {
	job, err := r.Job(ctx, p, id)
	if err != nil {
		return nil, err
	}
	switch {
	case !job.DeletedAt.IsZero():
		return nil, apierror.NotFound("video: it was deleted")
	case job.Status != models.JobCompleted:
		return nil, apierror.Conflict("This job is %s: only a COMPLETED one has a video.", job.Status)
	case job.ResultID == "":
		return nil, apierror.NotFound("video: it was deleted, or the job made none")
	}
	found, err := r.Artifacts(ctx, []models.ArtifactID{job.ResultID})
	if err == nil && len(found) == 0 {
		return nil, apierror.NotFound("video: it was deleted")
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}
