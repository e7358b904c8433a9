package jobs

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

func getWorker(ctx context.Context, db bun.IDB, id models.WorkerID) (*models.Worker, error) {
	workers, err := models.GetWorkers(ctx, db, []models.WorkerID{id})
	if err == nil && len(workers) == 0 {
		return nil, notFound("worker")
	}
	if err != nil {
		return nil, wrap(err, "read worker %s", id)
	}
	return workers[0], nil
}
