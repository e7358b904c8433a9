package fleet

import (
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

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
	// taken are the machines that lists had as taken away, and until when they count as listed. Some providers say
	// it in one list only, before the worker has been silent for long enough to be ended.
	taken map[models.PoolID]map[string]takenAway
	// waits are the machines without a worker that the newest comparison left alone for a while.
	waits map[models.PoolID]map[string]bool
}

// comparison records when a provider was asked, and whether the pool was closed then.
type comparison struct {
	asked  time.Time
	closed bool
}

// takenAway is a machine that was taken away, and until when that is remembered.
type takenAway struct {
	Instance
	until time.Time
}

// rememberTaken is how long a machine that was taken away counts as listed: longer than a worker of it can seem to live.
const rememberTaken = 10 * time.Minute

// remember returns a list with the machines that were taken away according to earlier lists, and that this one lacks.
func (s *surveys) remember(pool models.PoolID, instances []Instance, now time.Time) []Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.taken = map[models.PoolID]map[string]takenAway{}
	}
	before, taken := s.taken[pool], map[string]takenAway{}
	for _, i := range instances {
		if delete(before, i.ID); i.State == InstanceEnded && i.Reclaimed {
			taken[i.ID] = takenAway{i, now.Add(rememberTaken)}
		}
	}
	for id, i := range before {
		if i.until.After(now) {
			taken[id], instances = i, append(instances, i.Instance)
		}
	}
	s.taken[pool] = taken
	return instances
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
