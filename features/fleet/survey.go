package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// survey compares the workers with the machines that the providers list. It returns the pools whose
// provider answered, now or recently.
func (s *Scaler) survey(ctx context.Context) ([]*capacity.Pool, error) {
	var pools []*capacity.Pool
	// Rows first: a machine that is created later is in neither list.
	states, now, err := readPools(ctx, s.DB, capacity.NoPoolLock, func(p *capacity.Pool) bool {
		provider := s.Providers[p.Provider]
		current := provider != nil && isRemote(provider) && s.surveys.isCurrent(p, time.Now())
		if current {
			pools = append(pools, p)
		}
		return provider != nil && !current
	})
	if err != nil {
		return nil, fmt.Errorf("list pools and workers: %w", err)
	}
	var mu sync.Mutex
	for _, p := range states {
		s.calls.start(ctx, p.pool.ID, func(ctx context.Context) error {
			err := s.compare(ctx, p, now)
			if errors.Is(err, ErrProviderGone) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("compare the machines of pool %s with its workers: %w", p.pool.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			pools = append(pools, p.pool)
			return nil
		})
	}
	err = s.calls.wait(ctx)
	mu.Lock()
	defer mu.Unlock()
	return pools[:len(pools):len(pools)], err
}

// compare ends workers of a pool whose machine no longer exists, and machines that no worker needs.
// It records with the pool whether its provider fails.
func (s *Scaler) compare(ctx context.Context, p poolState, now time.Time) error {
	asked, ends := time.Now(), false
	instances, trouble := s.Providers[p.pool.Provider].List(ctx, p.pool)
	if errors.Is(trouble, ErrProviderGone) {
		return trouble
	}
	if trouble == nil {
		instances, seconds := distinct(instances)
		l := s.listed(p, instances, now)
		err := s.note(ctx, l)
		if err == nil {
			err = s.forget(ctx, p, l)
		}
		if err == nil {
			err = errors.Join(s.note(ctx, l), s.add(ctx, l))
		}
		if err == nil {
			ends, trouble, err = s.clear(ctx, l, instances, seconds, asked)
		}
		if err != nil {
			return err
		}
		trouble = cmp.Or(trouble, l.wrong(p.workers))
	} else {
		trouble = fmt.Errorf("list its machines: %w", trouble)
	}
	err := errors.Join(trouble, s.setProblem(ctx, p.pool, trouble))
	if err == nil {
		s.surveys.done(p.pool, asked, now, ends)
	}
	return err
}

// distinct returns the first machine of each id, and the others.
func distinct(instances []Instance) (firsts, seconds []Instance) {
	seen := map[string]bool{}
	for _, i := range instances {
		if seen[i.ID] {
			seconds = append(seconds, i)
			continue
		}
		seen[i.ID], firsts = true, append(firsts, i)
	}
	return firsts, seconds
}

// setProblem records why a pool's provider fails, or that it does not, if that changed.
func (s *Scaler) setProblem(ctx context.Context, pool *capacity.Pool, trouble error) error {
	problem := ""
	if trouble != nil {
		problem = text.Clip(text.Printable(trouble.Error()), lease.MaxMessageBytes)
	}
	if problem == pool.ProviderProblem {
		return nil
	}
	return capacity.SetProviderProblem(ctx, s.DB, pool.ID, problem)
}

// bootGrace is how long the row of a booting worker may have no instance: the time between the
// commit of the row and the creation of the machine.
const bootGrace = 10 * time.Second

// remote is a provider with machines elsewhere. Its Create can take long, and its machines are
// listed only every listEvery.
type remote interface {
	// CreateLimit is how long a Create takes at most.
	CreateLimit() time.Duration
}

func isRemote(p Provider) bool {
	_, ok := p.(remote)
	return ok
}

func graceOf(p Provider) time.Duration {
	if slow, ok := p.(remote); ok {
		return bootGrace + slow.CreateLimit()
	}
	return bootGrace
}

// forget ends the workers whose machine no longer exists. Their jobs are queued again at once,
// since nothing can work on them any more. It also ends booting workers of closed pools and workers
// that have been lost for long, and counts machines that did not start or could not be created. l.works
// then has only the machines of workers that go on.
func (s *Scaler) forget(ctx context.Context, p poolState, l *listing) error {
	_, closed := closedNow(p.pool, l.now)
	refused := refusals{}
	l.works = map[string]bool{}
	for _, w := range p.workers {
		i := l.known[w.ProviderInstanceID]
		loss := lease.Loss{Reason: "its machine is gone", Blameless: i.Reclaimed}
		var err error
		switch {
		case w.Status == models.WorkerBooting && closed:
			err = s.terminate(ctx, w, lease.Loss{Reason: "its pool is closed", Blameless: true})
		case w.Status == models.WorkerLost && l.now.Sub(w.LostAt) > bootLimit(p.pool):
			err = s.terminate(ctx, w, lease.Loss{Reason: "it has been lost for long"})
		case w.Status == models.WorkerBooting && l.has(w.ProviderInstanceID) && l.now.Sub(w.CreatedAt) > bootLimit(p.pool):
			err = s.endBoot(ctx, w, fmt.Sprintf("its agent did not register within %s; the provider reports the machine as %s",
				text.Setting(bootLimit(p.pool)), i.State))
		case l.has(w.ProviderInstanceID), w.Status == models.WorkerBooting && l.mayBoot(w),
			w.Status != models.WorkerBooting && !l.silent(w):
			l.works[w.ProviderInstanceID] = true
			continue
		case w.Status == models.WorkerBooting && i.Err != nil:
			slog.WarnContext(ctx, "a machine could not be created", "pool", p.pool.Name, "machine", text.Clip(i.ID, 64), "class", ClassOf(i.Err),
				"error", i.Err)
			if w.CreatedAt.After(p.pool.RefusedAt) { // otherwise it belongs to an answer that was counted
				refused.add(i.Err)
			}
			err = s.terminate(ctx, w, lease.Loss{Reason: "its machine could not be created", Blameless: true})
		case w.Status == models.WorkerBooting && !i.Reclaimed:
			err = s.endBoot(ctx, w, endedWhy(i, "before its agent registered"))
		case endedEarly(w, i, l.now):
			err = s.endEarly(ctx, p.pool, w, endedWhy(i, "soon after its agent had registered"))
		default:
			err = s.terminate(ctx, w, loss)
		}
		if err != nil {
			return err
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return s.refuse(ctx, p.pool, refused, slices.ContainsFunc(p.workers, func(w *models.Worker) bool {
		return w.Status == models.WorkerBooting && l.has(w.ProviderInstanceID) && l.known[w.ProviderInstanceID].Err == nil &&
			w.CreatedAt.After(p.pool.RefusedAt)
	}))
}

// mayBoot reports whether the machine of a booting worker that the list lacks may boot nevertheless.
func (l *listing) mayBoot(w *models.Worker) bool {
	if i, listed := l.known[w.ProviderInstanceID]; listed && i.Err == nil {
		return false // it has ended
	}
	m := l.ledger[w.ProviderInstanceID]
	return l.now.Sub(w.CreatedAt) < l.grace || m != nil && m.GoneAt.IsZero() && !m.CreatedAt.IsZero() &&
		(l.unlisted(m) || !l.sure && l.now.Sub(m.MissingAt) < silence)
}

func bootLimit(p *capacity.Pool) time.Duration {
	return time.Duration(p.BootLimitSeconds) * time.Second
}

func (s *Scaler) terminate(ctx context.Context, w *models.Worker, loss lease.Loss) error {
	_, err := terminateWorker(ctx, s.DB, s.Notifier, w.ID, loss)
	return err
}

// clearGrace is how long a machine may remain after its worker ended. In this time the agent can
// exit by itself, or register again.
const clearGrace = time.Minute

// clear deletes machines that no worker needs: their worker has ended or never had a row, or
// another machine has the same id. It reports whether there are any. trouble joins the errors of the
// machines that the provider did not delete. asked is when the list was asked for, by the clock of this
// process.
func (s *Scaler) clear(ctx context.Context, l *listing, instances, seconds []Instance, asked time.Time) (some bool, trouble, err error) {
	idle, err := s.unneeded(ctx, l, instances)
	if err != nil {
		return false, nil, err
	}
	for _, i := range seconds {
		if i.Lives() && l.now.Sub(i.CreatedAt) > clearGrace {
			slog.WarnContext(ctx, "there are several machines of one name: the younger one is deleted", "pool", l.pool.Name, "machine",
				text.Clip(i.ID, 64), "zone", i.Zone)
			idle = append(idle, i)
		}
	}
	if len(idle) == 0 {
		return false, nil, nil
	}
	slog.InfoContext(ctx, "machines without a worker are deleted", "pool", l.pool.Name, "machines", len(idle), "first",
		text.Clip(idle[0].ID, 64))
	if err := s.told(ctx, l, idle); err != nil {
		return true, nil, err
	}
	failed := s.Providers[l.pool.Provider].Delete(ctx, l.pool, idle)
	var failures []error
	for id, err := range failed {
		failures = append(failures, fmt.Errorf("delete the machine %s: %w", text.Clip(id, 64), err))
	}
	return true, errors.Join(failures...), s.deleted(ctx, l, idle, failed, l.now.Add(time.Since(asked)))
}

// unneeded returns the machines without a worker that may be deleted now. A machine is deleted at once if
// its worker was drained, if its agent never registered, or if it stopped by itself. Others stay for
// clearGrace, because their agent may start again.
func (s *Scaler) unneeded(ctx context.Context, l *listing, instances []Instance) (idle []Instance, err error) {
	var unknown []string
	byID, since := map[string]Instance{}, s.surveys.since(l.pool.ID, instances, l.now)
	for _, i := range instances {
		if m := l.ledger[i.ID]; m != nil && !l.works[i.ID] && l.stopped(i.ID) && m.DeletedAt.IsZero() {
			idle = append(idle, i)
		}
		if !l.works[i.ID] && i.Lives() && (l.ledger[i.ID] != nil || l.now.Sub(since[i.ID]) > clearGrace) {
			unknown, byID[i.ID] = append(unknown, i.ID), i
		}
	}
	if len(unknown) == 0 {
		return idle, nil
	}
	// The rows were read before the machines were listed, so newer rows may exist.
	kept, over, err := models.ListKeptInstances(ctx, s.DB, l.pool.Provider, unknown, models.Deliberate(), clearGrace)
	if err != nil {
		return nil, err
	}
	others, err := capacity.ListOthersMachines(ctx, s.DB, l.pool, unknown)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Concat(kept, others) {
		delete(byID, id)
	}
	for id, i := range byID {
		if slices.Contains(over, id) || l.now.Sub(since[id]) > clearGrace {
			idle = append(idle, i)
			delete(byID, id)
		}
	}
	s.surveys.keep(l.pool.ID, kept, byID)
	return idle, nil
}

// listEvery is how often a remote provider is asked for the machines of a pool. Clouds limit such
// calls.
const listEvery = 5 * time.Second

// surveys keeps for each pool the newest comparison with its provider's list.
type surveys struct {
	mu sync.Mutex
	// newest are the successful comparisons since the pool's last Create.
	newest map[models.PoolID]comparison
	// first is when machines were first listed, for providers that do not say when they created
	// them.
	first map[models.PoolID]map[string]time.Time
	// lists is when the newest list was asked for, by PostgreSQL's clock.
	lists map[models.PoolID]time.Time
	// strange are the machines of the newest list that the ledger did not have for the pool.
	strange map[models.PoolID]map[string]bool
	// waits are the machines without a worker that the newest comparison left alone for a while.
	waits map[models.PoolID]map[string]bool
}

// comparison records when a provider was asked, and whether the pool was closed then.
type comparison struct {
	asked  time.Time
	closed bool
}

// isCurrent reports whether a pool needs no comparison now. A pool that has closed since the last
// one does, to end its booting workers.
func (s *surveys) isCurrent(p *capacity.Pool, now time.Time) bool {
	_, closed := closedNow(p, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.newest[p.ID]
	return known && now.Sub(last.asked) < listEvery && last.closed == closed
}

// look makes the next round compare the pools of which a machine has lost its last worker, to delete it.
func (s *surveys) look(pools []poolState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range pools {
		works := map[string]bool{}
		for _, w := range p.workers {
			works[w.ProviderInstanceID] = true
		}
		if slices.ContainsFunc(p.machines, func(m *capacity.Machine) bool {
			return !works[m.InstanceID] && m.ToldAt.IsZero() && m.MissingAt.IsZero() && !s.waits[p.pool.ID][m.InstanceID]
		}) {
			delete(s.newest, p.pool.ID)
		}
	}
}

// done notes that a pool was compared with a list that was asked for at a time, by the clock of this
// process and by PostgreSQL's. If machines were deleted, the next round looks whether they are gone.
func (s *surveys) done(p *capacity.Pool, asked, now time.Time, deleted bool) {
	_, closed := closedNow(p, asked)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		s.newest, s.lists = map[models.PoolID]comparison{}, map[models.PoolID]time.Time{}
	}
	s.newest[p.ID], s.lists[p.ID] = comparison{asked, closed}, now
	if deleted {
		delete(s.newest, p.ID)
	}
}

// before returns when the newest list of a pool was asked for, by PostgreSQL's clock, or zero.
func (s *surveys) before(pool models.PoolID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists[pool]
}

// news returns those of the machines that were not strange before. From now on they are, and no others.
func (s *surveys) news(pool models.PoolID, ids []string) (fresh []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strange == nil {
		s.strange = map[models.PoolID]map[string]bool{}
	}
	now := map[string]bool{}
	for _, id := range ids {
		if now[id] = true; !s.strange[pool][id] {
			fresh = append(fresh, id)
		}
	}
	s.strange[pool] = now
	return fresh
}

// keep notes which machines without a worker stay for a while.
func (s *surveys) keep(pool models.PoolID, kept []string, others map[string]Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits == nil {
		s.waits = map[models.PoolID]map[string]bool{}
	}
	waits := map[string]bool{}
	for _, id := range kept {
		waits[id] = true
	}
	for id := range others {
		waits[id] = true
	}
	s.waits[pool] = waits
}

// drop makes the next round compare a pool.
func (s *surveys) drop(id models.PoolID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.newest, id)
}

// since returns the time from which each of a pool's machines is known to exist. It forgets
// machines that are no longer listed.
func (s *surveys) since(pool models.PoolID, instances []Instance, now time.Time) map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := map[string]time.Time{}
	for _, i := range instances {
		switch before, seen := s.first[pool][i.ID]; {
		case !i.CreatedAt.IsZero():
			since[i.ID] = i.CreatedAt
		case seen:
			since[i.ID] = before
		default:
			since[i.ID] = now
		}
	}
	if s.first == nil {
		s.first = map[models.PoolID]map[string]time.Time{}
	}
	s.first[pool] = since
	return since
}

// callPatience is how long a round waits for the providers. Longer calls continue, and rounds leave
// their pools alone until they end.
const callPatience = 2 * time.Second

// callLimit bounds a call to a provider. It is longer than the limits of the providers.
const callLimit = 5 * time.Minute

// calls contains the running calls to providers, at most one per pool.
type calls struct {
	mu      sync.Mutex
	running map[models.PoolID]running
	started []chan struct{} // since the last wait; each is closed when its call ends
	failed  []error         // of those that ended
	stopped bool            // no further call may start
}

type running struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// start runs a call in the background, unless a call of the pool already runs. The call does not
// end with ctx, which belongs to the round.
func (c *calls) start(ctx context.Context, pool models.PoolID, call func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, runs := c.running[pool]; runs || c.stopped {
		return
	}
	if c.running == nil {
		c.running = map[models.PoolID]running{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	done := make(chan struct{})
	c.running[pool], c.started = running{cancel, done}, append(c.started, done)
	go func() {
		defer close(done)
		defer cancel()
		err := call(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, pool)
		if err != nil && !c.stopped {
			c.failed = append(c.failed, err)
		}
	}()
}

// stopLimit bounds how long a process waits at its end for the calls that it cancelled. It is
// longer than a program of the provider "command" may take to end.
const stopLimit = 5 * time.Second

// stop cancels the running calls, and waits up to stopLimit until they have ended.
func (c *calls) stop() {
	c.mu.Lock()
	c.stopped = true
	all := slices.Collect(maps.Values(c.running))
	c.mu.Unlock()
	limit := time.After(stopLimit)
	for _, r := range all {
		r.cancel()
	}
	for _, r := range all {
		select {
		case <-r.done:
		case <-limit:
			return
		}
	}
}

// wait waits up to callPatience for the calls that were started since the last wait. It returns the
// errors of all calls that have ended since then.
func (c *calls) wait(ctx context.Context) error {
	patience := time.NewTimer(callPatience)
	defer patience.Stop()
	c.mu.Lock()
	started := c.started
	c.started = nil
	c.mu.Unlock()
	for _, done := range started {
		select {
		case <-done:
		case <-patience.C:
			patience.Reset(0)
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Join(c.failed...)
	c.failed = nil
	return err
}
