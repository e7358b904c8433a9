package fleet

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
)

// poolShare is one pool's share of the waiting jobs.
type poolShare struct {
	pool                *capacity.Pool
	closed              string // why it may have no workers now, or ""
	waits               string // why it gets no more workers for a while, or ""
	tries               string // why it boots one machine at a time, or ""
	frozen              bool
	dear                bool // its price is above its limit
	patient             int
	expected            []Expected
	price               float64
	cheaper             *saving // jobs of BATCH that wait instead of booting workers, or nil
	dearSpot            *dearSpot
	booting, idle, busy int
	soon                float64 // jobs that its running workers start soon
	start               Start
	quarantined         int // idle, but they get no jobs
	leaving             int // see Demand.Leaving
	lanes               map[models.Tier]*laneShare
}

// laneShare contains the jobs of a lane. due, slack, soon and late are parts of them: see LaneDemand.
type laneShare struct {
	load
	due, slack, soon, late load
}

type load struct{ depth, gpuSeconds float64 }

func (l *load) add(depth, gpuSeconds float64) {
	l.depth, l.gpuSeconds = l.depth+depth, l.gpuSeconds+gpuSeconds
}

// add adds jobs of a queue.
func (l *laneShare) add(needs models.Needs, depth, gpuSeconds float64) {
	l.load.add(depth, gpuSeconds)
	if needs.Now() {
		l.due.add(depth, gpuSeconds)
	}
	if needs.Cheap() {
		l.slack.add(depth, gpuSeconds)
	}
}

// of returns the jobs as a demand on workers that take so long to start.
func (l *laneShare) of(lane models.Tier, start time.Duration) LaneDemand {
	n := func(depth float64) int { return int(math.Round(depth)) }
	return LaneDemand{Lane: lane, Depth: n(l.depth), GPUSeconds: l.gpuSeconds, Due: n(l.due.depth), Slack: n(l.slack.depth),
		Soon: n(l.soon.depth), Late: n(l.late.depth),
		need: l.workers(lane, start), slackNeed: int(math.Ceil(l.slack.over(lane, 0) - 1e-9))}
}

// workers is how many workers the jobs need, if a new one can begin after a start.
func (l *laneShare) workers(lane models.Tier, start time.Duration) int {
	rest := l.rest()
	n := rest.over(lane, 0)
	if jobs.Policies[lane].WaitTarget > 0 {
		rest.add(-l.late.depth, -l.late.gpuSeconds)
		n = rest.over(lane, 0) + l.late.over(lane, start)
	}
	return int(math.Ceil(l.due.depth-1e-9)) + int(math.Ceil(n-1e-9))
}

// rest returns the jobs that need workers within their wait target.
func (l *laneShare) rest() load {
	return load{l.depth - l.due.depth - l.soon.depth, l.gpuSeconds - l.due.gpuSeconds - l.soon.gpuSeconds}
}

// share assigns the jobs of each queue to pools that can run them: lane by lane, first to present
// workers, then to workers that a pool may still boot. The pool comes first on whose new worker a job
// costs least, or that has the least price for jobs without a wait target, spot before on-demand at the
// same cost, and pools that are dedicated to the account before all. Within a lane, the queues that the
// fewest pools can run come first. Jobs for which no pool has room count for the first pool that can run
// them, so that its reason mentions them.
func share(s snapshot) []*poolShare {
	var shares []*poolShare
	for _, p := range s.pools {
		shares = append(shares, newPoolShare(p, s.now))
	}
	byPrice := slices.SortedStableFunc(slices.Values(shares), func(a, b *poolShare) int {
		return cmp.Or(cmp.Compare(a.price, b.price), -cmp.Compare(a.pool.CapacityClass, b.pool.CapacityClass))
	})
	able := func(q backlog.QueueDemand) []*poolShare { return s.able(q, byPrice) }
	type claim struct {
		backlog.QueueDemand
		pools []*poolShare
	}
	claims := lo.FilterMap(s.queues, func(q backlog.QueueDemand, _ int) (claim, bool) {
		c := claim{q, able(q)}
		return c, len(c.pools) > 0 && q.Depth > 0
	})
	slices.SortStableFunc(claims, func(a, b claim) int {
		return cmp.Or(
			cmp.Compare(slices.Index(models.Tiers, a.Lane), slices.Index(models.Tiers, b.Lane)),
			cmp.Compare(len(a.pools), len(b.pools)))
	})
	for _, c := range claims {
		divide(c.QueueDemand, c.pools, byPrice, s)
	}
	if s.policy.Forecast {
		expect(s, shares, able)
	}
	return shares
}

