package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
)

// QueueCapacity is what workers and pools can do for a queue, and how long that takes.
type QueueCapacity struct {
	Lane  models.Tier
	Model string
	// Workers is how many workers can run its jobs: those of pools that are not paused, and those
	// without a pool. Maximum is how many the pools may have.
	Workers, Maximum int
	// ServedBy are the names of the pools that run its model's jobs, paused ones included, and
	// Poolless is how many workers without a pool do.
	ServedBy []string
	Poolless int
	// AtMaximum means that all of these pools have as many workers as they may have, and no worker
	// is idle: more jobs only wait longer.
	AtMaximum bool
	// Cause says what sets how fast the queue empties, in a few words.
	Cause string
	// Drain is the time until the queue is empty.
	Drain estimate.Drain

	noSlot *WaitingReason // why its jobs wait for a hosted provider, or nil
}

// Served reports whether any pool or worker runs its jobs.
func (c *QueueCapacity) Served() bool { return len(c.ServedBy) > 0 || c.Poolless > 0 }

// Blocked says why jobs of the queue do not start, as things are, or "" if they start.
func (c *QueueCapacity) Blocked() string {
	if c.Model != "" && !c.Served() {
		return nothingServes
	}
	if c.Drain.Seconds != nil {
		return ""
	}
	return c.Drain.LeftOutText()
}

const nothingServes = "no pool and no worker serves it"

// Drains returns how long the queues take to empty. It is the source of all figures of that.
func (r *Queues) Drains(ctx context.Context) (*estimate.Drains, error) {
	found, err := estimate.ReadDrains(ctx, r.db, r.catalogue.Current())
	return found, apierror.Wrap(err, "read how long the queues take to empty")
}

// Capacities returns the capacity of each of these queues, by lane and model. That of a whole
// lane, with an empty model, has only its drain.
func (r *Queues) Capacities(ctx context.Context, queues []backlog.QueueCount) ([]QueueCapacity, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	pools, err := r.fleet.Pools(ctx)
	if err != nil {
		return nil, err
	}
	now, err := postgres.Now(ctx, r.db)
	if err != nil {
		return nil, apierror.Wrap(err, "read the time")
	}
	drains, err := r.Drains(ctx)
	if err != nil {
		return nil, err
	}
	names := lo.Uniq(lo.Map(queues, func(q backlog.QueueCount, _ int) string { return q.Model }))
	capacity, err := capacity.ListCapacity(ctx, r.db, names)
	if err != nil {
		return nil, apierror.Wrap(err, "read the capacity")
	}
	noSlots, err := r.noSlots(ctx, queues)
	if err != nil {
		return nil, err
	}
	known := r.catalogue.Current()
	found := make([]QueueCapacity, len(queues))
	for i, q := range queues {
		found[i] = QueueCapacity{Lane: q.Lane, Model: q.Model}
		if q.Model != "" {
			found[i] = CapacityOf(q.Lane, q.Model, pools, poolless(known, capacity, q), now)
		}
		found[i].Drain, found[i].noSlot = drains.Of(q.Lane, q.Model), noSlots[q.Model]
	}
	return found, nil
}

// poolless sums up the workers without a pool that run the jobs of a queue.
func poolless(known *catalogue.Snapshot, capacity []capacity.Capacity, q backlog.QueueCount) (all capacity.Capacity) {
	queue := models.Queue{Line: models.Line{Lane: q.Lane}, Model: q.Model}
	for _, c := range capacity {
		if c.Poolless == 0 || !c.ServesLane(q.Lane) || !known.CapabilityOf(c.Offer).Runs(queue) {
			continue
		}
		all.Poolless += c.Poolless
		all.PoollessIdle += c.PoollessIdle
	}
	return all
}

// serves reports whether a pool's workers run a model's jobs of a lane.
func serves(p *PoolStatus, lane models.Tier, model string) bool {
	return slices.Contains(p.Models, model) && (len(p.Tiers) == 0 || slices.Contains(p.Tiers, lane))
}

// CapacityOf returns what these pools, and workers without a pool, can do for the jobs of a lane and
// model. It does not know the drain.
func CapacityOf(lane models.Tier, model string, pools []*PoolStatus, others capacity.Capacity, now time.Time) QueueCapacity {
	c := QueueCapacity{Lane: lane, Model: model, Poolless: others.Poolless, Workers: others.Poolless}
	var booting, refused int
	idle, inPools := others.PoollessIdle, 0
	full, broken := true, ""
	var shut []string
	for _, p := range pools {
		if !serves(p, lane, model) {
			continue
		}
		if c.ServedBy = append(c.ServedBy, p.Name); p.Paused() {
			continue
		}
		workers := p.Booting + p.Idle + p.Busy + p.Draining
		inPools, c.Maximum = inPools+workers, c.Maximum+p.MaxWorkers
		booting, idle = booting+p.Booting, idle+p.Idle
		full = full && max(workers, p.PaidWorkers) >= p.MaxWorkers // also machines that end
		switch limit := p.MaxPricePerHourUSD; {
		case p.ClosedUntil.After(now):
			shut = append(shut, p.Name+" is outside its active hours")
		case limit > 0 && p.PriceAt(now) > limit:
			shut = append(shut, p.Name+" is dearer than its limit")
		case p.BackoffUntil.After(now) || p.ProviderProblem != "":
			refused++
		}
		if p.NotBooting() {
			broken = fmt.Sprintf("the machines of %s do not start (%s)", p.Name, p.BootFailure)
		}
	}
	c.Workers += inPools
	c.AtMaximum = full && c.Maximum > 0 && idle == 0
	var parts []string
	switch {
	case !c.Served():
		c.Cause = nothingServes
		return c
	case len(c.ServedBy) == 0:
	case c.Maximum == 0:
		parts = append(parts, "its pools are paused or may have no workers")
	case broken != "" && idle == 0:
		c.AtMaximum = false
		parts = append(parts, fmt.Sprintf("%d of at most %s", inPools, text.Count(c.Maximum, "worker")), broken)
	case c.AtMaximum:
		parts = append(parts, "at the maximum of "+text.Count(c.Maximum, "worker"))
	default:
		parts = append(parts, fmt.Sprintf("%d of at most %s", inPools, text.Count(c.Maximum, "worker")))
		parts = append(parts, shut...)
		if refused > 0 {
			parts = append(parts, "a pool gets no machines")
		} else if booting > 0 {
			parts = append(parts, fmt.Sprintf("%d booting", booting))
		}
	}
	if c.Poolless > 0 {
		parts = append(parts, text.Count(c.Poolless, "worker")+" without a pool")
	}
	c.Cause = strings.Join(parts, ", ")
	return c
}
