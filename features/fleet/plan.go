package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
)

// snapshot is the input of the scaler's plan, read in one transaction.
type snapshot struct {
	// models are the current models with their GPU types. Other models run anywhere.
	models map[string]*catalogue.Model

	now   time.Time
	pools []poolState
	// queues contains no closed queues.
	queues []backlog.QueueDemand
	closed []models.ClosedQueue
	times  estimate.RenderTimes
	policy Policy
	// preempted is the recent rate of preemptions of spot workers by region.
	preempted map[string]capacity.PreemptionRate
	// expected are the jobs that will arrive while a worker boots.
	expected []Expected
	// If impatient is set, jobs without a wait target do not wait for cheaper machines.
	impatient bool
}

// isClosed reports whether a queue is closed, so that its jobs need no workers.
func (s *snapshot) isClosed(lane models.Tier, model string) bool {
	return slices.ContainsFunc(s.closed, func(c models.ClosedQueue) bool {
		return c.Lane == lane && (c.Model == "" || c.Model == model)
	})
}

// runsOn reports whether jobs of a model run on a GPU type. Unknown models do.
func (s *snapshot) runsOn(model, gpuType string) bool {
	m := s.models[model]
	return m == nil || m.RunsOn(gpuType)
}

// poolState is a pool, its workers that have not ended, and its machines that are not gone.
type poolState struct {
	pool     *capacity.Pool
	workers  []*models.Worker
	machines []*capacity.Machine
	// ending is for how many workers machines end that are not listed here.
	ending int
	// patient is how many of the busy workers run jobs without a wait target, or with slack.
	patient int
	// start is how long its new workers take until they can render.
	start Start
	// frozen is why the scaler cannot change the pool's workers now, or "". The workers still
	// count.
	frozen string
}

// freeze freezes all other pools: this process cannot boot their workers, or their provider has not
// answered.
func (s *snapshot) freeze(scaled []*capacity.Pool) {
	for i, p := range s.pools {
		if !slices.ContainsFunc(scaled, func(other *capacity.Pool) bool { return other.ID == p.pool.ID }) {
			s.pools[i].frozen = "its machines cannot be changed from here now"
		}
	}
}

// Demand contains the numbers by which the scaler sizes a pool: its workers, and its share of the
// waiting jobs.
type Demand struct {
	// Min and Max are the present limits of the pool: 0 while it is closed.
	Min int `json:"min"`
	Max int `json:"max"`
	// Warm is how many idle workers are kept in addition to those that the waiting jobs need.
	Warm int `json:"warm,omitempty"`
	// PricePerHourUSD is the present price of a worker.
	PricePerHourUSD float64 `json:"pricePerHourUsd,omitempty"`

	Booting int `json:"booting"`
	Idle    int `json:"idle"`
	Busy    int `json:"busy"`
	// StartSeconds is how long a new worker takes until it can render.
	StartSeconds float64 `json:"startSeconds,omitempty"`
	// Quarantined is how many idle workers get no jobs. Max excludes them.
	Quarantined int `json:"quarantined,omitempty"`
	// Leaving is for how many workers there are machines that end, or whose workers drain or are lost. Max
	// excludes them, because their machines are still paid for.
	Leaving int          `json:"leaving,omitempty"`
	Queues  []LaneDemand `json:"queues"`
	// Patient is how many of the busy workers run jobs without a wait target, or with slack before
	// their deadline.
	Patient int `json:"patient,omitempty"`
	// Expected is the pool's share of the jobs that will arrive while a worker boots.
	Expected []Expected `json:"expected,omitempty"`
	// Mix is the division of the region's workers, if it has both spot and on-demand pools.
	Mix *Mix `json:"mix,omitempty"`
}

// LaneDemand is the number of jobs that wait in one lane, and the seconds for which they keep
// workers of the pool busy.
type LaneDemand struct {
	Lane       models.Tier `json:"lane"`
	Depth      int         `json:"depth"`
	GPUSeconds float64     `json:"gpuSeconds"`
	// Due is how many of them have no slack before their deadline: each needs a worker now.
	Due int `json:"due,omitempty"`
	// Slack is how many of them have slack, and wait for cheap capacity.
	Slack int `json:"slack,omitempty"`
	// Soon is how many of them start on running workers long before the wait target: they need no others.
	Soon int `json:"soon,omitempty"`
	// Late is how many of the others are more than the workers start in time that have booted.
	Late int `json:"late,omitempty"`

	need, slackNeed int // workers: for all, and for those with slack
}

