package fleet

import (
	"fmt"
	"math"
	"slices"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
)

// dearSpot counts jobs with slack for which a pool boots no workers, because an on-demand machine of
// the pool safe costs less.
type dearSpot struct {
	safe *poolShare
	jobs float64
}

// safest returns the cheapest pool of on-demand capacity that could run the jobs of a queue now if they
// had no slack, or nil. A pool without a price does not count: all jobs may run there.
func safest(q backlog.QueueDemand, byPrice []*poolShare, s snapshot) *poolShare {
	q.Needs = q.Needs.Also(true)
	i := slices.IndexFunc(byPrice, func(p *poolShare) bool {
		return p.pool.CapacityClass == models.CapacityOnDemand && p.price > 0 && p.waits == "" && p.busy < p.most() &&
			takes(p.pool.Offer(s.now), q) && s.runsOn(q.Model, p.pool.GPUType)
	})
	if i < 0 {
		return nil
	}
	return byPrice[i]
}

// cheapest returns the pools that may boot workers for jobs with slack: those that cost no more than
// safe. The jobs wait, because they pay for on-demand capacity at worst, when their slack ends. Until
// then the price of spot capacity may fall.
func (l *waitingLine) cheapest(pools []*poolShare, safe *poolShare) []*poolShare {
	if safe == nil {
		return pools
	}
	cheap, dear := lo.FilterReject(pools, func(p *poolShare, _ int) bool { return p.price <= safe.price })
	if len(cheap) == 0 && l.left >= 0.5 {
		if dear[0].dearSpot == nil {
			dear[0].dearSpot = &dearSpot{safe: safe}
		}
		dear[0].dearSpot.jobs += l.left
	}
	return cheap
}

// of explains why a pool boots no workers for jobs with slack.
func (d *dearSpot) of(p *poolShare) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("%s with slack can wait: the on-demand pool %s costs $%g instead of $%g per hour",
		text.Count(int(math.Round(d.jobs)), "job"), d.safe.pool.Name, d.safe.price, p.price)
}
