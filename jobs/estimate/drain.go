package estimate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Obstacle is a reason for which queued jobs will not start until something changes.
type Obstacle string

// The obstacles, in the order in which they are checked.
const (
	ObstacleHalted     Obstacle = "HALTED"      // an operator halted all leases
	ObstaclePaused     Obstacle = "PAUSED"      // an operator paused the queue
	ObstacleNoCapacity Obstacle = "NO_CAPACITY" // no worker and no pool can run them
	ObstacleNoWorker   Obstacle = "NO_WORKER"   // a pool can run them, but none of its workers takes jobs now
)

// Obstacles lists them all.
var Obstacles = []Obstacle{ObstacleHalted, ObstaclePaused, ObstacleNoCapacity, ObstacleNoWorker}

// Drain is the time until queues are empty if no job is added.
//
// It counts only queued jobs that present workers can take; LeftOut has the others. It ignores jobs
// that run now, limits of accounts, and booting workers.
type Drain struct {
	// Seconds is nil if jobs wait and all of them are left out, and 0 if no job waits.
	Seconds *float64
	LeftOut []LeftOut
}

// LeftOut is how many queued jobs a Drain leaves out for one reason.
type LeftOut struct {
	Obstacle Obstacle
	Jobs     int
}

// Why returns in a few words why the jobs do not start.
func (l LeftOut) Why() string {
	switch l.Obstacle {
	case ObstacleHalted:
		return "all starts are halted"
	case ObstaclePaused:
		return "paused"
	case ObstacleNoCapacity:
		return "no worker and no pool can run " + lo.Ternary(l.Jobs == 1, "it", "them")
	}
	return "no worker that can run " + lo.Ternary(l.Jobs == 1, "it", "them") + " is ready"
}

// Closed returns how many jobs an operator keeps from starting.
func (d Drain) Closed() (jobs float64) {
	for _, l := range d.LeftOut {
		if l.Obstacle == ObstaclePaused || l.Obstacle == ObstacleHalted {
			jobs += float64(l.Jobs)
		}
	}
	return jobs
}

// Never reports whether the jobs that are left out wait until somebody acts.
func (d Drain) Never() bool {
	return d.Seconds == nil && !slices.ContainsFunc(d.LeftOut, func(l LeftOut) bool { return l.Obstacle == ObstacleNoWorker })
}

// Drains contains the drains of all queues from one snapshot. Every figure of the time to empty a
// queue, a lane or all lanes comes from it.
type Drains struct {
	parts   []drainPart
	workers []int // of each class
}

// drainPart contains the queued jobs of a lane and model that the same classes of workers can run.
type drainPart struct {
	lane     models.Tier
	model    string
	jobs     float64
	work     float64 // in seconds of one worker
	classes  []int   // that can run them and have workers
	obstacle Obstacle
}

// ReadDrains reads the queued work and the workers that take jobs now.
func ReadDrains(ctx context.Context, db bun.IDB, known *catalogue.Snapshot) (*Drains, error) {
	work, err := backlog.ListQueueWork(ctx, db, nil)
	if err != nil {
		return nil, fmt.Errorf("read the queued work: %w", err)
	}
	if len(work) == 0 {
		return &Drains{}, nil
	}
	names := lo.Uniq(lo.Map(work, func(w backlog.QueueWork, _ int) string { return w.Model }))
	offered, err := capacity.ListCapacity(ctx, db, names)
	if err != nil {
		return nil, fmt.Errorf("read the capacity: %w", err)
	}
	if owners := lo.Uniq(lo.FlatMap(offered, func(c capacity.Capacity, _ int) []models.AccountID { return c.Accounts })); len(owners) > 0 {
		if work, err = backlog.ListQueueWork(ctx, db, owners); err != nil {
			return nil, fmt.Errorf("read the queued work: %w", err)
		}
	}
	times, err := backlog.ListRenderTimes(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("read how long jobs took: %w", err)
	}
	closed, err := models.ListClosedQueues(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("read the closed queues: %w", err)
	}
	return newDrains(work, offered, known, NewRenderTimes(times), closed), nil
}

