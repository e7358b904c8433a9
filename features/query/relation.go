package query

import (
	"context"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// Children returns the jobs that depend on a job and that the caller may see, oldest first, at
// most limit.
func (r *Jobs) Children(ctx context.Context, p jobs.Principal, id models.JobID, limit int) ([]*models.Job, error) {
	found, err := models.ListChildren(ctx, r.db, id, limit)
	return seen(p, found), apierror.Wrap(err, "list the jobs that depend on %s", id)
}
