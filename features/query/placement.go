package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
)

// Placement is a pool whose workers can run a job, or the workers without a pool, and what the job costs
// there: on the idle worker on which it costs least or, if none is idle, on one that boots.
type Placement struct {
	// Pool is nil for the workers without a pool.
	Pool *PoolStatus
	estimate.StartCost
	// Idle is how many workers are idle.
	Idle int
	// Obstacle is why no worker takes it or boots there now, in a few words; or "".
	Obstacle string
	// Preferred marks the place that the job gets if its turn comes now, and Here where its worker is.
	Preferred, Here bool

	typical estimate.StartCost // of a typical job of its model: claims do not know the job yet
}

// PoolID is the pool's id, or "" without a pool.
func (p *Placement) PoolID() models.PoolID {
	if p.Pool == nil {
		return ""
	}
	return p.Pool.ID
}

// PoolName is the pool's name, or "" without a pool.
func (p *Placement) PoolName() string {
	if p.Pool == nil {
		return ""
	}
	return p.Pool.Name
}

// maxIdle bounds how many idle workers are compared.
const maxIdle = 1000

// Placements returns where each of the jobs can run, the preferred place first. It is for operators and viewers:
// others get nothing. Claims order idle workers by the same cost, and the scaler the pools that boot one. It takes
// the same few statements for one job as for many.
func (e Edges) Placements(ctx context.Context) (map[models.JobID][]*Placement, error) {
	open := lo.Filter(e.rows, func(job *models.Job, _ int) bool { return !job.Status.Terminal() })
	if e.caller.RequireViewer() != nil || len(open) == 0 {
		return nil, nil
	}
	f, err := e.jobs.readFloor(ctx, open)
	if err != nil {
		return nil, fmt.Errorf("read where jobs can run: %w", err)
	}
	return lo.SliceToMap(open, func(job *models.Job) (models.JobID, []*Placement) { return job.ID, f.placements(job) }), nil
}

// floor is what is known of the places where jobs can run.
type floor struct {
	known   *catalogue.Snapshot
	now     time.Time
	pools   []*PoolStatus
	idle    []*models.Worker
	boots   map[models.PoolID]float64
	loads   map[loadAt]estimate.LoadTime
	times   estimate.RenderTimes
	holders map[models.JobID]*models.Worker // by the jobs that run
}

func (r *Jobs) readFloor(ctx context.Context, rows []*models.Job) (f *floor, err error) {
	f = &floor{known: r.catalogue.Current(), loads: map[loadAt]estimate.LoadTime{}, holders: map[models.JobID]*models.Worker{}}
	if f.now, err = postgres.Now(ctx, r.db); err != nil {
		return nil, err
	}
	if f.pools, err = r.fleet.Pools(ctx); err != nil {
		return nil, err
	}
	f.idle, err = models.ListWorkers(ctx, r.db, models.WorkerFilter{Status: []models.WorkerStatus{models.WorkerIdle}}, "", maxIdle)
	if err != nil {
		return nil, err
	}
	if f.boots, err = capacity.MedianBoots(ctx, r.db); err != nil {
		return nil, err
	}
	loads, err := models.ListModelLoads(ctx, r.db)
	if err != nil {
		return nil, err
	}
	for _, l := range loads {
		f.loads[loadAt{l.PoolID, l.GPUType, l.Model}] = estimate.LoadTimeOf(l)
	}
	known, err := backlog.ListRenderTimes(ctx, r.db)
	if err != nil {
		return nil, err
	}
	f.times = estimate.NewRenderTimes(known)
	live := lo.FilterMap(rows, func(job *models.Job, _ int) (models.JobID, bool) { return job.ID, job.Status.Live() })
	if len(live) == 0 {
		return f, nil
	}
	last, err := models.ListLastWorkers(ctx, r.db, live)
	if err != nil {
		return nil, err
	}
	workers, err := models.GetWorkers(ctx, r.db, lo.Uniq(lo.Values(last)))
	byID := lo.KeyBy(workers, func(w *models.Worker) models.WorkerID { return w.ID })
	for job, id := range last {
		f.holders[job] = byID[id]
	}
	return f, err
}

