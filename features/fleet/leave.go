package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
)

// Whether an idle worker stays is the ski-rental problem: to keep it costs its price for each second,
// and to start another one costs that of a boot and a load, once. A worker that stays for as long as
// a start takes, and then leaves, costs at most twice what a plan costs that knows the next job
// (Karlin, Manasse, McGeoch and Owicki, Competitive Randomized Algorithms for Nonuniform Problems,
// 1994). If the arrivals are known and no job is expected within that time, it leaves at once.

// Start is how long a new worker of a pool takes until it can render: its boot, and the load of a
// model.
type Start struct {
	Boot, Load time.Duration
	// Known means that a worker of the pool has booted.
	Known bool
}

// NewStart returns a start from the median seconds of boots and loads, 0 if none was measured.
func NewStart(boot, load float64) Start {
	return Start{cmp.Or(seconds(boot), estimate.BootGuess), cmp.Or(seconds(load), estimate.LoadGuess), boot > 0}
}

func (s Start) total() time.Duration { return s.Boot + s.Load }

// stay is how long an idle worker of a pool stays, and why.
type stay struct {
	limit time.Duration
	why   string
}

// String says it as a sentence about the pool.
func (s stay) String() string {
	if s.limit == 0 {
		return "Idle workers leave at once: " + s.why + "."
	}
	return fmt.Sprintf("Idle workers leave after %s: %s.", text.Setting(s.limit.Round(time.Second)), s.why)
}

// stayOf decides how long idle workers of a pool stay.
func (d *decision) stayOf(s *snapshot, all []*decision) stay {
	if why := tooDear(d.pool, s.now); why != "" {
		return stay{0, why}
	}
	if set := d.pool.IdleSeconds; set != nil {
		return stay{time.Duration(*set) * time.Second, "the pool's scaleDownCooldownSeconds"}
	}
	start := cmp.Or(d.start, NewStart(0, 0)).total()
	if cheaper := s.cheaperWithRoom(d, all); cheaper != nil && d.demand.Mix == nil {
		return stay{0, fmt.Sprintf("the pool %s costs less and has room for their work", cheaper.pool.Name)}
	}
	if perHour, known := s.arrivals(d); known && perHour*start.Hours() < 1 {
		return stay{0, fmt.Sprintf("about %.1f jobs per hour are expected, and a start takes only %s", perHour,
			text.Setting(start.Round(time.Second)))}
	}
	return stay{start, "as long as a boot and a load take"}
}

// costOf returns what some workers of the pool cost per hour now.
func (d *decision) costOf(workers int) float64 { return float64(workers) * d.demand.PricePerHourUSD }

// cheaperWithRoom returns a pool that costs less, can boot more workers, and runs all that the pool
// runs, or nil.
func (s *snapshot) cheaperWithRoom(d *decision, all []*decision) *decision {
	i := slices.IndexFunc(all, func(o *decision) bool {
		return o != d && o.demand.PricePerHourUSD < d.demand.PricePerHourUSD && s.replaces(o.pool, d.pool) &&
			o.closed == "" && o.frozen == "" && o.waits == "" && o.have() < o.demand.Max
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// replaces reports whether a pool can do the work of another one. A pool of another region can do it
// if no job waits for a worker of that region.
func (s *snapshot) replaces(p, other *capacity.Pool) bool {
	return runsAllOf(p, other) && !slices.ContainsFunc(other.Models, func(m string) bool { return !s.runsOn(m, p.GPUType) }) &&
		(p.Region == other.Region || !slices.ContainsFunc(s.queues, func(q backlog.QueueDemand) bool { return q.Region == other.Region }))
}

// arrivals returns how many jobs per hour are expected that a pool can run, at most, and whether
// that is known: only of lanes with a wait target.
func (s *snapshot) arrivals(d *decision) (perHour float64, known bool) {
	if d.demand.Patient > 0 || slices.ContainsFunc(d.demand.Queues, func(l LaneDemand) bool { return l.patient() > 0 }) {
		return 0, false
	}
	for _, e := range s.expected {
		q := backlog.QueueDemand{Lane: e.Lane, Kind: backlog.Kind{Model: e.Model}}
		if takes(d.pool.Offer(s.now), q) && s.runsOn(e.Model, d.pool.GPUType) {
			perHour, known = perHour+e.JobsPerHour*(1+e.Error), true
		}
	}
	return perHour, known
}

// leave decides which workers leave: as many as have been idle for long enough, and of these pools
// the workers of the dearest first. A worker that has just become idle may leave, too, if another
// one that can do its work has been idle for as long, and stays.
func leave(s snapshot, all []*decision) {
	counted := map[*decision]int{} // the idle workers of a pool in whose place others leave
	dearest := slices.Clone(all)
	slices.SortStableFunc(dearest, func(a, b *decision) int { return -cmp.Compare(a.demand.PricePerHourUSD, b.demand.PricePerHourUSD) })
	for _, d := range all {
		d.stay = d.stayOf(&s, all)
	}
	for _, d := range dearest {
		over := d.have() - d.workers
		if d.closed != "" {
			over = math.MaxInt
		}
		n := 0
		for _, o := range append([]*decision{d}, dearest...) {
			if n >= over || o == d && n > 0 || o != d && (d.closed != "" || d.frozen != "" || !s.replaces(o.pool, d.pool)) {
				continue
			}
			long := len(o.state.longIdle(s.now, d.stay.limit, d.closed != ""))
			if o != d {
				long -= o.reserved + o.demand.Warm // they are kept for other cases
			}
			more := min(max(long-counted[o], 0), over-n)
			counted[o] += more
			n += more
		}
		d.drain = d.state.leaving(s.now, n, d.stay.limit, d.closed != "")
		if why := tooDear(d.pool, s.now); why != "" {
			for _, w := range d.state.workers {
				if w.Status == models.WorkerBusy {
					d.drain = append(d.drain, w.ID)
				}
			}
		}
	}
}

// longIdle returns the workers that have been idle for so long, longest first. In a closed pool,
// all count.
func (p poolState) longIdle(now time.Time, limit time.Duration, closed bool) []*models.Worker {
	idle := slices.DeleteFunc(slices.Clone(p.workers), func(w *models.Worker) bool {
		return w.Status != models.WorkerIdle || w.Quarantined(now) || !closed && now.Sub(w.IdleSince) < limit
	})
	slices.SortFunc(idle, func(a, b *models.Worker) int { return a.IdleSince.Compare(b.IdleSince) })
	return idle
}
