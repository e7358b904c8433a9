package query

import (
	"cmp"
	"context"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Fleet reads pools, their workers and machines. It is for operators, unless a method says otherwise.
type Fleet struct {
	db        *bun.DB
	catalogue *catalogue.Catalogue
	// checkpoints may be nil.
	checkpoints *checkpoints.Plans
}

// Workers lists workers, newest first.
func (r *Fleet) Workers(ctx context.Context, f models.WorkerFilter, of paging.Request) (*paging.Page[*models.Worker], error) {
	all := paging.ListOf("wrk", f)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	if f.PoolID != "" && !f.PoolID.Valid() {
		return nil, apierror.NotFound("pool")
	}
	found, err := models.ListWorkers(ctx, r.db, f, models.WorkerID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return paging.NewPage(all, found, of.First, func(w *models.Worker) string { return string(w.ID) }), nil
}

// CountWorkers counts workers up to CountLimit. CountLimit+1 means more.
func (r *Fleet) CountWorkers(ctx context.Context, f models.WorkerFilter) (int, error) {
	n, err := models.CountWorkers(ctx, r.db, f, CountLimit+1)
	return n, apierror.Wrap(err, "count workers")
}

// Worker returns a worker, or NOT_FOUND.
func (r *Fleet) Worker(ctx context.Context, id models.WorkerID) (*models.Worker, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("worker")
	}
	return jobs.GetWorker(ctx, r.db, id)
}

// SeesWorker reports whether a client may see a worker: one that has worked on a job of the
// client.
func (r *Fleet) SeesWorker(ctx context.Context, p jobs.Principal, id models.WorkerID) (bool, error) {
	if p.May(access.RoleViewer) {
		return true, nil
	}
	seen, err := models.WorkerServed(ctx, r.db, id, p.AccountID)
	return seen, apierror.Wrap(err, "read worker %s", id)
}

// Counts counts waiting and running jobs by lane and model.
func (r *Queues) Counts(ctx context.Context) ([]backlog.QueueCount, error) {
	counts, err := backlog.CountQueues(ctx, r.db)
	return counts, apierror.Wrap(err, "count queues")
}

// PoolStatus is a pool with the numbers of its workers by state.
type PoolStatus struct {
	*capacity.Pool
	Booting, Idle, Busy, Draining int
	// PaidWorkers is for how many workers machines are paid for now, also those that boot or end.
	PaidWorkers int
	// PausedBy is the name of the key, or the address of the member, that paused the pool, or nil.
	PausedBy *string
	// CheckpointPlans has a plan for each model.
	CheckpointPlans []*checkpoints.Plan
	// ModelLoads are the models whose load was measured.
	ModelLoads []estimate.LoadTime
	// Engines are the engines of a pool of engines, as its operator listed them.
	Engines []*PoolEngine
	// ProviderAccount is what the pool uses at its hosted provider, or nil.
	ProviderAccount *capacity.ProviderUse
}

// PoolEngine is an engine of a pool.
type PoolEngine struct {
	*capacity.Engine
	// HeldBy is the name of the key, or the address of the member, that took it out of service, or nil.
	HeldBy *string
}

// Kind returns the kind of the pool's engines, or nil if it has none.
func (p *PoolStatus) Kind() *engine.Kind {
	if !p.HasEngines() {
		return nil
	}
	return &p.EngineKind
}

// Paused reports whether an operator paused the pool.
func (p *PoolStatus) Paused() bool { return !p.PausedAt.IsZero() }

// Growth returns how many machines the next request asks for at most, or nil if any number.
func (p *PoolStatus) Growth() *int {
	if p.GrowBy == 0 {
		return nil
	}
	return &p.GrowBy
}

// Pools lists all pools by name.
func (r *Fleet) Pools(ctx context.Context) ([]*PoolStatus, error) {
	pools, err := capacity.ListPools(ctx, r.db, capacity.NoPoolLock)
	if err != nil {
		return nil, fmt.Errorf("list pools: %w", err)
	}
	return r.poolStatus(ctx, pools)
}

// PoolsByID returns pools by their ids, in any order.
func (r *Fleet) PoolsByID(ctx context.Context, ids []models.PoolID) ([]*PoolStatus, error) {
	pools, err := capacity.GetPools(ctx, r.db, ids)
	if err != nil {
		return nil, fmt.Errorf("read pools: %w", err)
	}
	return r.poolStatus(ctx, pools)
}

func (r *Fleet) poolStatus(ctx context.Context, pools []*capacity.Pool) ([]*PoolStatus, error) {
	counts, err := capacity.CountPoolWorkers(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("count pool workers: %w", err)
	}
	paid, err := capacity.CountPaidWorkers(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("count the workers that are paid for: %w", err)
	}
	loads, err := models.ListModelLoads(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("list the loads of models: %w", err)
	}
	engines, err := capacity.ListEngines(ctx, r.db, lo.FilterMap(pools, func(p *capacity.Pool, _ int) (models.PoolID, bool) {
		return p.ID, p.HasEngines()
	}))
	if err != nil {
		return nil, fmt.Errorf("list the engines of pools: %w", err)
	}
	accounts, err := capacity.ListProviderUse(ctx, r.db, lo.Map(pools, func(p *capacity.Pool, _ int) models.PoolID { return p.ID }))
	if err != nil {
		return nil, fmt.Errorf("list the accounts at providers: %w", err)
	}
	account := lo.KeyBy(accounts, func(u *capacity.ProviderUse) models.PoolID { return u.PoolID })
	stopped := append(lo.Map(pools, func(p *capacity.Pool, _ int) string { return p.PausedBy }),
		lo.Map(engines, func(e *capacity.Engine, _ int) string { return e.HeldBy })...)
	stopped = lo.Filter(stopped, func(id string, _ int) bool { return models.IDKind(id) != "" })
	names := map[string]string{}
	if len(stopped) > 0 {
		if names, err = models.NamesOf(ctx, r.db, stopped); err != nil {
			return nil, fmt.Errorf("read who paused pools and holds engines: %w", err)
		}
	}
	var found []*PoolStatus
	for _, pool := range pools {
		status := &PoolStatus{Pool: pool, CheckpointPlans: r.checkpoints.OfPool(pool.ID), ModelLoads: []estimate.LoadTime{},
			PaidWorkers: paid[pool.ID], Engines: []*PoolEngine{}, ProviderAccount: account[pool.ID]}
		if pool.PausedBy != "" {
			status.PausedBy = new(cmp.Or(names[pool.PausedBy], pool.PausedBy))
		}
		for _, e := range engines {
			if e.PoolID == pool.ID {
				held := &PoolEngine{Engine: e}
				if e.HeldBy != "" {
					held.HeldBy = new(cmp.Or(names[e.HeldBy], e.HeldBy))
				}
				status.Engines = append(status.Engines, held)
			}
		}
		for _, load := range loads {
			if load.PoolID == pool.ID {
				status.ModelLoads = append(status.ModelLoads, estimate.LoadTimeOf(load))
			}
		}
		for _, c := range counts {
			if c.PoolID != pool.ID {
				continue
			}
			switch c.Status {
			case models.WorkerBooting:
				status.Booting = c.Count
			case models.WorkerIdle:
				status.Idle = c.Count
			case models.WorkerBusy:
				status.Busy = c.Count
			case models.WorkerDraining:
				status.Draining = c.Count
			}
		}
		found = append(found, status)
	}
	return found, nil
}

// Pool returns a pool, or NOT_FOUND.
func (r *Fleet) Pool(ctx context.Context, id models.PoolID) (*PoolStatus, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("pool")
	}
	found, err := r.PoolsByID(ctx, []models.PoolID{id})
	if err == nil && (len(found) == 0 || !found[0].DeletedAt.IsZero()) {
		return nil, apierror.NotFound("pool")
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// ProviderSlots returns the slots that jobs have at the hosted provider of a pool, the oldest first.
func (r *Fleet) ProviderSlots(ctx context.Context, pool models.PoolID) ([]*capacity.ProviderSlot, error) {
	found, err := capacity.ListProviderSlots(ctx, r.db, pool)
	return found, apierror.Wrap(err, "list the slots at a provider")
}

// ProviderErrors returns what the hosted provider of a pool answered that was no success, the newest first.
func (r *Fleet) ProviderErrors(ctx context.Context, pool models.PoolID) ([]*capacity.ProviderError, error) {
	found, err := capacity.ListProviderErrors(ctx, r.db, pool)
	return found, apierror.Wrap(err, "list the errors of a provider")
}

// ScalingHistories returns the newest decisions of each of these pools, newest first, at most
// first (1 to 200) of each.
func (r *Fleet) ScalingHistories(ctx context.Context, pools []models.PoolID, first int) (map[models.PoolID][]*capacity.ScalingDecision,
	error) {
	if err := paging.ValidFirst(first); err != nil {
		return nil, err
	}
	decisions, err := capacity.ListScalingDecisions(ctx, r.db, pools, first)
	found := make(map[models.PoolID][]*capacity.ScalingDecision, len(pools))
	for _, d := range decisions {
		found[d.PoolID] = append(found[d.PoolID], d)
	}
	return found, apierror.Wrap(err, "list scaling decisions")
}

// GPUs returns the newest samples of these workers' GPUs, each worker's by index.
func (r *Fleet) GPUs(ctx context.Context, workers []models.WorkerID) ([]*models.GPUState, error) {
	found, err := models.ListGPUs(ctx, r.db, workers)
	return found, apierror.Wrap(err, "list GPUs")
}

// GPUHistory returns how busy these workers' GPUs were in the last two hours.
func (r *Fleet) GPUHistory(ctx context.Context, workers []models.WorkerID) ([]*capacity.GPUHistory, error) {
	found, err := capacity.ListGPUHistory(ctx, r.db, workers)
	return found, apierror.Wrap(err, "list the history of GPUs")
}

// PoolGPUs sums up the GPUs of each pool's workers.
func (r *Fleet) PoolGPUs(ctx context.Context) ([]models.PoolGPUs, error) {
	found, err := models.SumPoolGPUs(ctx, r.db)
	return found, apierror.Wrap(err, "sum up the GPUs of pools")
}
