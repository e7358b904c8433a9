package query

import (
	"context"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models/alerts"
)

const (
	// StalledAfter is after how long a render without progress counts as stalled. The reaper ends
	// it later.
	StalledAfter = 2 * time.Minute
	// maxCountedDeadLetters bounds how many dead letters are counted for a gauge.
	maxCountedDeadLetters = 10_000
)

// Health tells whether work gets stuck anywhere.
func (r *History) Health(ctx context.Context) (*alerts.Health, error) {
	h, err := alerts.ReadHealth(ctx, r.db, StalledAfter, maxCountedDeadLetters)
	return h, apierror.Wrap(err, "read the health")
}

// WorkerCounts counts the workers that have not ended, by state.
func (r *Fleet) WorkerCounts(ctx context.Context) ([]alerts.WorkerCount, error) {
	counts, err := alerts.CountWorkersByStatus(ctx, r.db)
	return counts, apierror.Wrap(err, "count the workers")
}