// able returns the pools that can run the jobs of a queue, in the order in which they boot workers for them.
func (s *snapshot) able(q backlog.QueueDemand, byPrice []*poolShare) []*poolShare {
	pools := lo.Filter(byPrice, func(p *poolShare, _ int) bool {
		return takes(p.pool.Offer(s.now), q) && s.runsOn(q.Model, p.pool.GPUType)
	})
	if jobs.Policies[q.Lane].WaitTarget != jobs.NoTarget { // others share a worker, and hardly pay for its start
		costs := map[*poolShare]float64{}
		for _, p := range pools {
			costs[p] = s.startCost(q, p).USD()
		}
		slices.SortStableFunc(pools, func(a, b *poolShare) int { return cmp.Compare(costs[a], costs[b]) })
	}
	return dedicatedFirst(pools)
}

// startCost is what a job of a queue costs on a new worker of a pool.
func (s *snapshot) startCost(q backlog.QueueDemand, p *poolShare) estimate.StartCost {
	start := cmp.Or(p.start, NewStart(0, 0))
	return estimate.StartCost{PricePerHourUSD: p.price, BootSeconds: start.Boot.Seconds(), LoadSeconds: start.Load.Seconds(),
		RenderSeconds: q.GPUSeconds / max(q.Depth, 1) * s.times.Ratio(q.Kind, p.pool.GPUType)}
}

// divide assigns the jobs of one queue to pools that can run them. all are all pools, the cheapest
// first.
func divide(q backlog.QueueDemand, pools, all []*poolShare, s snapshot) {
	line := &waitingLine{lane: q.Lane, needs: q.Needs, left: q.Depth, now: s.now, seconds: func(p *poolShare) float64 {
		return q.GPUSeconds / q.Depth * s.times.Ratio(q.Kind, p.pool.GPUType)
	}}
	for _, p := range pools {
		line.startSoon(p)
	}
	for _, p := range pools {
		line.fill(p, min(p.idle+p.busy, p.most()))
	}
	line.late = true
	for _, p := range pools {
		line.fill(p, p.present())
	}
	if q.Needs.Cheap() {
		if pools = line.cheapest(pools, safest(q, all, s)); len(pools) == 0 {
			return
		}
	}
	if jobs.Policies[q.Lane].WaitTarget == jobs.NoTarget && !q.Needs.Now() && !s.impatient {
		line.bargain(pools)
	} else {
		for _, p := range pools {
			line.fill(p, p.most())
		}
	}
	line.give(pools[0], line.left)
}

// waitingLine contains the jobs of one queue that are not assigned to a pool yet.
type waitingLine struct {
	lane    models.Tier
	needs   models.Needs
	left    float64
	now     time.Time
	seconds func(*poolShare) float64 // of one job
	late    bool                     // workers that have booted do not start the jobs that are left in time
}

// startSoon assigns to a pool the jobs that its running workers start soon, since they end other jobs:
// within a part of the wait target, or of jobs with slack within jobs.SlackWait.
func (l *waitingLine) startSoon(p *poolShare) {
	target, each := jobs.Policies[l.lane].WaitTarget, l.seconds(p)
	within := target / soonOfTarget
	if l.needs.Cheap() {
		within = max(within, jobs.SlackWait)
	}
	if target == jobs.NoTarget || within <= 0 || each <= 0 || l.needs.Now() {
		return
	}
	n := min(l.left, math.Floor(float64(p.busy)*within.Seconds()/each-p.soon))
	if n < 1 {
		return
	}
	p.soon += n
	p.lanes[l.lane].soon.add(n, n*each)
	l.give(p, n)
}

// fill assigns to a pool the jobs that up to limit workers start within the wait target.
func (l *waitingLine) fill(p *poolShare, limit int) {
	l.give(p, min(l.left, p.fits(l, limit)))
}

func (l *waitingLine) give(p *poolShare, n float64) {
	p.lanes[l.lane].add(l.needs, n, n*l.seconds(p))
	if l.late && !l.needs.Now() {
		p.lanes[l.lane].late.add(n, n*l.seconds(p))
	}
	l.left -= n
}

