package loader

import (
	"context"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/schedules"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/samber/lo"
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

// seenBy binds a list to its caller.
func seenBy[K, V any](p jobs.Principal, list func(context.Context, jobs.Principal, []K) (V, error)) func(context.Context, []K) (V, error) {
	return func(ctx context.Context, keys []K) (V, error) { return list(ctx, p, keys) }
}

// ofJobs returns a fetch of what belongs to jobs, which read returns by their ids.
func ofJobs[V any](r *query.Reads, p jobs.Principal, read func(query.Edges, context.Context) (map[models.JobID]V,
	error)) fetch[*models.Job, V] {
	return func(ctx context.Context, rows []*models.Job) (map[*models.Job]V, error) {
		edges, err := r.Jobs.Of(p, rows...)
		if err != nil {
			return nil, err
		}
		byID, err := read(edges, ctx)
		found := make(map[*models.Job]V, len(byID))
		for _, job := range rows {
			if value, ok := byID[job.ID]; ok {
				found[job] = value
			}
		}
		return found, err
	}
}

// perJob groups the rows of list by their jobs. It keeps their order.
func perJob[V any](list func(query.Edges, context.Context) ([]V, error), of func(V) models.JobID) func(query.Edges,
	context.Context) (map[models.JobID][]V, error) {
	return func(edges query.Edges, ctx context.Context) (map[models.JobID][]V, error) {
		rows, err := list(edges, ctx)
		return lo.GroupBy(rows, of), err
	}
}

// ofWorkflows returns a fetch of what belongs to workflows, which read returns by their ids.
func ofWorkflows[V any](r *query.Reads, p jobs.Principal, read func(query.WorkflowEdges, context.Context) (map[models.WorkflowID]V,
	error)) fetch[*models.Workflow, V] {
	return func(ctx context.Context, rows []*models.Workflow) (map[*models.Workflow]V, error) {
		edges, err := r.Workflows.Of(p, rows...)
		if err != nil {
			return nil, err
		}
		byID, err := read(edges, ctx)
		found := make(map[*models.Workflow]V, len(byID))
		for _, w := range rows {
			if value, ok := byID[w.ID]; ok {
				found[w] = value
			}
		}
		return found, err
	}
}

// webhookTries reads the tries of deliveries.
func webhookTries(r *query.Reads, p jobs.Principal) fetch[*webhooks.Delivery, []*webhooks.Try] {
	return func(ctx context.Context, of []*webhooks.Delivery) (map[*webhooks.Delivery][]*webhooks.Try, error) {
		tries, err := r.Webhooks.Tries(ctx, p, of...)
		byID := lo.GroupBy(tries, func(t *webhooks.Try) models.WebhookDeliveryID { return t.DeliveryID })
		found := make(map[*webhooks.Delivery][]*webhooks.Try, len(of))
		for _, d := range of {
			found[d] = byID[d.ID]
		}
		return found, err
	}
}

// nodesOf, and schedulesOf, read what belongs to workflows by their ids.
func nodesOf(e query.WorkflowEdges, ctx context.Context) (map[models.WorkflowID][]*models.WorkflowNode, error) {
	found, err := e.Nodes(ctx)
	return lo.GroupBy(found, func(n *models.WorkflowNode) models.WorkflowID { return n.WorkflowID }), err
}

func schedulesOf(e query.WorkflowEdges, ctx context.Context) (map[models.WorkflowID]*schedules.WorkflowSchedule, error) {
	found, err := e.Schedules(ctx)
	return lo.KeyBy(found, func(s *schedules.WorkflowSchedule) models.WorkflowID { return s.Submitted }), err
}

// EventPage is a page of one job's events.
type EventPage struct {
	Job  *models.Job
	Page paging.Request
}

// eventPages reads pages of many jobs' events, with one query for all jobs of which the
// same page is asked for.
func eventPages(r *query.Reads, p jobs.Principal) fetch[EventPage, *paging.Page[*models.JobEvent]] {
	return func(ctx context.Context, keys []EventPage) (map[EventPage]*paging.Page[*models.JobEvent], error) {
		byPage := map[paging.Request][]*models.Job{}
		for _, key := range keys {
			byPage[key.Page] = append(byPage[key.Page], key.Job)
		}
		found := make(map[EventPage]*paging.Page[*models.JobEvent], len(keys))
		for page, rows := range byPage {
			edges, err := r.Jobs.Of(p, rows...)
			if err != nil {
				return nil, err
			}
			pages, err := edges.EventPages(ctx, page)
			if err != nil {
				return nil, err
			}
			for _, job := range rows {
				found[EventPage{job, page}] = pages[job.ID]
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

// paid reads what the machines of the last hours were paid for, once for all pools.
func paid(r *query.Reads, p jobs.Principal) fetch[int, map[string]models.Paid] {
	return func(ctx context.Context, keys []int) (map[int]map[string]models.Paid, error) {
		found := make(map[int]map[string]models.Paid, len(keys))
		for _, hours := range keys {
			all, err := r.History.Paid(ctx, p, hours)
			if err != nil {
				return nil, err
			}
			found[hours] = all
		}
		return found, nil
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
