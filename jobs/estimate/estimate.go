package estimate

import (
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
	"github.com/shopspring/decimal"
)

// Forecast is the basis of all estimates: a recent snapshot of the workers and of the accounts'
// queues, and a simulation of the next hours at recent arrival rates.
//
// simulate predicts the future once. It assigns jobs as a claim does. When a worker is free (an idle
// one at once, a busy one when its current job or boot ends), it takes the first job that it can
// run, by lane, turn and virtual start (start-time fair queueing: Goyal, Vin and Cheng, SIGCOMM
// 1996), of an account below its running limit. The job takes as long as similar jobs took. Jobs
// that wait past the target of their lane take workers whose jobs may yield; those resume there
// when no job of a higher lane waits. New jobs arrive evenly, at each account's own rate. The
// forecast start of a job is when a worker that can run it takes a job that comes after it, or
// finds none.
//
// maxStarts bounds the simulated starts. The wait of jobs behind them grows in proportion.
type Forecast struct {
	catalogue  *catalogue.Snapshot
	classes    []*class
	held       map[models.AccountID]int // the number of workers that run its jobs
	lines      []*line
	arrivals   []*backlog.Arrival
	times      RenderTimes
	newWorkers NewWorkers
	lanes      map[models.Tier]models.LaneState
	warmth     warmth
	// lateAfter is a copy of Estimator.LateAfter.
	lateAfter map[models.Tier]time.Duration
	// rested is how long the read paused so that other requests could run.
	rested time.Duration
	course
	// entered means that jobs were added since the last simulation, playing that a simulation runs
	// or is scheduled.
	entered, running bool
	ranAt            time.Time
	// took is how long the simulation took, plus the time that expect used since.
	took time.Duration
	// expected caches the results of expect.
	expected map[query]expectation
}

// course is the simulated future.
type course struct {
	starts []start // in the order of time
	// cleared is when the last simulated job of the queue starts, and left is how many jobs were
	// not simulated.
	cleared float64
	left    int
}

// class is a group of equal workers.
type class struct {
	catalogue.Capability
	gpuType string
	workers []workerView
}

// workerView is one worker: the seconds until it is free, and the account whose job it runs. yields is
// the lane of that job if it may yield to jobs of higher lanes.
type workerView struct {
	free    float64
	account models.AccountID
	yields  models.Tier
}

// line contains one account's queued jobs in a queue.
type line struct {
	models.Line
	fairqueue.Share
	account    models.AccountID
	queued     int
	running    int
	maxRunning int
	// head has the first of them, in their order. The others are assumed to be like these.
	head []load
}

// load has the properties of a job that decide who can run it and for how long.
type load struct {
	models.Queue
	kind       backlog.Kind
	gpuSeconds float64 // the catalogue's estimate
}

// at returns the line's job at a place, from 0.
func (l *line) at(place int) load { return l.head[place%len(l.head)] }

// work returns the GPU seconds of the line's first n jobs.
func (l *line) work(n int) (seconds float64) {
	if n == 0 {
		return 0
	}
	times, rest := n/len(l.head), n%len(l.head)
	for place, job := range l.head {
		seconds += float64(times) * job.gpuSeconds
		if place < rest {
			seconds += job.gpuSeconds
		}
	}
	return seconds
}

// before returns how many of the line's jobs have a virtual start before tag, in constant
// time.
func (l *line) before(tag float64) (n int) {
	work := (tag - l.VirtualTime) * l.Weight
	if work <= 0 || l.queued == 0 {
		return 0
	}
	all := l.work(len(l.head))
	if all <= 0 {
		return l.queued
	}
	times := min(math.Ceil(work/all)-1, float64(l.queued/len(l.head)))
	work -= times * all
	for n = int(times) * len(l.head); n < l.queued && work > 0; n++ {
		work -= l.at(n).gpuSeconds
	}
	return n
}