// placements returns where a job can run.
func (f *floor) placements(job *models.Job) []*Placement {
	serves := func(o models.Offer) bool { return f.known.CapabilityOf(o).Serves(job.Queue(), job.AccountID) }
	byPool := map[models.PoolID]*Placement{}
	for _, pool := range f.pools {
		if offer := pool.Offer(f.now); serves(offer) {
			byPool[pool.ID] = &Placement{Pool: pool, Obstacle: obstacle(pool, f.now)}
			f.price(byPool[pool.ID], job, offer, false)
		}
	}
	for _, w := range f.idle {
		if w.Quarantined(f.now) || !serves(w.Offer) || w.ID == job.AvoidWorkerID && job.AvoidUntil.After(f.now) {
			continue
		}
		place := byPool[w.PoolID]
		if place == nil { // without a pool, or of a pool whose price has just changed
			place = &Placement{}
			byPool[w.PoolID] = place
		}
		at := Placement{Pool: place.Pool, Idle: 1}
		f.price(&at, job, w.Offer, slices.Contains(w.WarmModels, job.Model))
		if place.Idle == 0 || at.typical.Compare(place.typical) < 0 {
			place.StartCost, place.typical = at.StartCost, at.typical
		}
		place.Idle, place.Obstacle = place.Idle+1, ""
	}
	if holder := f.holders[job.ID]; holder != nil {
		if byPool[holder.PoolID] == nil && holder.PoolID == "" {
			byPool[""] = &Placement{}
			f.price(byPool[""], job, holder.Offer, true)
		}
		if place := byPool[holder.PoolID]; place != nil {
			place.Here = true
		}
	}
	return inOrder(job, lo.Values(byPool))
}

// loadAt is a model on a GPU type of a pool.
type loadAt struct {
	pool           models.PoolID
	gpuType, model string
}

// price writes what a job costs on an idle worker of an offer, or on one that boots if none is idle.
func (f *floor) price(at *Placement, job *models.Job, offer models.Offer, warm bool) {
	pool := at.PoolID()
	load := f.loads[loadAt{pool, offer.GPUType, job.Model}]
	at.StartCost = estimate.StartCost{PricePerHourUSD: lo.FromPtr(offer.PricePerHourUSD),
		LoadSeconds: max(load.Seconds, estimate.UnmeasuredLoad)}
	switch {
	case warm:
		at.LoadSeconds = 0
	case at.Idle == 0:
		at.BootSeconds = cmp.Or(f.boots[pool], estimate.BootGuess.Seconds())
		at.LoadSeconds = cmp.Or(load.ColdSeconds(), estimate.LoadGuess.Seconds())
	}
	at.typical = at.StartCost
	at.RenderSeconds = job.EstimatedGPUSeconds * f.times.Ratio(backlog.Kind{Model: job.Model, TimeClass: job.TimeClass}, offer.GPUType)
	typical := job.EstimatedGPUSeconds
	if m, err := f.known.Model(job.Model); err == nil {
		typical = m.EstimateGPUSeconds(nil)
	}
	at.typical.RenderSeconds = typical * f.times.Ratio(backlog.Kind{Model: job.Model}, offer.GPUType)
}

// inOrder sorts places: those with an idle worker, as claims choose, then those that can boot one, as the scaler
// chooses, then the others. It marks the preferred one.
func inOrder(job *models.Job, all []*Placement) []*Placement {
	group := func(p *Placement) int {
		switch {
		case p.Idle > 0:
			return 0
		case p.Obstacle != "":
			return 3
		case p.Pool != nil && len(p.Pool.Accounts) > 0:
			return 1
		}
		return 2
	}
	slices.SortFunc(all, func(a, b *Placement) int {
		order := cmp.Compare(group(a), group(b))
		switch {
		case order != 0:
			return order
		case group(a) == 0:
			order = a.typical.Compare(b.typical)
		case jobs.Policies[job.Lane].WaitTarget == jobs.NoTarget:
			order = cmp.Compare(a.PricePerHourUSD, b.PricePerHourUSD)
		default:
			order = cmp.Compare(a.USD(), b.USD())
		}
		class := func(p *Placement) models.CapacityClass {
			if p.Pool == nil {
				return ""
			}
			return p.Pool.CapacityClass
		}
		return cmp.Or(order, -cmp.Compare(class(a), class(b)), cmp.Compare(a.PoolName(), b.PoolName()))
	})
	if len(all) > 0 && group(all[0]) < 3 && job.Status.Waiting() {
		all[0].Preferred = true
	}
	return all
}

// obstacle says in a few words why a pool boots no worker now, or "".
func obstacle(p *PoolStatus, now time.Time) string {
	at := func(t time.Time) string { return text.MomentToSecond(t.UTC(), now) }
	limit, price := p.MaxPricePerHourUSD, p.PriceAt(now)
	full := max(p.Booting+p.Idle+p.Busy+p.Draining, p.PaidWorkers)
	switch {
	case p.Paused():
		return "paused"
	case p.ClosedUntil.After(now):
		return "closed until " + at(p.ClosedUntil)
	case p.BackoffUntil.After(now):
		return "refused until " + at(p.BackoffUntil)
	case p.NotBooting():
		return "its machines do not start"
	case p.ProviderProblem != "":
		return "its provider fails"
	case limit > 0 && price > limit:
		return fmt.Sprintf("dearer than its limit of $%g", limit)
	case p.HasEngines():
		return "its workers are those of its engines"
	case p.Provider == "static":
		return "its machines come by themselves"
	case p.Booting > 0:
		return text.Count(p.Booting, "worker") + " boot" + lo.Ternary(p.Booting == 1, "s", "") + " already"
	case full >= p.MaxWorkers:
		return "at its maximum of " + text.Count(p.MaxWorkers, "worker")
	}
	return ""
}
