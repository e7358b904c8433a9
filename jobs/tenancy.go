package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// VisibleJob returns a job that the caller may see, or NOT_FOUND: its owner and
// operators may.
func VisibleJob(ctx context.Context, db bun.IDB, p Principal, id models.JobID) (*models.Job, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("job")
	}
	job, err := models.GetJob(ctx, db, id)
	return Visible(p, id, job, err)
}

// Visible is a job that was read, if the caller may see it.
func Visible(p Principal, id models.JobID, job *models.Job, err error) (*models.Job, error) {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, apierror.NotFound("job")
	case err != nil:
		return nil, fmt.Errorf("read job %s: %w", id, err)
	case job == nil || !p.Sees(job.AccountID):
		return nil, apierror.NotFound("job")
	}
	return job, nil
}
