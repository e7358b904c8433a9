package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// visibleJob returns a job that the caller may see, or NOT_FOUND: its owner and
// operators may.
func visibleJob(ctx context.Context, db bun.IDB, p Principal, id models.JobID) (*models.Job, error) {
	if !id.Valid() {
		return nil, notFound("job")
	}
	job, err := models.GetJob(ctx, db, id)
	return shown(p, id, job, err)
}

// shown is a job that was read, if the caller may see it.
func shown(p Principal, id models.JobID, job *models.Job, err error) (*models.Job, error) {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, notFound("job")
	case err != nil:
		return nil, fmt.Errorf("read job %s: %w", id, err)
	case job == nil || !p.sees(job.AccountID):
		return nil, notFound("job")
	}
	return job, nil
}
