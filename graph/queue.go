package graph

import (
	"context"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/graph/loader"
	"github.com/reelay/reelay/models/backlog"
)

// capacity returns what workers and pools can do for a queue, nothing for a whole lane.
func (r *queueResolver) capacity(ctx context.Context, q *backlog.QueueCount) (query.QueueCapacity, error) {
	if q.Model == "" {
		return query.QueueCapacity{}, nil
	}
	return load(ctx).Capacities.Load(ctx, loader.Queue{Lane: q.Lane, Model: q.Model})
}
