package fleet

import (
	"cmp"
	"fmt"
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

// closedNow reports whether a pool may have no workers now, and why.
func closedNow(p *capacity.Pool, now time.Time) (why string, closed bool) {
	switch {
	case !p.DeletedAt.IsZero():
		return "the pool is deleted", true
	case p.Deserted:
		return "the accounts that the pool is dedicated to are deleted, so it serves nobody", true
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

// notBootingNow returns the reason for which a pool's machines are tried one at a time.
func notBootingNow(b *capacity.PoolBoots) string {
	return fmt.Sprintf("%s in a row did not start (%s)", text.Count(b.BootFailures, "machine"), b.BootFailure)
}