// workers is how many workers the jobs need.
func (l LaneDemand) workers() int { return l.need }

// patient returns how many workers are needed for jobs that can wait: those without a wait target,
// and those with slack.
func (l LaneDemand) patient() int {
	if jobs.Policies[l.Lane].WaitTarget == jobs.NoTarget {
		return l.workers() - l.Due
	}
	return l.slackNeed
}

// decision is the scaler's plan for one pool, with its reasons.
type decision struct {
	pool    *capacity.Pool
	state   poolState
	now     time.Time
	demand  Demand
	need    int    // for the jobs that run, wait and are expected
	moved   int    // the change because of the other pools of its region
	workers int    // wanted
	closed  string // why the pool may have no workers now, or ""
	frozen  string // why the scaler cannot change its workers now, or ""
	waits   string // why the pool gets no more workers for a while, or ""
	cheaper string // what jobs of BATCH wait for instead of new workers, or ""
	spares  string // why jobs with slack get no new workers, or ""
	reason  string
	start   Start
	// reserved is how many of the workers are a part of the region's reserve.
	reserved int
	stay     stay
	drain    []models.WorkerID // workers to drain, longest idle first
}

// have returns how many workers of the pool are not draining.
func (d *decision) have() int { return d.demand.Booting + d.demand.Idle + d.demand.Busy }

// plan decides for every pool. Each waiting job counts for one pool only, even if several pools can
// run it: see share.
func plan(s snapshot) []*decision {
	shares := share(s)
	var all []*decision
	for i, p := range s.pools {
		d := &decision{pool: p.pool, state: p, start: p.start, now: s.now, demand: shares[i].demand(), closed: shares[i].closed, frozen: p.frozen,
			waits: cmp.Or(shares[i].waits, shares[i].tries), cheaper: shares[i].cheaper.of(shares[i]),
			spares: shares[i].dearSpot.of(shares[i])}
		d.count()
		if slices.ContainsFunc(s.closed, func(c models.ClosedQueue) bool { return c.Model == "" || slices.Contains(p.pool.Models, c.Model) }) {
			d.reason += " (paused and halted queues not counted)"
		}
		all = append(all, d)
	}
	mix(s, all)
	for _, d := range all {
		d.size()
	}
	leave(s, all)
	for _, d := range all {
		d.explainMachines()
	}
	return all
}

// count sets how many workers are needed: the busy ones, those that start the waiting jobs within
// the wait targets of their lanes, and those for the expected jobs.
func (d *decision) count() {
	in := d.demand
	waiting, due := 0, 0
	d.need = in.Busy
	for _, q := range in.Queues {
		waiting, due = waiting+q.Depth, due+q.Due
		d.need += q.workers()
	}
	d.reason = jobsNeed(waiting, in.Busy, d.need)
	if due > 0 {
		d.reason += fmt.Sprintf(" (%s without slack before the deadline)", text.Count(due, "job"))
	}
	d.foresee()
}

// jobsNeed describes how many workers the jobs need.
func jobsNeed(waiting, running, need int) string {
	var all string
	switch {
	case waiting == 0 && running == 0:
		return "No jobs wait or run"
	case running == 0:
		all = text.Count(waiting, "waiting job")
	case waiting == 0:
		all = text.Count(running, "running job")
	default:
		all = fmt.Sprintf("%d waiting and %s", waiting, text.Count(running, "running job"))
	}
	verb := "need"
	if waiting+running == 1 {
		verb = "needs"
	}
	return all + " " + verb + " " + text.Count(need, "worker")
}

// size sets the number of workers to the needed ones, within the limits of the pool.
func (d *decision) size() {
	in, need := d.demand, d.need+d.moved
	d.workers = min(max(need+in.Warm, in.Min), in.Max)
	few := d.grow()
	if in.Mix != nil {
		d.reason += "; " + in.Mix.String()
	}
	if in.Warm > 0 {
		d.reason += fmt.Sprintf("; %d more kept warm", in.Warm)
	}
	if d.cheaper != "" {
		d.reason += "; " + d.cheaper
	}
	if d.spares != "" {
		d.reason += "; " + d.spares
	}
	switch need += in.Warm; {
	case d.closed != "":
		d.reason += "; " + d.closed + "."
	case few != "":
		d.reason += "; " + few + "."
	case d.waits != "" && max(need, d.pool.MinWorkers) > in.Max:
		d.reason += "; " + d.waits + "."
	case d.short(need) > in.Max:
		if d.pool.MinWorkers > need {
			d.reason += fmt.Sprintf("; pool minimum is %d", d.pool.MinWorkers)
		}
		d.reason += fmt.Sprintf("; pool maximum is %d%s.", d.pool.MaxWorkers, d.withheld())
	case need < in.Min:
		d.reason += fmt.Sprintf("; pool minimum is %d.", in.Min)
	default:
		d.reason += "."
	}
}

