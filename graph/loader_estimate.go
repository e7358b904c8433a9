package graph

import (
	"context"

	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
)

// estimatesOf reads the estimates of jobs that are not over.
func estimatesOf(r *query.Reader) func(context.Context, []*models.Job) (map[*models.Job]estimate.JobEstimate, error) {
	return func(ctx context.Context, rows []*models.Job) (map[*models.Job]estimate.JobEstimate, error) {
		byID, err := r.EstimateJobs(ctx, rows)
		found := make(map[*models.Job]estimate.JobEstimate, len(byID))
		for _, row := range rows {
			if e, ok := byID[row.ID]; ok {
				found[row] = e
			}
		}
		return found, err
	}
}

// queueKey names a queue: a lane, and a model or "" for all of them.
type queueKey struct {
	lane  models.Tier
	model string
}

// waitsOf reads how long jobs of queues waited.
func waitsOf(r *query.Reader) func(context.Context, []queueKey) (map[queueKey]models.QueueWait, error) {
	return func(ctx context.Context, _ []queueKey) (map[queueKey]models.QueueWait, error) {
		all, err := r.QueueWaits(ctx)
		found := make(map[queueKey]models.QueueWait, len(all))
		for _, wait := range all {
			found[queueKey{wait.Lane, wait.Model}] = wait
		}
		return found, err
	}
}
