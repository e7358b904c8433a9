package loader

import (
	"context"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
)

// keyed returns a fetch over list, whose rows come in any order.
func keyed[K comparable, V any](list func(context.Context, []K) ([]V, error), key func(V) K) fetch[K, V] {
	return func(ctx context.Context, keys []K) (map[K]V, error) {
		rows, err := list(ctx, keys)
		found := make(map[K]V, len(rows))
		for _, row := range rows {
			found[key(row)] = row
		}
		return found, err
	}
}

// grouped returns a fetch over list, which returns many rows for a key. It keeps their
// order.
func grouped[K comparable, V any](list func(context.Context, []K) ([]V, error), key func(V) K) fetch[K, []V] {
	return func(ctx context.Context, keys []K) (map[K][]V, error) {
		rows, err := list(ctx, keys)
		found := make(map[K][]V, len(keys))
		for _, row := range rows {
			found[key(row)] = append(found[key(row)], row)
		}
		return found, err
	}
}

// EventPage is a page of one job's events.
type EventPage struct {
	Job  models.JobID
	Page paging.Request
}

// eventPages reads pages of many jobs' events, with one query for all jobs of which the
// same page is asked for.
func eventPages(r *query.Reads) fetch[EventPage, *paging.Page[*models.JobEvent]] {
	return func(ctx context.Context, keys []EventPage) (map[EventPage]*paging.Page[*models.JobEvent], error) {
		byPage := map[paging.Request][]models.JobID{}
		for _, key := range keys {
			byPage[key.Page] = append(byPage[key.Page], key.Job)
		}
		found := make(map[EventPage]*paging.Page[*models.JobEvent], len(keys))
		for page, ids := range byPage {
			pages, err := r.Jobs.EventPages(ctx, ids, page)
			if err != nil {
				return nil, err
			}
			for id, events := range pages {
				found[EventPage{id, page}] = events
			}
		}
		return found, nil
	}
}

// ScalingPage is the newest scaling decisions of one pool.
type ScalingPage struct {
	Pool  models.PoolID
	First int // how many
}

// scalingPages reads the newest decisions of many pools, with one query for all pools of
// which the same number is asked for.
func scalingPages(r *query.Reads) fetch[ScalingPage, []*capacity.ScalingDecision] {
	return func(ctx context.Context, keys []ScalingPage) (map[ScalingPage][]*capacity.ScalingDecision, error) {
		bySize := map[int][]models.PoolID{}
		for _, key := range keys {
			bySize[key.First] = append(bySize[key.First], key.Pool)
		}
		found := make(map[ScalingPage][]*capacity.ScalingDecision, len(keys))
		for first, ids := range bySize {
			histories, err := r.Fleet.ScalingHistories(ctx, ids, first)
			if err != nil {
				return nil, err
			}
			for id, history := range histories {
				found[ScalingPage{id, first}] = history
			}
		}
		return found, nil
	}
}

// PricesBack is what a pool's workers cost in the last hours.
type PricesBack struct {
	Pool  models.PoolID
	Hours int
}

// prices reads the prices of many pools, with one query for all pools of which the same time is
// asked for.
func prices(r *query.Reads) fetch[PricesBack, []*capacity.PriceStep] {
	return func(ctx context.Context, keys []PricesBack) (map[PricesBack][]*capacity.PriceStep, error) {
		byTime := map[int][]models.PoolID{}
		for _, key := range keys {
			byTime[key.Hours] = append(byTime[key.Hours], key.Pool)
		}
		found := make(map[PricesBack][]*capacity.PriceStep, len(keys))
		for hours, ids := range byTime {
			histories, err := r.Fleet.PriceHistories(ctx, ids, hours)
			if err != nil {
				return nil, err
			}
			for id, history := range histories {
				found[PricesBack{id, hours}] = history
			}
		}
		return found, nil
	}
}

// estimates reads the estimates of unfinished jobs.
func estimates(r *query.Reads) fetch[*models.Job, estimate.JobEstimate] {
	return func(ctx context.Context, rows []*models.Job) (map[*models.Job]estimate.JobEstimate, error) {
		byID, err := r.Jobs.Estimates(ctx, rows)
		found := make(map[*models.Job]estimate.JobEstimate, len(byID))
		for _, row := range rows {
			if e, ok := byID[row.ID]; ok {
				found[row] = e
			}
		}
		return found, err
	}
}

// jobTimes reads where the time of jobs went.
func jobTimes(r *query.Reads) fetch[*models.Job, *models.JobTime] {
	return func(ctx context.Context, rows []*models.Job) (map[*models.Job]*models.JobTime, error) {
		found, err := r.Jobs.Times(ctx, rows)
		all := make(map[*models.Job]*models.JobTime, len(found))
		for _, job := range rows {
			all[job] = found[job.ID]
		}
		return all, err
	}
}

// Queue names a queue: a lane, and a model or "" for all models.
type Queue struct {
	Lane  models.Tier
	Model string
}

// capacities reads what the pools can do for each queue.
func capacities(r *query.Reads) fetch[Queue, query.QueueCapacity] {
	return func(ctx context.Context, queues []Queue) (map[Queue]query.QueueCapacity, error) {
		asked := make([]backlog.QueueCount, len(queues))
		for i, q := range queues {
			asked[i] = backlog.QueueCount{Lane: q.Lane, Model: q.Model}
		}
		all, err := r.Queues.Capacities(ctx, asked)
		found := make(map[Queue]query.QueueCapacity, len(all))
		for _, c := range all {
			found[Queue{c.Lane, c.Model}] = c
		}
		return found, err
	}
}

// queueWaits reads how long jobs waited in each queue.
func queueWaits(r *query.Reads) fetch[Queue, query.QueueWait] {
	return func(ctx context.Context, _ []Queue) (map[Queue]query.QueueWait, error) {
		all, err := r.Queues.Waits(ctx)
		found := make(map[Queue]query.QueueWait, len(all))
		for _, wait := range all {
			found[Queue{wait.Lane, wait.Model}] = wait
		}
		return found, err
	}
}