// short returns how many workers the pool should have, without what it may have now.
func (d *decision) short(need int) int {
	if d.closed != "" {
		return need
	}
	return max(need, min(d.pool.MinWorkers, d.pool.MaxWorkers))
}

// withheld says why the pool may have fewer workers than its maximum.
func (d *decision) withheld() string {
	var why []string
	if n := d.demand.Quarantined; n > 0 {
		why = append(why, text.Count(n, "worker")+" in quarantine")
	}
	if n := d.demand.Leaving; n > 0 {
		why = append(why, text.Count(n, "worker")+" whose machines have not ended yet")
	}
	if len(why) == 0 {
		return ""
	}
	return ", with " + strings.Join(why, " and ")
}

// untriedMachines is how many machines a pool boots at most until one has started, beyond those for jobs
// without slack. A wrong image or a revoked key then costs little.
const untriedMachines = 10

// grow limits the workers to those that one request may bring, and returns why, or "". The jobs count
// for the pool nevertheless: its next request may bring twice as many a second later.
func (d *decision) grow() (why string) {
	limit := func(most int, because string) {
		if d.workers > most {
			d.workers, why = most, because
		}
	}
	if n := d.pool.GrowBy; n > 0 {
		limit(d.have()+n*perMachine(d.pool), "its provider did not have all machines before, and is now asked for "+text.Count(n, "machine"))
	}
	if !d.start.Known && !slices.ContainsFunc(d.state.workers, func(w *models.Worker) bool { return w.Status != models.WorkerBooting }) {
		due := lo.SumBy(d.demand.Queues, func(l LaneDemand) int { return l.Due })
		limit(untriedMachines*perMachine(d.pool)+due, fmt.Sprintf("none of its machines has started yet, and no more than %d boot until one has",
			untriedMachines))
	}
	return why
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

// closedNow reports whether a pool may have no workers now, and why.
func closedNow(p *capacity.Pool, now time.Time) (why string, closed bool) {
	switch {
	case !p.DeletedAt.IsZero():
		return "the pool is deleted", true
	case !p.PausedAt.IsZero():
		return "the pool is paused", true
	case OutsideHours(p, now):
		return "it is outside the pool's active hours", true
	}
	return "", false
}

// OutsideHours reports whether a pool has active hours and now is outside them.
func OutsideHours(p *capacity.Pool, now time.Time) bool {
	if p.ActiveHours == "" {
		return false
	}
	// Hours that do not parse are refused when they are written. If the database has some anyway,
	// the pool stays open.
	hours, err := ParseHours(p.ActiveHours)
	return err == nil && !hours.Open(now)
}

// waitsNow returns why a pool gets no more workers for a while, or "".
func waitsNow(p poolState, now time.Time) string {
	if p.frozen != "" {
		return p.frozen
	}
	if b := p.pool.PoolBackoff; b.BackoffUntil.After(now) && b.Partly() {
		return fmt.Sprintf("the provider had only some of the machines (%s); one more is tried at %s",
			b.BackoffClass, text.MomentToSecond(b.BackoffUntil.UTC(), now))
	} else if b.BackoffUntil.After(now) {
		return fmt.Sprintf("the provider refused machines (%s, %s in a row); next request at %s",
			b.BackoffClass, text.Count(b.Refusals, "time"), text.MomentToSecond(b.BackoffUntil.UTC(), now))
	}
	if b := p.pool.PoolBoots; b.NotBooting() && b.BootRetryAt.After(now) {
		return fmt.Sprintf("%s; next attempt at %s", notBootingNow(&b), text.MomentToSecond(b.BootRetryAt.UTC(), now))
	}
	return tooDear(p.pool, now)
}

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

// notBootingNow returns the reason for which a pool's machines are tried one at a time.
func notBootingNow(b *capacity.PoolBoots) string {
	return fmt.Sprintf("%s in a row did not start (%s)", text.Count(b.BootFailures, "machine"), b.BootFailure)
}
