package graph

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
)

// stragglers is how long a batch waits while nothing at all happens in its response:
// then somebody was counted on who does not come, and the statement is made without.
const stragglers = 100 * time.Millisecond

// loader reads rows by key, many keys in one query: those that are asked for at the
// same place of the query. It lives as long as one response and asks for a key once.
type loader[K comparable, V any] struct {
	fetch func(context.Context, []K) (map[K]V, error)

	mu      sync.Mutex
	open    map[*place]*batch[K, V] // those that still take keys
	batches map[K]*batch[K, V]
}

type batch[K comparable, V any] struct {
	place  *place
	leave  func() // has it leave, though more could come
	keys   []K
	waited map[*place]int
	over   bool
	done   chan struct{} // closed when it is over
	found  map[K]V
	err    error
}

// load returns a key's value, or V's zero value if there is none. A zero key has
// none.
func (l *loader[K, V]) load(ctx context.Context, key K) (value V, err error) {
	var zero K
	if key == zero {
		return value, nil
	}
	s := load(ctx).siblings
	p, ok := ctx.Value(placeKey{}).(*place)
	if !ok {
		p = s.response
	}
	b, leaves := l.join(s, p, key)
	if leaves != nil {
		l.run(ctx, s, b, leaves)
	}
	select {
	case <-b.done:
		return b.found[key], b.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// join puts the key into the batch of its place. The caller of a batch's first key
// runs it once it may leave.
func (l *loader[K, V]) join(s *siblings, p *place, key K) (b *batch[K, V], leaves chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, known := l.batches[key]
	if known && b.over {
		return b, nil
	}
	if known && b.place.isBelow(p) {
		b.leave() // who could still come there comes after this field is resolved
	}
	if !known {
		if b = l.open[p]; b == nil {
			leaves = make(chan struct{})
			b = &batch[K, V]{
				place: p, leave: sync.OnceFunc(func() { close(leaves) }), waited: map[*place]int{},
				done: make(chan struct{}), err: errors.New("the query was given up"),
			}
			if l.open == nil {
				l.open, l.batches = map[*place]*batch[K, V]{}, map[K]*batch[K, V]{}
			}
			l.open[p] = b
		}
		b.keys = append(b.keys, key)
		l.batches[key] = b
	}
	b.waited[p]++
	var leave func()
	if leaves != nil {
		leave = b.leave
	}
	s.wait(p, leave)
	return b, leaves
}

func (l *loader[K, V]) run(ctx context.Context, s *siblings, b *batch[K, V], leaves <-chan struct{}) {
	defer l.finish(s, b) // even if fetch panics
	for before := s.happened(); ; {
		select {
		case <-leaves:
		case <-ctx.Done():
		case <-time.After(stragglers):
			if now := s.happened(); now != before {
				before = now
				continue
			}
		}
		break
	}
	l.mu.Lock()
	delete(l.open, b.place)
	l.mu.Unlock()
	if ctx, b.err = ctx.Value(responseKey{}).(*response).reads(ctx); b.err == nil {
		b.found, b.err = l.fetch(ctx, b.keys)
	}
}

// finish lets those go on who wait for a batch. They are counted as such before
// anybody can ask for more.
func (l *loader[K, V]) finish(s *siblings, b *batch[K, V]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.over = true
	s.goOn(b.waited)
	close(b.done)
}

// eventPage is a page of one job's events.
type eventPage struct {
	job models.JobID
	of  paging.Request
}

// eventPages reads pages of many jobs' events. Those of one query are most often
// all of one kind.
func eventPages(r *query.Reader) func(context.Context, []eventPage) (map[eventPage]*paging.Page[*models.JobEvent], error) {
	return func(ctx context.Context, keys []eventPage) (map[eventPage]*paging.Page[*models.JobEvent], error) {
		kinds := map[paging.Request][]models.JobID{}
		for _, key := range keys {
			kinds[key.of] = append(kinds[key.of], key.job)
		}
		found := make(map[eventPage]*paging.Page[*models.JobEvent], len(keys))
		for of, ids := range kinds {
			pages, err := r.EventPages(ctx, ids, of)
			if err != nil {
				return nil, err
			}
			for id, page := range pages {
				found[eventPage{id, of}] = page
			}
		}
		return found, nil
	}
}

// scalingPage is the newest decisions of one pool.
type scalingPage struct {
	pool  models.PoolID
	first int
}

// scalingPages reads the newest decisions of many pools, most often as many of each.
func scalingPages(r *query.Reader) func(context.Context, []scalingPage) (map[scalingPage][]*models.ScalingDecision, error) {
	return func(ctx context.Context, keys []scalingPage) (map[scalingPage][]*models.ScalingDecision, error) {
		sizes := map[int][]models.PoolID{}
		for _, key := range keys {
			sizes[key.first] = append(sizes[key.first], key.pool)
		}
		found := make(map[scalingPage][]*models.ScalingDecision, len(keys))
		for first, ids := range sizes {
			histories, err := r.ScalingHistories(ctx, ids, first)
			if err != nil {
				return nil, err
			}
			for id, history := range histories {
				found[scalingPage{id, first}] = history
			}
		}
		return found, nil
	}
}

// loaders are the edges between rows.
type loaders struct {
	siblings *siblings

	prompts   loader[models.JobID, query.Prompt]
	waiting   loader[models.JobID, []query.WaitingReason]
	attempts  loader[models.JobID, []*models.Attempt]
	events    loader[eventPage, *paging.Page[*models.JobEvent]]
	outputs   loader[models.JobID, []*models.Artifact]
	artifacts loader[models.ArtifactID, *models.Artifact]
	workers   loader[models.WorkerID, *models.Worker]
	accounts  loader[models.AccountID, *models.Account]
	pools     loader[models.PoolID, *query.PoolStatus]
	held      loader[models.WorkerID, *models.Job]
	parents   loader[models.JobID, []*models.Job]
	jobs      loader[models.JobID, *models.Job]
	keyNames  loader[models.KeyID, string]
	tries     loader[models.WebhookDeliveryID, []*models.WebhookTry]
	estimates loader[*models.Job, estimate.JobEstimate]
	waits     loader[queueKey, models.QueueWait]
	scalings  loader[scalingPage, []*models.ScalingDecision]
}

func newLoaders(r *query.Reader, s *siblings) *loaders {
	l := &loaders{siblings: s}
	l.prompts.fetch = r.Prompts
	l.waiting.fetch = r.WaitingFor
	l.attempts.fetch = grouped(r.Attempts, func(a *models.Attempt) models.JobID { return a.JobID })
	l.events.fetch = eventPages(r)
	l.scalings.fetch = scalingPages(r)
	l.outputs.fetch = grouped(r.JobArtifacts, func(a *models.Artifact) models.JobID { return a.JobID })
	l.artifacts.fetch = keyed(r.Artifacts, func(a *models.Artifact) models.ArtifactID { return a.ID })
	l.workers.fetch = keyed(r.WorkersByID, func(w *models.Worker) models.WorkerID { return w.ID })
	l.accounts.fetch = keyed(r.Accounts, func(a *models.Account) models.AccountID { return a.ID })
	l.pools.fetch = keyed(r.PoolsByID, func(p *query.PoolStatus) models.PoolID { return p.ID })
	l.held.fetch = r.CurrentJobs
	l.parents.fetch = r.Parents
	l.estimates.fetch, l.waits.fetch = estimatesOf(r), waitsOf(r)
	l.keyNames.fetch = func(ctx context.Context, ids []models.KeyID) (map[models.KeyID]string, error) {
		return r.KeyNames(ctx, principal(ctx), ids)
	}
	l.jobs.fetch = keyed(r.JobsByID, func(j *models.Job) models.JobID { return j.ID })
	l.tries.fetch = grouped(r.WebhookTries, func(t *models.WebhookTry) models.WebhookDeliveryID { return t.DeliveryID })
	return l
}

// keyed makes a map of rows that come in no order.
func keyed[K comparable, V any](list func(context.Context, []K) ([]V, error), key func(V) K) func(context.Context, []K) (map[K]V, error) {
	return func(ctx context.Context, keys []K) (map[K]V, error) {
		rows, err := list(ctx, keys)
		found := make(map[K]V, len(rows))
		for _, row := range rows {
			found[key(row)] = row
		}
		return found, err
	}
}

// grouped is keyed where many rows have the same key; their order is kept.
func grouped[K comparable, V any](list func(context.Context, []K) ([]V, error), key func(V) K) func(context.Context, []K) (map[K][]V, error) {
	return func(ctx context.Context, keys []K) (map[K][]V, error) {
		rows, err := list(ctx, keys)
		found := make(map[K][]V, len(keys))
		for _, row := range rows {
			found[key(row)] = append(found[key(row)], row)
		}
		return found, err
	}
}

// response is what the fields of one response share. Most of them load nothing.
type response struct {
	siblings *siblings
	loaders  func() *loaders
	// reads returns the context for a batch that is read with this one.
	reads func(context.Context) (context.Context, error)
}

func newResponse(r *query.Reader) *response {
	s := newSiblings()
	return &response{
		siblings: s, loaders: sync.OnceValue(func() *loaders { return newLoaders(r, s) }),
		reads: func(ctx context.Context) (context.Context, error) { return ctx, nil },
	}
}

type responseKey struct{}

// load returns the loaders of the response that is being made.
func load(ctx context.Context) *loaders { return ctx.Value(responseKey{}).(*response).loaders() }