// Estimate is a forecast. Nil fields are unknown, because there is no capacity or the queue is
// paused.
type Estimate struct {
	// WaitSeconds is the expected time until a worker starts the job. One job in ten waits longer
	// than WaitSecondsP90.
	WaitSeconds    *float64
	WaitSecondsP90 *float64
	// RenderSeconds is how long the job keeps a worker busy.
	RenderSeconds *float64
	// CostUSD is what the job costs at most, as far as is known; nil is unknown. See [Estimator.CostUSD].
	CostUSD *decimal.Decimal
	// Position is the job's place among the queued jobs that its workers can run; 1 is the
	// next. It is 0 for a job that gets the result of ReusedFrom.
	Position int
	// ReusedFrom is the job whose result the job would have, or nil.
	ReusedFrom *models.JobID
}

// seconds returns the seconds until the job completes, or nil if they are unknown.
func (e *Estimate) seconds() *float64 {
	if e.WaitSeconds == nil {
		return nil
	}
	return new(*e.WaitSeconds + *e.RenderSeconds)
}

// query has the properties of a job on which its estimate depends.
type query struct {
	load
	account    models.AccountID
	weight     float64
	running    int
	maxRunning int
	// ownAhead is how many jobs of the same account come before it in its queue.
	ownAhead int
}

// estimate returns the forecast of a job that is queued or would be. system is its wait without the
// running limit of its account.
func (o *Forecast) estimate(q query) (found Estimate, system float64) {
	tag, classes := o.startTag(q), o.serving(q)
	found, system = o.wait(q, tag, classes)
	found.Position = o.position(q, tag, classes)
	return found, system
}

// serving returns the workers that can run the job.
func (o *Forecast) serving(q query) (classes []*class) {
	for _, c := range o.classes {
		if c.Serves(q.Queue, q.account) {
			classes = append(classes, c)
		}
	}
	return classes
}

// wait is estimate without the job's position.
func (o *Forecast) wait(q query, tag float64, classes []*class) (found Estimate, system float64) {
	workers := 0
	for _, c := range classes {
		workers += len(c.workers)
	}
	if workers == 0 {
		return found, 0
	}
	service := o.renderSeconds(classes, q.load)
	found.RenderSeconds = new(Rounded(service))
	if o.paused(q.Queue) || q.maxRunning == 0 {
		return found, 0
	}
	system, before := o.find(q, tag, false)
	wait := system
	if q.running+q.ownAhead >= q.maxRunning {
		wait, before = o.find(q, tag, true)
	}
	irregular := max(o.times.irregularity(q.kind), leastIrregular)
	irregular += (1 - 1/float64(workers)) * (1 - irregular)
	p90 := wait
	if wait > 0 {
		p90 += 1.2816 * service / float64(workers) * math.Sqrt(float64(before)*irregular+1)
	}
	found.WaitSeconds, found.WaitSecondsP90 = new(Rounded(wait)), new(Rounded(p90))
	return found, system
}

// Rounded rounds a forecast to whole seconds, or to tenths below ten.
func Rounded(seconds float64) float64 {
	if seconds < 10 {
		return math.Round(10*seconds) / 10
	}
	return math.Round(seconds)
}

// find returns when the job starts, and how many other jobs start before it on workers that can run
// it. With capped the job also needs a free slot of its account.
func (o *Forecast) find(q query, tag float64, capped bool) (wait float64, before int) {
	var ends []float64 // of the account's running jobs
	for _, c := range o.classes {
		for _, h := range c.workers {
			if capped && h.account == q.account && h.account != "" {
				ends = append(ends, h.free)
			}
		}
	}
	for _, s := range o.starts {
		if s.account == q.account && s.account != "" && capped && (s.Line != q.Line || s.place < q.ownAhead) {
			ends = append(ends, s.end)
		}
		if !s.class.Serves(q.Queue, q.account) {
			continue
		}
		if s.after(q, tag) {
			running := 0
			for _, end := range ends {
				running += lo.Ternary(end > s.at, 1, 0)
			}
			if !capped || running < q.maxRunning {
				return s.at, before
			}
		}
		if !s.idle {
			before++
		}
	}
	// The job is behind all simulated jobs, or the simulation expects newcomers to go before it for
	// all that time. In reality, chance and promotion spare it most of them.
	started := -o.left
	for _, l := range o.lines {
		started += l.queued
	}
	ahead := o.position(q, tag, o.classes)
	wait = o.cleared * max(1, float64(ahead)/float64(max(started, 1)))
	if capped && len(ends) >= q.maxRunning { // its account still needs a free slot
		slices.Sort(ends)
		wait = max(wait, ends[len(ends)-q.maxRunning])
	}
	return min(wait, maxWait), before
}