func newDrains(work []backlog.QueueWork, capacity []capacity.Capacity, known *catalogue.Snapshot, times RenderTimes,
	closed []models.ClosedQueue) *Drains {
	d := &Drains{workers: make([]int, len(capacity))}
	able := make([]catalogue.Capability, len(capacity))
	for i, c := range capacity {
		able[i], d.workers[i] = known.CapabilityOf(c.Offer), c.Idle+c.Busy
	}
	byKey := map[string]int{}
	for _, w := range work {
		p := drainPart{lane: w.Lane, model: w.Model, jobs: w.Depth, obstacle: obstacleOf(w, closed)}
		possible, workers, seconds := false, 0, 0.0
		for i, c := range capacity {
			if !able[i].Serves(w.Queue(), w.AccountID) {
				continue
			}
			possible = possible || c.Possible()
			if n := d.workers[i]; n > 0 {
				p.classes = append(p.classes, i)
				workers += n
				seconds += float64(n) * w.GPUSeconds * times.Ratio(w.Kind, c.GPUType)
			}
		}
		switch {
		case p.obstacle != "":
		case !possible:
			p.obstacle = ObstacleNoCapacity
		case workers == 0:
			p.obstacle = ObstacleNoWorker
		default:
			p.work = seconds / float64(workers)
		}
		// Parts that are equal in everything relevant are merged.
		key := fmt.Sprint(p.lane, p.model, p.obstacle, p.classes)
		if at, ok := byKey[key]; ok {
			d.parts[at].jobs, d.parts[at].work = d.parts[at].jobs+p.jobs, d.parts[at].work+p.work
			continue
		}
		byKey[key] = len(d.parts)
		d.parts = append(d.parts, p)
	}
	return d
}

// obstacleOf returns how an operator keeps the jobs from starting, or "".
func obstacleOf(w backlog.QueueWork, closed []models.ClosedQueue) Obstacle {
	paused := Obstacle("")
	for _, c := range closed {
		switch {
		case c.Lane != w.Lane || c.Model != "" && c.Model != w.Model:
		case c.Halted:
			return ObstacleHalted
		default:
			paused = ObstaclePaused
		}
	}
	return paused
}

// All returns the drain of all queues together.
func (d *Drains) All() Drain { return d.of(func(*drainPart) bool { return true }) }

// Of returns the drain of a model's queue in a lane, or of all queues of the lane if model is "",
// as if there were no other queues. For a single queue that is depth × mean render / workers.
func (d *Drains) Of(lane models.Tier, model string) Drain {
	return d.of(func(p *drainPart) bool { return p.lane == lane && (model == "" || p.model == model) })
}

func (d *Drains) of(chosen func(*drainPart) bool) Drain {
	var parts []drainPart
	left, waiting := map[Obstacle]float64{}, false
	for i := range d.parts {
		p := &d.parts[i]
		switch {
		case !chosen(p):
		case p.obstacle != "":
			left[p.obstacle] += p.jobs
			waiting = true
		default:
			parts = append(parts, *p)
		}
	}
	var found Drain
	if len(parts) > 0 || !waiting {
		found.Seconds = new(Rounded(d.empty(parts)))
	}
	for _, o := range Obstacles {
		if n := int(math.Round(left[o])); n > 0 {
			found.LeftOut = append(found.LeftOut, LeftOut{o, n})
		}
	}
	return found
}

// empty returns the seconds until the parts are empty. Each class of workers works on the highest
// lane that it serves, and is divided among the parts of that lane in proportion to their remaining
// work. Each round empties at least one part.
func (d *Drains) empty(parts []drainPart) (seconds float64) {
	for open := parts; len(open) > 0; {
		rates := make([]float64, len(open))
		for class, workers := range d.workers {
			var at []int
			sum := 0.0
			for i := range open {
				if !slices.Contains(open[i].classes, class) {
					continue
				}
				if len(at) > 0 && open[i].lane != open[at[0]].lane {
					if open[at[0]].lane.Above(open[i].lane) {
						continue
					}
					at, sum = nil, 0
				}
				at, sum = append(at, i), sum+open[i].work
			}
			for _, i := range at {
				rates[i] += float64(workers) * lo.Ternary(sum > 0, open[i].work/sum, 1)
			}
		}
		first := math.Inf(1)
		for i, p := range open {
			if rates[i] > 0 {
				first = min(first, p.work/rates[i])
			}
		}
		seconds += first
		var rest []drainPart
		for i, p := range open {
			if rates[i] > 0 && p.work/rates[i] <= first*(1+1e-9) {
				continue
			}
			p.work -= first * rates[i]
			rest = append(rest, p)
		}
		open = rest
	}
	return seconds
}

// UntilResumed reports whether jobs wait and an operator keeps all of them from starting, by
// pausing their queues or halting all starts.
func (d Drain) UntilResumed() bool {
	return d.Seconds == nil && len(d.LeftOut) > 0 && !slices.ContainsFunc(d.LeftOut, func(l LeftOut) bool {
		return l.Obstacle != ObstaclePaused && l.Obstacle != ObstacleHalted
	})
}

// LeftOutText describes the jobs that a drain leaves out, the largest group first, or returns "".
func (d Drain) LeftOutText() string {
	all := slices.Clone(d.LeftOut)
	slices.SortStableFunc(all, func(a, b LeftOut) int { return cmp.Compare(b.Jobs, a.Jobs) })
	text := ""
	for i, l := range all {
		text += lo.Ternary(i > 0, "; ", "") + fmt.Sprintf("%d %s: %s", l.Jobs, lo.Ternary(l.Jobs == 1, "job", "jobs"), l.Why())
	}
	return text
}
