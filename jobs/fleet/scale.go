package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Scaler sizes pools by what waits for them.
type Scaler struct {
	DB        *bun.DB
	Notifier  *jobs.Notifier
	Providers map[string]jobs.Provider
}

// scalerLock is the advisory lock that lets one process scale at a time.
const scalerLock = 0x7363616c65

// plan is what the scaler wants of a pool, and why.
type plan struct {
	workers int
	reason  string
}

// planPool wants the workers that are busy, and those that it takes to start
// what waits within its lane's wait target, between the pool's least and most.
func planPool(d Demand) plan {
	need, waiting := 0, 0
	for _, q := range d.Queues {
		waiting += q.Depth
		need += workersFor(q)
	}
	wanted := d.Busy + need
	p := plan{workers: min(max(wanted, d.Min), d.Max)}
	switch {
	case wanted > d.Max:
		p.reason = fmt.Sprintf("%s and %d busy need %d workers; the pool may have %d.", jobsWait(waiting), d.Busy, wanted, d.Max)
	case wanted < d.Min:
		p.reason = fmt.Sprintf("%s and %d busy need %d workers; the pool keeps %d.", jobsWait(waiting), d.Busy, wanted, d.Min)
	default:
		p.reason = fmt.Sprintf("%s and %d busy need %d workers.", jobsWait(waiting), d.Busy, wanted)
	}
	return p
}

func jobsWait(n int) string {
	if n == 1 {
		return "1 waiting job"
	}
	return fmt.Sprintf("%d waiting jobs", n)
}

// Scale makes one decision for each pool whose provider is at hand: it boots
// workers, drains those that were idle for long, and forgets those whose machine
// is gone. Only one process scales at a time; the others return at once.
func (s *Scaler) Scale(ctx context.Context) error {
	pools, err := models.ListPools(ctx, s.DB)
	if err != nil {
		return fmt.Errorf("list pools: %w", err)
	}
	known, err := models.ListRenderTimes(ctx, s.DB)
	if err != nil {
		return fmt.Errorf("read how long renders take: %w", err)
	}
	times := estimate.NewRenderTimes(known)
	var failed []error
	for _, pool := range pools {
		provider := s.Providers[pool.Provider]
		if provider == nil {
			continue
		}
		if err := s.pool(ctx, pool, provider, times); err != nil && !errors.Is(err, jobs.ErrProviderGone) {
			failed = append(failed, fmt.Errorf("scale pool %s: %w", pool.Name, err))
		}
	}
	return errors.Join(failed...)
}

func (s *Scaler) pool(ctx context.Context, pool *models.Pool, provider jobs.Provider, times estimate.RenderTimes) error {
	if err := s.forget(ctx, pool, provider); err != nil {
		return err
	}
	var boot []*models.Worker
	var drained []models.WorkerID
	var decision *models.ScalingDecision
	err := jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		boot, drained, decision = nil, nil, nil
		mine, err := models.TryLock(ctx, tx, scalerLock)
		if err != nil || !mine {
			return err
		}
		demand, workers, err := readDemand(ctx, tx, pool, times)
		if err != nil {
			return err
		}
		p := planPool(demand)
		have := demand.Booting + demand.Idle + demand.Busy
		if boot, err = bootRows(ctx, tx, pool, p.workers-have); err != nil {
			return err
		}
		if drained, err = drainIdle(ctx, tx, pool, workers, have-p.workers); err != nil {
			return err
		}
		if len(boot) == 0 && len(drained) == 0 {
			return nil
		}
		inputs, err := json.Marshal(demand)
		if err != nil {
			return err
		}
		decision = &models.ScalingDecision{PoolID: pool.ID, From: have, To: have + len(boot) - len(drained), Reason: p.reason, Inputs: inputs}
		if err := models.InsertScalingDecision(ctx, tx, decision); err != nil {
			return err
		}
		return models.SetDesired(ctx, tx, pool.ID, decision.To)
	})
	if err != nil {
		return err
	}
	for _, id := range drained {
		s.Notifier.Worker(ctx, id)
	}
	return s.boot(ctx, pool, provider, boot, decision)
}

