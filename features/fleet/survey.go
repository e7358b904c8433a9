package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
		instances = s.surveys.remember(p.pool.ID, instances, now)
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
// then has only the machines of workers that have not ended.
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
			why := fmt.Sprintf("its agent did not register within %s; the provider reports the machine as %s",
				text.Setting(bootLimit(p.pool)), i.State)
			if i.Cause != "" {
				why += ": " + i.Cause
			}
			err = s.endBoot(ctx, w, why)
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
