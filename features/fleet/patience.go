package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/capacity"
)

// offer is a price at which a pool runs jobs without a wait target.
type offer struct {
	pool  *poolShare
	price float64
	// later means that the pool boots no workers now. It has room at from.
	later bool
	from  time.Time
	// hour means that the pool's own price falls at from.
	hour bool
}

// bargain assigns the jobs of a queue without a wait target to the cheapest offers. Such jobs wait
// for a later offer as long as the lane's patience lasts; then they move to a higher lane, which
// does not wait. A pool boots no workers for jobs that wait for its lower price.
func (l *waitingLine) bargain(pools []*poolShare) {
	var offers []offer
	for _, p := range pools {
		offers = append(offers, l.offersOf(p)...)
	}
	slices.SortStableFunc(offers, func(a, b offer) int {
		return cmp.Or(cmp.Compare(rank(!a.dedicated()), rank(!b.dedicated())), cmp.Compare(a.price, b.price),
			cmp.Compare(rank(a.later), rank(b.later)), -cmp.Compare(a.pool.pool.CapacityClass, b.pool.pool.CapacityClass))
	})
	for i, o := range offers {
		if !o.later {
			l.fill(o.pool, o.pool.most())
			continue
		}
		n := min(l.left, l.carries(o))
		if n < 0.5 {
			continue
		}
		dearer := l.spared(o, offers[i+1:])
		if dearer == nil && o.hour {
			dearer = o.pool // so that a reason mentions them
		}
		if dearer != nil {
			dearer.cheaper = dearer.cheaper.and(o, n)
		}
		if o.hour {
			l.left -= n
		} else {
			l.give(o.pool, n)
		}
	}
}

// dedicated reports whether an offer precedes all others: its pool is dedicated to the account, and
// the offer does not wait for one of the pool's workers.
func (o offer) dedicated() bool { return len(o.pool.pool.Accounts) > 0 && (!o.later || o.hour) }

// saving counts jobs for which a pool boots no workers, because they wait for an offer.
type saving struct {
	offer
	jobs float64
}

// and adds jobs. It keeps one of the offers, for the reason.
func (s *saving) and(o offer, jobs float64) *saving {
	if s == nil {
		return &saving{o, jobs}
	}
	s.jobs += jobs
	return s
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

// spared returns the pool that would boot a worker if no job waited for an offer, or nil. rest are
// the offers that are not cheaper.
func (l *waitingLine) spared(o offer, rest []offer) *poolShare {
	for _, next := range rest {
		if !next.later && next.price > o.price && next.pool.fits(l, next.pool.most()) > 0 {
			return next.pool
		}
	}
	return nil
}

// carries returns how many jobs a pool can complete at an offer within the patience.
func (l *waitingLine) carries(o offer) float64 {
	workers := o.pool.pool.MaxWorkers - o.pool.others(l.lane)
	each := l.seconds(o.pool)
	if workers <= 0 || each <= 0 {
		return float64(max(workers, 0)) * math.MaxInt32
	}
	left := jobs.Policies[l.lane].Patience - o.from.Sub(l.now)
	return max(0, math.Floor(float64(workers)*left.Seconds()/each)-o.pool.lanes[l.lane].depth)
}

// offersOf returns a pool's offers now and within the patience of the lane.
func (l *waitingLine) offersOf(p *poolShare) []offer {
	until := l.now.Add(jobs.Policies[l.lane].Patience)
	var found []offer
	from, ok := p.hasRoom(l.now)
	if !ok || from.After(until) {
		return nil
	}
	if tooDear(p.pool, from) == "" {
		found = append(found, offer{pool: p, price: p.pool.PriceAt(from), later: true, from: from})
	}
	if p.closed == "" && p.waits == "" {
		found = append(found, offer{pool: p, price: p.price})
	}
	var best *capacity.PriceStep
	for _, step := range p.pool.PricesAhead(from, until) {
		cheaper := step.PricePerHourUSD < p.pool.PriceAt(from) && (best == nil || step.PricePerHourUSD < best.PricePerHourUSD)
		if cheaper && tooDear(p.pool, step.From) == "" && !OutsideHours(p.pool, step.From) {
			best = &step
		}
	}
	if best != nil {
		found = append(found, offer{pool: p, price: best.PricePerHourUSD, later: true, from: best.From, hour: true})
	}
	return found
}

// hasRoom returns the time from which a pool can have more workers, judged by its own state.
func (p *poolShare) hasRoom(now time.Time) (from time.Time, ok bool) {
	b := p.pool.PoolBackoff
	switch {
	case p.frozen, !p.pool.DeletedAt.IsZero(), p.pool.Deserted, !p.pool.PausedAt.IsZero():
		return now, false
	case OutsideHours(p.pool, now):
		hours, err := ParseHours(p.pool.ActiveHours)
		if err != nil {
			return now, false
		}
		from = hours.Opens(now)
		return from, !from.IsZero()
	case b.BackoffUntil.After(now):
		// Other refusals do not end by themselves.
		return b.BackoffUntil, b.BackoffClass == string(Stockout) || b.BackoffClass == string(Transient)
	case p.pool.NotBooting():
		return now, false // it is unknown whether the next machine starts
	}
	return now, true
}

// of explains why a pool boots no workers for jobs.
func (s *saving) of(dearer *poolShare) string {
	if s == nil {
		return ""
	}
	what := text.Count(int(math.Round(s.jobs)), "BATCH job") + " can wait for "
	if s.hour && s.pool == dearer {
		what += "a lower price"
	} else {
		what += "the cheaper pool " + s.pool.pool.Name
	}
	what += fmt.Sprintf(", $%g", s.price)
	if s.hour || s.pool.closed != "" {
		what += s.from.UTC().Format(" at 15:04 UTC")
	}
	return fmt.Sprintf("%s instead of $%g per hour", what, dearer.price)
}