func newPoolShare(p poolState, now time.Time) *poolShare {
	s := &poolShare{pool: p.pool, lanes: map[models.Tier]*laneShare{}}
	s.closed, _ = closedNow(p.pool, now)
	s.waits, s.frozen, s.price, s.patient = waitsNow(p, now), p.frozen != "", p.pool.PriceAt(now), p.patient
	s.start, s.dear = p.start, tooDear(p.pool, now) != ""
	if b := &p.pool.PoolBoots; b.NotBooting() && !b.BootRetryAt.After(now) {
		s.tries = notBootingNow(b) + "; one is tried"
	}
	s.leaving = p.vacant()
	for _, lane := range models.Tiers {
		s.lanes[lane] = &laneShare{}
	}
	for _, w := range p.workers {
		switch w.Status {
		case models.WorkerBooting:
			s.booting++
		case models.WorkerIdle:
			if w.Quarantined(now) {
				s.quarantined++
				continue
			}
			s.idle++
		case models.WorkerBusy:
			s.busy++
		}
	}
	return s
}

// present returns how many workers the pool has, or keeps in any case.
func (p *poolShare) present() int {
	return min(max(p.booting+p.idle+p.busy, p.least()), p.most())
}

// least returns how many workers the pool keeps in any case.
func (p *poolShare) least() int {
	if p.dear {
		return 0
	}
	return min(p.open(p.pool.MinWorkers), p.most())
}

// open returns n, or 0 if the pool is closed.
func (p *poolShare) open(n int) int {
	if p.closed != "" {
		return 0
	}
	return n
}

// most returns how many workers the pool may have.
func (p *poolShare) most() int {
	most := max(0, p.open(p.pool.MaxWorkers)-p.quarantined-p.leaving)
	if p.dear {
		return min(p.booting+p.busy, most) // the idle ones leave
	}
	if p.waits != "" {
		return min(p.booting+p.idle+p.busy, most)
	}
	if p.tries != "" {
		return min(max(p.booting, perMachine(p.pool))+p.idle+p.busy, most)
	}
	return most
}

// fits returns how many of the waiting jobs up to limit workers of the pool start within the lane's
// wait target, or at once if they are due.
func (p *poolShare) fits(l *waitingLine, limit int) float64 {
	room, taken := limit-p.busy-p.others(l.lane), p.lanes[l.lane]
	if l.needs.Now() {
		return float64(max(0, room-taken.workers(l.lane, p.start.total())))
	}
	if room -= int(math.Ceil(taken.due.depth)); room <= 0 {
		return 0
	}
	rest := taken.rest()
	each := float64(room) - rest.depth // a worker for each job is always enough
	switch target, seconds := jobs.Policies[l.lane].WaitTarget, l.seconds(p); {
	case target == jobs.NoTarget, target > 0 && seconds <= 0:
		return l.left
	case target > 0:
		if l.late {
			target = max(target-p.start.total(), target/leastOfTarget)
		}
		each = max(each, math.Floor((float64(room)*target.Seconds()-rest.gpuSeconds)/seconds))
	}
	return max(0, each)
}

// others returns how many workers the other lanes need.
func (p *poolShare) others(lane models.Tier) int {
	n := 0
	for other, l := range p.lanes {
		if other != lane {
			n += l.workers(other, p.start.total())
		}
	}
	return n
}

// demand returns the pool's share, with rounded numbers of jobs.
func (p *poolShare) demand() Demand {
	d := Demand{Min: p.least(), Max: p.most(), Warm: p.open(p.pool.WarmWorkers), PricePerHourUSD: p.price, Booting: p.booting, Idle: p.idle,
		Busy: p.busy, StartSeconds: p.start.total().Seconds(), Quarantined: p.quarantined, Leaving: p.leaving, Queues: []LaneDemand{},
		Patient: p.patient, Expected: p.expected}
	for _, lane := range models.Tiers {
		if l := p.lanes[lane]; l.depth > 0 {
			d.Queues = append(d.Queues, l.of(lane, p.start.total()))
		}
	}
	return d
}

// over returns how many workers start jobs within the wait target of their lane, if the workers can
// begin after a start.
func (l load) over(lane models.Tier, start time.Duration) float64 {
	if l.depth <= 0 {
		return 0
	}
	switch target := jobs.Policies[lane].WaitTarget; target {
	case 0:
		return l.depth
	case jobs.NoTarget:
		return 1
	default:
		return min(l.depth, l.gpuSeconds/max(target-start, target/leastOfTarget).Seconds())
	}
}

const (
	// leastOfTarget is the divisor of a wait target that remains at least after a start.
	leastOfTarget = 10
	// soonOfTarget is the divisor of a wait target within which jobs count as starting soon.
	soonOfTarget = 10
)
