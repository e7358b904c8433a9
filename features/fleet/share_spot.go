package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Policy is what the scaler does in addition to booting the cheapest pools for the waiting jobs.
// The zero value adds nothing.
type Policy struct {
	// OnDemandShare is the part, 0 to 1, of a region's needed workers that come from on-demand
	// pools, as far as these can run what the spot pools run.
	OnDemandShare float64
	// Reserve is how many additional workers such a region has at most, as a part of those needed, 0
	// to 1. It has as many as are likely to be preempted while a new worker starts.
	Reserve float64
	// If Forecast is set, the scaler boots workers for expected jobs.
	Forecast bool
}

// DefaultPolicy is 70 % spot, 30 % on-demand, a reserve of 10 %, and the forecast.
var DefaultPolicy = Policy{OnDemandShare: 0.3, Reserve: 0.1, Forecast: true}

const (
	// stormyRate is the part of a region's spot workers preempted within an hour at which their
	// share is halved.
	stormyRate = 0.2
	// stormyLeast is the minimum number of preemptions for that: one of three workers is not
	// enough.
	stormyLeast = 3
	// priorLosses in priorHours of work are what a region's spot workers are expected to lose before
	// the rate is known: 5 % per hour.
	priorLosses, priorHours = 1, 20
)

// Mix is the division of a region's needed workers among its spot and on-demand pools.
type Mix struct {
	Region string `json:"region"`
	// Workers is how many the region needs, except for jobs that can wait.
	Workers int `json:"workers"`
	// OnDemand is the minimum number of workers from on-demand pools, and Reserve the number of
	// additional ones.
	OnDemand int `json:"onDemand"`
	Reserve  int `json:"reserve"`
	// PreemptedPerHour is the part of the spot workers that was preempted in the last hour.
	PreemptedPerHour float64 `json:"preemptedPerHour"`
	halved           bool
}

// mixed contains the spot pools of a region, and the on-demand pools that can run what each of them
// runs.
type mixed struct {
	spot, safe []*decision
}

// mix moves workers from spot pools to on-demand pools.
func mix(s snapshot, all []*decision) {
	if s.policy.OnDemandShare == 0 && s.policy.Reserve == 0 {
		return
	}
	for _, m := range mixes(all) {
		m.divide(s.policy, s.preempted[m.spot[0].pool.Region])
	}
}

// mixes groups the spot pools by the on-demand pools that can replace them.
func mixes(all []*decision) (found []*mixed) {
	byPrice := slices.SortedStableFunc(slices.Values(all), func(a, b *decision) int {
		return cmp.Compare(a.demand.PricePerHourUSD, b.demand.PricePerHourUSD)
	})
	for _, d := range byPrice {
		if d.pool.CapacityClass != models.CapacitySpot || !servesTargets(d.pool) {
			continue
		}
		var safe []*decision
		for _, o := range byPrice {
			if covers(o.pool, d.pool) {
				safe = append(safe, o)
			}
		}
		if len(safe) == 0 {
			continue
		}
		if i := slices.IndexFunc(found, func(m *mixed) bool { return slices.Equal(m.safe, safe) }); i >= 0 {
			found[i].spot = append(found[i].spot, d)
		} else {
			found = append(found, &mixed{[]*decision{d}, safe})
		}
	}
	return found
}

// servesTargets reports whether a pool serves a lane that has a wait target.
func servesTargets(p *capacity.Pool) bool {
	return len(p.Tiers) == 0 || slices.ContainsFunc(p.Tiers, func(t models.Tier) bool { return jobs.Policies[t].WaitTarget != jobs.NoTarget })
}

// covers reports whether an on-demand pool runs all that a spot pool of its region runs.
func covers(safe, spot *capacity.Pool) bool {
	return safe.CapacityClass == models.CapacityOnDemand && safe.Region == spot.Region && runsAllOf(safe, spot)
}

// runsAllOf reports whether a pool runs all that another one runs.
func runsAllOf(p, other *capacity.Pool) bool {
	return within(other.Models, p.Models) &&
		(len(p.Tiers) == 0 || len(other.Tiers) > 0 && within(other.Tiers, p.Tiers)) &&
		(len(p.Accounts) == 0 || len(other.Accounts) > 0 && within(other.Accounts, p.Accounts))
}