// boot starts the machines whose rows are written, and notes what failed.
func (s *Scaler) boot(ctx context.Context, pool *models.Pool, provider jobs.Provider, boot []*models.Worker, decision *models.ScalingDecision) error {
	var failed []error
	for _, w := range boot {
		if err := provider.Start(ctx, pool, w.ProviderInstanceID); err != nil {
			failed = append(failed, err)
			_, err = terminateWorker(ctx, s.DB, s.Notifier, w.ID, jobs.Loss{Reason: "it could not be started", Blameless: true})
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return errors.Join(err, models.SetDecisionError(ctx, s.DB, decision.ID, err.Error()))
	}
	return nil
}

// bootRows writes the rows of n workers that are about to boot, so that a crash
// between this and their start leaves something to clear away.
func bootRows(ctx context.Context, tx bun.Tx, pool *models.Pool, n int) ([]*models.Worker, error) {
	var rows []*models.Worker
	for range max(n, 0) {
		w := &models.Worker{
			ID: models.NewWorkerID(), PoolID: pool.ID, Provider: pool.Provider, GPUCount: 1,
			ProviderInstanceID: pool.Name + "-" + uuid.NewString()[:8],
			Region:             pool.Region, GPUType: pool.GPUType, CapacityClass: pool.CapacityClass,
			Models: pool.Models, WarmModels: []string{}, Status: models.WorkerBooting,
		}
		if err := models.InsertWorker(ctx, tx, w); err != nil {
			return nil, fmt.Errorf("write a booting worker: %w", err)
		}
		rows = append(rows, w)
	}
	return rows, nil
}

// drainIdle drains up to n workers that were idle for as long as the pool says,
// the longest idle first.
func drainIdle(ctx context.Context, tx bun.Tx, pool *models.Pool, workers []*models.Worker, n int) ([]models.WorkerID, error) {
	if n <= 0 {
		return nil, nil
	}
	now, err := models.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	idle := slices.DeleteFunc(slices.Clone(workers), func(w *models.Worker) bool {
		return w.Status != models.WorkerIdle || now.Sub(w.IdleSince) < time.Duration(pool.IdleSeconds)*time.Second
	})
	slices.SortFunc(idle, func(a, b *models.Worker) int { return a.IdleSince.Compare(b.IdleSince) })
	var drained []models.WorkerID
	for _, w := range idle[:min(n, len(idle))] {
		ok, err := models.DrainIdleWorker(ctx, tx, w.ID, "the pool needs fewer workers")
		if err != nil {
			return nil, fmt.Errorf("drain worker %s: %w", w.ID, err)
		}
		if ok {
			drained = append(drained, w.ID)
		}
	}
	return drained, nil
}

// bootGrace is how long a booting row may be without an instance: the time
// between the commit and the start.
const bootGrace = 10 * time.Second

// forget ends the workers whose machine the provider says is gone. Their jobs
// are queued again at once: nothing can work on them any more.
func (s *Scaler) forget(ctx context.Context, pool *models.Pool, provider jobs.Provider) error {
	// Rows first: a machine that starts after this look is in neither.
	workers, err := models.ListPoolWorkers(ctx, s.DB, pool.ID)
	if err != nil {
		return err
	}
	now, err := models.Now(ctx, s.DB)
	if err != nil {
		return err
	}
	running, err := provider.Instances(ctx)
	if err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	for _, w := range workers {
		if slices.Contains(running, w.ProviderInstanceID) {
			continue
		}
		if w.Status == models.WorkerBooting && now.Sub(w.CreatedAt) < bootGrace {
			continue
		}
		reclaimed, err := provider.Reclaimed(ctx, w.ProviderInstanceID)
		if err != nil {
			return fmt.Errorf("ask why instance %s is gone: %w", w.ProviderInstanceID, err)
		}
		if _, err := terminateWorker(ctx, s.DB, s.Notifier, w.ID, jobs.Loss{Reason: "its machine is gone", Blameless: reclaimed}); err != nil {
			return err
		}
	}
	return nil
}