// leastIrregular is the minimum irregularity of a wait, because the jobs that arrive are never
// exactly the expected ones.
const leastIrregular = 0.15

// maxWait is the longest predicted wait, in seconds: 30 days.
const maxWait = 30 * 24 * 60 * 60

// position returns 1 plus the number of queued jobs that start before q, among those that
// these workers can run.
func (o *Forecast) position(q query, tag float64, classes []*class) int {
	ahead := 0
	for _, l := range o.lines {
		n := 0
		switch {
		case l.account == q.account && l.Line == q.Line:
			n = q.ownAhead
		case l.Line == q.Line:
			n = l.before(tag)
		case fairqueue.CompareLines(l.Line, q.Line, false) < 0: // the promoted jobs rarely have the turn
			n = l.queued
		}
		if n == 0 {
			continue
		}
		here, counts := 0, false
		for i, part := range l.head {
			if i == 0 || part.Queue != l.head[i-1].Queue {
				counts = !o.paused(part.Queue) && slices.ContainsFunc(classes, func(c *class) bool { return c.Serves(part.Queue, l.account) })
			}
			here += lo.Ternary(counts, 1, 0)
		}
		ahead += n * here / len(l.head)
	}
	return ahead + 1
}

func (o *Forecast) paused(q models.Queue) bool {
	state := o.lanes[q.Lane]
	return state.Paused || slices.Contains(state.PausedModels, q.Model)
}

// laneTime returns the virtual time at which an account enters a line.
func laneTime(lines []*line, of models.Line) float64 {
	var standing []float64
	for _, l := range lines {
		if l.Line == of && fairqueue.Eligible(l.queued, l.running, l.maxRunning) {
			standing = append(standing, l.VirtualTime)
		}
	}
	return fairqueue.LineTime(standing, 0)
}

// startTag returns the virtual time at which a job starts: its account's time, advanced by the
// account's jobs before it.
func (o *Forecast) startTag(q query) float64 {
	at := laneTime(o.lines, q.Line)
	for _, a := range o.arrivals {
		if a.AccountID == q.account && a.Tier == q.Lane && !q.Promoted {
			at = max(at, a.VirtualTime)
		}
	}
	for _, l := range o.lines {
		if l.account == q.account && l.Line == q.Line {
			at = max(at, l.VirtualTime)
			at += l.work(min(q.ownAhead, l.queued)) / l.Weight
		}
	}
	return at
}

// renderSeconds returns how long a job occupies one of these workers, averaged over their GPU
// types.
func (o *Forecast) renderSeconds(classes []*class, job load) float64 {
	sum, n := 0.0, 0
	for _, c := range classes {
		sum += float64(len(c.workers)) * o.times.Ratio(job.kind, c.gpuType) * job.gpuSeconds
		n += len(c.workers)
	}
	return sum / float64(max(n, 1))
}

// Remaining returns the remaining seconds of a job that was estimated at total seconds and has run
// for held seconds. Reported progress decides if there is any, and the elapsed time otherwise. The
// more the job has done since it was resumed, the more its own pace counts. The result is at least
// a twentieth of total.
func Remaining(total, held, resumed, percent, silent float64) float64 {
	left := total - held
	if percent > 0 {
		if done, took := (percent-resumed)/100, held-silent; done > 0 && took > 0 {
			total = (1-done)*total + took // took is done × the duration of the whole job at this pace
		}
		left = total*(1-percent/100) - silent
	}
	return max(left, total/20)
}
