package simulate

import (
	"cmp"
	"math"
	"slices"

	"github.com/reelay/reelay/features/fleet"
)

// Clairvoyant is the cheapest plan with complete knowledge: when each job arrives and how long it
// renders, when there are machines, and what they cost. No real plan costs less, because in this
// one machines boot and load in no time, and jobs move between them without cost.
type Clairvoyant struct {
	CostUSD float64 `json:"costUsd"`
	// LateSeconds is the work, in GPU seconds, that even this plan cannot complete by its deadline.
	LateSeconds float64 `json:"lateSeconds"`
}

const (
	// planStep is the resolution of the plan in seconds, if no trace has a finer one. planSteps and
	// planEdges bound the size of the plan, which is made coarser until it fits.
	planStep  = 300
	planSteps = 1000
	planEdges = 2_000_000
)

// span contains jobs of one model that arrive in one step and must end in another.
type span struct{ model, from, until int }

// clairvoyant finds the cheapest plan as a minimum-cost flow: job → time step (at most one machine
// per job) → machine of a pool → sink; edges to the sink carry the price. The cheapest machines are
// filled first. The result is minimal by the theorem of successive shortest paths, since only the
// last edges have a cost (Ahuja, Magnanti and Orlin, Network Flows, section 9.7).
func (s *sim) clairvoyant() *Clairvoyant {
	if !slices.ContainsFunc(s.jobs, func(j *job) bool { return !math.IsInf(j.finishBy, 1) }) {
		return nil
	}
	p := s.newPlan()
	for p.edges() > planEdges {
		p.step *= 2
	}
	return p.solve()
}

// plan is the network of the clairvoyant plan. Work is in GPU seconds at the ratio 1.
type plan struct {
	*sim
	base, step, end float64 // seconds: step is a multiple of base
}

func (s *sim) newPlan() *plan {
	p := &plan{sim: s, base: planStep, end: max(s.now, s.Hours*3600)}
	for _, t := range s.Traces {
		p.base = min(p.base, t.gap)
	}
	for _, j := range s.jobs {
		if !math.IsInf(j.finishBy, 1) {
			p.end = max(p.end, j.finishBy)
		}
	}
	p.step = p.base * math.Ceil(p.end/p.base/planSteps)
	return p
}

func (p *plan) steps() int { return int(math.Ceil(p.end / p.step)) }

// span returns the steps in which a job may run.
func (p *plan) span(j *job) span {
	at := func(seconds float64) int { return min(int(seconds/p.step), p.steps()-1) }
	return span{j.kind.model, at(j.arrived), at(min(j.finishBy, p.end))}
}

// edges returns the number of the jobs' edges.
func (p *plan) edges() (n int) {
	seen := map[span]bool{}
	for _, j := range p.jobs {
		if at := p.span(j); !seen[at] {
			seen[at] = true
			n += at.until - at.from + 1
		}
	}
	return n
}

// milli converts work to whole milliseconds, since flows are integers.
func milli(seconds float64) int64 { return int64(math.Round(min(seconds, 1e12) * 1000)) }

// exit stands for the machines of a pool in a step.
type exit struct {
	node int
	work int64
	cost float64 // USD per GPU second
}

func (p *plan) solve() *Clairvoyant {
	steps, kinds := p.steps(), len(p.names)
	const source, sink, first = 0, 1, 2
	moment := func(model, step int) int { return first + model*steps + step }
	machines := func(pool, step int) int { return first + (kinds+pool)*steps + step }
	net := newFlow(first + (kinds+len(p.pools))*steps)

	var exits []exit
	fastest := slices.Repeat([]float64{math.Inf(1)}, kinds)
	for i, pool := range p.pools {
		for model := range kinds {
			if pool.serves[classOf(model, needsNothing)] {
				fastest[model] = min(fastest[model], pool.ratio)
			}
		}
		for step := range steps {
			work, price := p.offered(pool, float64(step)*p.step)
			if work == 0 {
				continue
			}
			exits = append(exits, exit{machines(i, step), milli(work), price * pool.ratio / 3600})
			for model := range kinds {
				if pool.serves[classOf(model, needsNothing)] {
					net.edge(moment(model, step), machines(i, step), milli(work))
				}
			}
		}
	}
	var total int64
	count, work := map[span]int{}, map[span]float64{}
	var spans []span
	for _, j := range p.jobs {
		at := p.span(j)
		if count[at] == 0 {
			spans = append(spans, at)
		}
		count[at], work[at] = count[at]+1, work[at]+j.work
	}
	for _, at := range spans {
		total += milli(work[at])
		node := net.node()
		net.edge(source, node, milli(work[at]))
		for step := at.from; step <= at.until; step++ {
			net.edge(node, moment(at.model, step), milli(float64(count[at])*p.step/fastest[at.model]))
		}
	}
	slices.SortStableFunc(exits, func(a, b exit) int { return cmp.Compare(a.cost, b.cost) })
	found := &Clairvoyant{}
	for len(exits) > 0 {
		n := 0
		for n < len(exits) && exits[n].cost == exits[0].cost {
			net.edge(exits[n].node, sink, exits[n].work)
			n++
		}
		sent := net.send(source, sink)
		total -= sent
		found.CostUSD += float64(sent) / 1000 * exits[0].cost
		exits = exits[n:]
	}
	found.LateSeconds = float64(total) / 1000
	return found
}

// offered returns how much work the machines of a pool can do in a step, and the lowest price of
// one of them in that step, per hour.
func (p *plan) offered(of *pool, from float64) (work, price float64) {
	price = math.Inf(1)
	for at := from; at < from+p.step && at < p.end; at += p.base {
		n := of.MaxWorkers
		if of.trace != nil {
			n = min(n, of.trace.at(at))
		}
		out := slices.ContainsFunc(p.Outages, func(o Outage) bool {
			return o.Region == of.Region && o.FromHour*3600 <= at && at+p.base <= o.ToHour*3600
		})
		if n <= 0 || out || fleet.OutsideHours(of.Pool, clock(at)) {
			continue
		}
		work += float64(n) * p.base / of.ratio
		price = min(price, p.priceBetween(of, at, at+p.base))
	}
	return work, price
}

// priceBetween returns the lowest price of a pool between two times.
func (p *plan) priceBetween(of *pool, from, to float64) float64 {
	last, lowest := of.first, math.Inf(1)
	begin := math.Inf(-1)
	for _, change := range p.Prices {
		if at := change.AtHour * 3600; change.Pool != of.Name || at >= to {
			continue
		} else if at > from {
			lowest = min(lowest, change.PricePerHourUSD)
		} else if at >= begin {
			last, begin = change.PricePerHourUSD, at
		}
	}
	return min(lowest, last)
}
