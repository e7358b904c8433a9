package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
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

// PoolName is the pool's name, or "" without a pool.
func (p *Placement) PoolName() string {
	if p.Pool == nil {
		return ""
	}
	return p.Pool.Name
}

// maxIdle bounds how many idle workers are compared.
const maxIdle = 1000

// Placements returns where a job can run, the preferred place first. It is for operators and viewers: others
// get nothing. Claims order idle workers by the same cost, and the scaler the pools that boot one.
func (r *Jobs) Placements(ctx context.Context, p jobs.Principal, job *models.Job) ([]*Placement, error) {
	if p.RequireViewer() != nil || !p.Sees(job.AccountID) || job.Status.Terminal() {
		return nil, nil
	}
	found, err := r.placements(ctx, job)
	return found, apierror.Wrap(err, "read where job %s can run", job.ID)
}

func (r *Jobs) placements(ctx context.Context, job *models.Job) ([]*Placement, error) {
	now, err := postgres.Now(ctx, r.db)
	if err != nil {
		return nil, err
	}
	pools, err := r.fleet.Pools(ctx)
	if err != nil {
		return nil, err
	}
	idle, err := models.ListWorkers(ctx, r.db, models.WorkerFilter{Status: []models.WorkerStatus{models.WorkerIdle}}, "", maxIdle)
	if err != nil {
		return nil, err
	}
	boots, err := capacity.MedianBoots(ctx, r.db)
	if err != nil {
		return nil, err
	}
	loads, err := models.ListModelLoads(ctx, r.db)
	if err != nil {
		return nil, err
	}
	known, err := backlog.ListRenderTimes(ctx, r.db)
	if err != nil {
		return nil, err
	}
	holder, err := r.holder(ctx, job)
	if err != nil {
		return nil, err
	}
	costs := costs{job: job, times: estimate.NewRenderTimes(known), typical: job.EstimatedGPUSeconds, loads: map[poolOn]estimate.LoadTime{}}
	if m, err := r.catalogue.Current().Model(job.Model); err == nil {
		costs.typical = m.EstimateGPUSeconds(nil)
	}
	for _, l := range loads {
		if l.Model == job.Model {
			costs.loads[poolOn{l.PoolID, l.GPUType}] = estimate.LoadTimeOf(l)
		}
	}
	serves := func(o models.Offer) bool {
		return r.catalogue.Current().CapabilityOf(o).Serves(job.Queue(), job.AccountID)
	}
	byPool := map[models.PoolID]*Placement{}
	for _, pool := range pools {
		if offer := pool.Offer(now); serves(offer) {
			byPool[pool.ID] = &Placement{Pool: pool, Obstacle: obstacle(pool, now)}
			costs.set(byPool[pool.ID], offer, boots[pool.ID], false)
		}
	}
	for _, w := range idle {
		if w.Quarantined(now) || !serves(w.Offer) || w.ID == job.AvoidWorkerID && job.AvoidUntil.After(now) {
			continue
		}
		place := byPool[w.PoolID]
		if place == nil {
			place = &Placement{}
			byPool[w.PoolID] = place
		}
		at := Placement{Pool: place.Pool, Idle: 1}
		costs.set(&at, w.Offer, 0, slices.Contains(w.WarmModels, job.Model))
		if place.Idle == 0 || at.typical.Compare(place.typical) < 0 {
			place.StartCost, place.typical = at.StartCost, at.typical
		}
		place.Idle, place.Obstacle = place.Idle+1, ""
	}
	if holder != nil {
		if byPool[holder.PoolID] == nil && holder.PoolID == "" {
			byPool[""] = &Placement{}
			costs.set(byPool[""], holder.Offer, 0, true)
		}
		if place := byPool[holder.PoolID]; place != nil {
			place.Here = true
		}
	}
	return inOrder(job, lo.Values(byPool)), nil
}

// holder returns the worker that holds the job, or nil.
func (r *Jobs) holder(ctx context.Context, job *models.Job) (*models.Worker, error) {
	if !job.Status.Live() {
		return nil, nil
	}
	last, err := models.ListLastWorkers(ctx, r.db, []models.JobID{job.ID})
	if err != nil {
		return nil, err
	}
	workers, err := models.GetWorkers(ctx, r.db, lo.Values(last))
	w, _ := lo.First(workers)
	return w, err
}

// poolOn is a GPU type of a pool.
type poolOn struct {
	pool    models.PoolID
	gpuType string
}

// costs are what is known of the times of a job.
type costs struct {
	job     *models.Job
	times   estimate.RenderTimes
	typical float64 // GPU seconds of a typical job of its model
	loads   map[poolOn]estimate.LoadTime
}

// set writes what the job costs on an idle worker of an offer, or on one that boots if none is idle.
func (c *costs) set(at *Placement, offer models.Offer, boot float64, warm bool) {
	pool := models.PoolID("")
	if at.Pool != nil {
		pool = at.Pool.ID
	}
	load := c.loads[poolOn{pool, offer.GPUType}]
	at.StartCost = estimate.StartCost{PricePerHourUSD: lo.FromPtr(offer.PricePerHourUSD),
		LoadSeconds: max(load.Seconds, estimate.UnmeasuredLoad)}
	switch {
	case warm:
		at.LoadSeconds = 0
	case at.Idle == 0:
		at.BootSeconds = cmp.Or(boot, estimate.BootGuess.Seconds())
		at.LoadSeconds = cmp.Or(load.ColdSeconds(), estimate.LoadGuess.Seconds())
	}
	at.typical = at.StartCost
	at.RenderSeconds = c.job.EstimatedGPUSeconds * c.times.Ratio(backlog.Kind{Model: c.job.Model, TimeClass: c.job.TimeClass}, offer.GPUType)
	at.typical.RenderSeconds = c.typical * c.times.Ratio(backlog.Kind{Model: c.job.Model}, offer.GPUType)
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
	case p.Provider == "static":
		return "its machines come by themselves"
	case p.Booting > 0:
		return text.Count(p.Booting, "worker") + " boot" + lo.Ternary(p.Booting == 1, "s", "") + " already"
	case full >= p.MaxWorkers:
		return "at its maximum of " + text.Count(p.MaxWorkers, "worker")
	}
	return ""
}