func within[T comparable](some, all []T) bool {
	return !slices.ContainsFunc(some, func(one T) bool { return !slices.Contains(all, one) })
}

// divide assigns to the on-demand pools their share of the workers and the reserve. What exceeds
// their room stays with the spot pools.
func (m *mixed) divide(policy Policy, rate capacity.PreemptionRate) {
	need, warm, safe := 0, 0, 0
	for i, d := range slices.Concat(m.safe, m.spot) {
		if i < len(m.safe) {
			safe += d.urgent()
		}
		need, warm = need+d.urgent(), warm+d.demand.Warm
	}
	x := &Mix{Region: m.spot[0].pool.Region, Workers: need, PreemptedPerHour: rate.PerHour()}
	share := policy.OnDemandShare
	if rate.Preempted >= stormyLeast && rate.PerHour() > stormyRate {
		x.halved, share = true, 1-(1-share)/2
	}
	x.OnDemand = part(share, need)
	x.Reserve = max(min(part(policy.Reserve, need), m.losses(rate))-warm, 0)
	if x.OnDemand == 0 && x.Reserve == 0 {
		return
	}
	for _, d := range slices.Concat(m.safe, m.spot) {
		d.demand.Mix = x
	}
	// The spot pools give what the on-demand pools take; the reserve is additional.
	left := max(x.OnDemand+x.Reserve-safe, 0)
	rest := x.Reserve
	for _, d := range m.safe {
		n := d.add(left)
		left, rest = left-n, rest-n
		d.reserved = min(n, x.Reserve)
	}
	for _, d := range slices.Concat(m.spot, m.safe) {
		n := d.add(max(rest, 0))
		rest, d.reserved = rest-n, d.reserved+n
	}
	for _, d := range slices.Backward(m.spot) {
		n := min(max(-rest, 0), d.urgent())
		d.moved, rest = d.moved-n, rest+n
	}
	m.lend()
}

// lend has idle spot workers that the region does not need stand in for on-demand workers that would
// have to boot, until they leave.
func (m *mixed) lend() {
	spare := 0
	for _, d := range m.spot {
		spare += min(d.demand.Idle, max(0, d.have()-d.need-d.moved-d.demand.Warm))
	}
	for _, d := range m.safe {
		n := min(spare, max(0, d.need+d.moved-d.have()))
		d.moved, spare = d.moved-n, spare-n
	}
}

// losses returns how many of the spot workers are taken away at most while a new worker starts, with a
// probability of 95 %, at the rate of the last hour.
func (m *mixed) losses(rate capacity.PreemptionRate) int {
	perHour := (float64(rate.Preempted) + priorLosses) / (rate.WorkerHours + priorHours)
	expected := 0.0
	for _, d := range m.spot {
		expected += perHour * float64(d.urgent()) * cmp.Or(d.start, NewStart(0, 0)).total().Hours()
	}
	n := 0
	for p, sum := math.Exp(-expected), math.Exp(-expected); sum < 0.95 && p > 0; sum += p {
		n++
		p *= expected / float64(n)
	}
	return n
}

// part is a share of workers, rounded down.
func part(share float64, workers int) int { return int(math.Floor(share*float64(workers) + 1e-9)) }

// urgent returns how many workers the pool needs for jobs that cannot wait.
func (d *decision) urgent() int {
	n := d.need - d.demand.Patient
	for _, q := range d.demand.Queues {
		n -= q.patient()
	}
	return max(min(n, d.demand.Max), 0)
}

// add adds up to n workers, as far as the pool has room, and returns how many.
func (d *decision) add(n int) int {
	n = min(n, max(d.demand.Max-d.need-d.moved-d.demand.Warm, 0))
	d.moved += n
	return n
}

// String says how the workers are divided.
func (x *Mix) String() string {
	s := fmt.Sprintf("%s needs %s, at least %d of them on-demand", x.Region, text.Count(x.Workers, "worker"), x.OnDemand)
	if x.halved {
		s += fmt.Sprintf(", because %.0f %% of its spot workers were preempted in the last hour", 100*x.PreemptedPerHour)
	}
	if x.Reserve > 0 {
		s += fmt.Sprintf(", and %d more in reserve", x.Reserve)
	}
	return s
}
