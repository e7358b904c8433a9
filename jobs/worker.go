package jobs

import (
	"context"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// GetWorker returns a worker, or NOT_FOUND.
func GetWorker(ctx context.Context, db bun.IDB, id models.WorkerID) (*models.Worker, error) {
	workers, err := models.GetWorkers(ctx, db, []models.WorkerID{id})
	if err == nil && len(workers) == 0 {
		return nil, apierror.NotFound("worker")
	}
	if err != nil {
		return nil, apierror.Wrap(err, "read worker %s", id)
	}
	return workers[0], nil
}
