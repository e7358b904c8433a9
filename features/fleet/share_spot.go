package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// Policy is what the scaler does beyond booting the cheapest pools for the jobs that wait. The
// zero value is nothing.
type Policy struct {
	// OnDemandShare is the part, 0 to 1, of the workers that a region needs which are of on-demand
	// pools, where these can do what the spot pools do.
	OnDemandShare float64
	// Reserve is how many more workers such a region has than it needs, as a part of these, 0 to 1.
	Reserve float64
	// Forecast has the scaler boot workers for jobs that it expects.
	Forecast bool
}

// DefaultPolicy is 70 % spot, 30 % on-demand, a reserve of 10 %, and the forecast.
var DefaultPolicy = Policy{OnDemandShare: 0.3, Reserve: 0.1, Forecast: true}

const (
	// stormyRate is how many of a region's spot workers are preempted in an hour when their share is halved.
	stormyRate = 0.2
	// stormyLeast is the least number of preemptions that says anything: one of three workers is no storm.
	stormyLeast = 3
)

// Mix is how the workers that a region needs are divided among its spot and on-demand pools.
type Mix struct {
	Region string `json:"region"`
	// Workers is how many the region needs, without those for jobs that bear a wait.
	Workers int `json:"workers"`
	// OnDemand is how many of them are of on-demand pools at least, and Reserve how many more there are.
	OnDemand int `json:"onDemand"`
	Reserve  int `json:"reserve"`
	// PreemptedPerHour is the part of the spot workers that was preempted in the last hour.
	PreemptedPerHour float64 `json:"preemptedPerHour"`
	halved           bool
}

// mixed is the spot pools of a region, and the on-demand pools that can do what each of them does.
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

// mixes groups the spot pools by the on-demand pools that can stand in for them.
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
			if standsIn(o.pool, d.pool) {
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
func servesTargets(p *models.Pool) bool {
	return len(p.Tiers) == 0 || slices.ContainsFunc(p.Tiers, func(t models.Tier) bool { return jobs.Policies[t].WaitTarget != jobs.NoTarget })
}

// standsIn reports whether an on-demand pool runs all that a spot pool of its region runs.
func standsIn(safe, spot *models.Pool) bool {
	return safe.CapacityClass == models.CapacityOnDemand && safe.Region == spot.Region && within(spot.Models, safe.Models) &&
		(len(safe.Tiers) == 0 || len(spot.Tiers) > 0 && within(spot.Tiers, safe.Tiers)) &&
		(len(safe.Accounts) == 0 || len(spot.Accounts) > 0 && within(spot.Accounts, safe.Accounts))
}

func within[T comparable](some, all []T) bool {
	return !slices.ContainsFunc(some, func(one T) bool { return !slices.Contains(all, one) })
}

// divide has on-demand pools take their share of the workers, and keep the reserve. What they have
// no room for stays with the spot pools.
func (m *mixed) divide(policy Policy, rate models.PreemptionRate) {
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
	x.Reserve = max(part(policy.Reserve, need)-warm, 0)
	if x.OnDemand == 0 && x.Reserve == 0 {
		return
	}
	for _, d := range slices.Concat(m.safe, m.spot) {
		d.demand.Mix = x
	}
	// What the on-demand pools take, the spot pools give; the reserve is on top.
	left := max(x.OnDemand+x.Reserve-safe, 0)
	rest := x.Reserve
	for _, d := range m.safe {
		n := d.add(left)
		left, rest = left-n, rest-n
	}
	for _, d := range slices.Concat(m.spot, m.safe) {
		rest -= d.add(max(rest, 0))
	}
	for _, d := range slices.Backward(m.spot) {
		n := min(max(-rest, 0), d.urgent())
		d.moved, rest = d.moved-n, rest+n
	}
}

// part is a share of workers, rounded down.
func part(share float64, workers int) int { return int(math.Floor(share*float64(workers) + 1e-9)) }

// urgent is how many workers the pool needs for jobs that bear no wait.
func (d *decision) urgent() int {
	n := d.need - d.demand.Patient
	for _, q := range d.demand.Queues {
		n -= q.patient()
	}
	return max(min(n, d.demand.Max), 0)
}

// add adds up to n workers for which the pool has room, and returns how many.
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
