package estimate

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
)

// world simulates a fleet and its customers in virtual time: jobs arrive at random, are
// assigned as jobs/lease/claim.go does, take times that are not known in advance, and sometimes lose
// their workers. Estimates are made from what a real process would see.
type world struct {
	*rand.Rand
	now     float64
	events  timeline
	workers []*simWorker
	clients []*simClient
	queue   []*simJob
	tickets int

	times     map[RenderKey]*backlog.RenderTime
	counted   map[simArrival]float64
	ratio     float64 // real render time over the catalogue's estimate
	irregular float64 // its standard deviation over its mean
	mtbf      float64 // seconds between a worker's preemptions; 0: never
	boot      float64

	waits, completions []judged
}

// judged compares the estimate at submit with the real time, in seconds from the submit.
type judged struct{ said, p90, was float64 }

type simWorker struct {
	models  []string
	gpu     string
	speed   float64
	job     *simJob
	since   float64 // since it was assigned, or ended
	gone    bool
	version int // of its state: events of an older version are void
}

type simClient struct {
	account     models.AccountID
	tier        models.Tier
	kinds       []simKind
	every       float64 // seconds between its jobs
	weight      float64
	maxRunning  int
	running     int
	queued      int
	virtualTime float64
}

// simArrival says which account's arrivals are counted, and for which model.
type simArrival struct {
	*simClient
	model string
}

// mean is the mean estimated render time of one of the client's jobs of a model.
func (c *simClient) mean(model string) float64 {
	sum, n := 0.0, 0.0
	for _, k := range c.kinds {
		if k.Model == model {
			sum, n = sum+k.gpuSeconds, n+1
		}
	}
	return sum / n
}

type simKind struct {
	backlog.Kind
	gpuSeconds float64
}

type simJob struct {
	*simClient
	simKind
	ticket    int
	requeued  bool
	submitted float64
	work      float64 // seconds on a worker of speed 1
	done      float64 // the part of work that a checkpoint holds
	bend      float64 // of its progress, as the power of the part done
	spent     float64
	said      *Estimate
	started   bool
}

type simEvent struct {
	at      float64
	order   int
	happens func()
}

type timeline []simEvent

func (t timeline) Len() int { return len(t) }

func (t timeline) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].order < t[j].order
}

func (t timeline) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

func (t *timeline) Push(x any) { *t = append(*t, x.(simEvent)) }

func (t *timeline) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

func (w *world) after(seconds float64, happens func()) {
	w.tickets++
	heap.Push(&w.events, simEvent{w.now + seconds, w.tickets, happens})
}

// run runs the world for that long. Jobs before judging are not judged.
func (w *world) run(judging, until float64) {
	for _, c := range w.clients {
		w.after(w.ExpFloat64()*c.every, func() { w.submit(c, judging) })
	}
	for _, worker := range w.workers {
		w.plague(worker)
	}
	for len(w.events) > 0 && w.now < until {
		e := heap.Pop(&w.events).(simEvent)
		w.now = e.at
		e.happens()
		w.dispatch()
	}
}

func (w *world) submit(c *simClient, judging float64) {
	kind := c.kinds[w.IntN(len(c.kinds))]
	w.tickets++
	// Lognormal, with mean 1.
	s := math.Sqrt(math.Log(1 + w.irregular*w.irregular))
	noise := math.Exp(s*w.NormFloat64() - s*s/2)
	job := &simJob{simClient: c, simKind: kind, ticket: w.tickets, submitted: w.now, work: kind.gpuSeconds * w.ratio * noise,
		bend: math.Exp(0.1 * w.NormFloat64())}
	if w.now > judging && w.IntN(6) == 0 { // a sample is enough
		found, _ := w.forecast().estimate(query{
			load: job.load(), account: c.account,
			weight: c.weight, running: c.running, maxRunning: c.maxRunning, ownAhead: c.queued,
		})
		job.said = &found
	}
	w.counted[simArrival{c, kind.Model}]++
	if c.queued == 0 {
		c.virtualTime = max(c.virtualTime, w.laneTime(c))
	}
	c.queued++
	w.queue = append(w.queue, job)
	w.after(w.ExpFloat64()*c.every, func() { w.submit(c, judging) })
}

func (w *world) laneTime(of *simClient) float64 {
	least, greatest := math.Inf(1), 0.0
	for _, c := range w.clients {
		if c.tier != of.tier {
			continue
		}
		greatest = max(greatest, c.virtualTime)
		if c.queued > 0 && c.running < c.maxRunning {
			least = min(least, c.virtualTime)
		}
	}
	if math.IsInf(least, 1) {
		return greatest
	}
	return least
}

func (j *simJob) load() load {
	return load{models.Queue{Line: models.Line{Lane: j.tier}, Model: j.Model}, j.Kind, j.gpuSeconds}
}

// percent is the progress that the job reports when that part is done: no job progresses
// evenly.
func (j *simJob) percent(done float64) float64 { return 100 * math.Pow(done/j.work, j.bend) }

// before reports whether a job comes before another.
func (j *simJob) before(o *simJob) bool {
	lane := func(j *simJob) int { return slices.Index(models.Tiers, j.tier) }
	switch {
	case lane(j) != lane(o):
		return lane(j) < lane(o)
	case j.simClient != o.simClient && j.virtualTime != o.virtualTime:
		return j.virtualTime < o.virtualTime
	case j.simClient == o.simClient && j.requeued != o.requeued:
		return j.requeued
	}
	return j.ticket < o.ticket
}

// dispatch gives each idle worker its next job.
func (w *world) dispatch() {
	for _, worker := range w.workers {
		if worker.gone || worker.job != nil {
			continue
		}
		var next *simJob
		for _, j := range w.queue {
			if slices.Contains(worker.models, j.Model) && j.running < j.maxRunning && (next == nil || j.before(next)) {
				next = j
			}
		}
		if next != nil {
			w.give(worker, next)
		}
	}
}

func (w *world) give(worker *simWorker, j *simJob) {
	w.queue = slices.DeleteFunc(w.queue, func(o *simJob) bool { return o == j })
	c := j.simClient
	c.queued--
	c.running++
	c.virtualTime += j.gpuSeconds / c.weight
	if j.said != nil && !j.started && j.said.WaitSeconds != nil {
		w.waits = append(w.waits, judged{*j.said.WaitSeconds, *j.said.WaitSecondsP90, w.now - j.submitted})
	}
	j.started = true
	worker.job, worker.since = j, w.now
	worker.version++
	version := worker.version
	w.after((j.work-j.done)/worker.speed, func() {
		if worker.version == version {
			w.complete(worker)
		}
	})
}

func (w *world) complete(worker *simWorker) {
	j := worker.job
	j.spent += w.now - worker.since
	if j.said != nil && j.said.seconds() != nil {
		w.completions = append(w.completions, judged{said: *j.said.seconds(), was: w.now - j.submitted})
	}
	w.release(worker)
	key := RenderKey{j.Kind, worker.gpu}
	if w.times[key] == nil {
		w.times[key] = &backlog.RenderTime{Kind: j.Kind, GPUType: worker.gpu}
	}
	Learn(w.times[key], backlog.Rendered{Kind: j.Kind, GPUType: worker.gpu, Seconds: j.spent, EstimatedSeconds: j.gpuSeconds})
}

func (w *world) release(worker *simWorker) {
	c := worker.job.simClient
	if c.running--; c.running == c.maxRunning-1 && c.queued > 0 {
		c.virtualTime = max(c.virtualTime, w.laneTime(c)) // it returns to its line
	}
	worker.job, worker.since = nil, w.now
	worker.version++
}

// plague preempts the worker repeatedly: its job is requeued with the progress of its last
// checkpoint, and another worker boots.
func (w *world) plague(worker *simWorker) {
	if w.mtbf == 0 {
		return
	}
	w.after(w.ExpFloat64()*w.mtbf, func() {
		if j := worker.job; j != nil {
			held := w.now - worker.since
			j.spent += held
			j.done += math.Floor(held/30) * 30 * worker.speed
			j.requeued = true
			w.release(worker)
			j.queued++
			w.queue = append(w.queue, j)
		}
		worker.gone = true
		worker.since = w.now
		w.after(w.boot, func() { worker.gone = false; w.plague(worker) })
	})
}

// forecast is what a real process would see now.
func (w *world) forecast() *Forecast {
	o := &Forecast{
		catalogue: simCatalogue, lanes: map[models.Tier]models.LaneState{},
	}
	var known []*backlog.RenderTime
	for _, t := range w.times {
		known = append(known, t)
	}
	o.times = NewRenderTimes(known)
	for who, n := range w.counted {
		o.arrivals = append(o.arrivals, &backlog.Arrival{
			AccountID: who.account, Tier: who.tier, Model: who.model, JobsPerSecond: n / w.now, GPUSeconds: who.mean(who.model),
			VirtualTime: who.virtualTime, Weight: who.weight, Running: who.running, MaxRunning: who.maxRunning,
		})
	}
	slices.SortFunc(o.arrivals, func(a, b *backlog.Arrival) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.Model, b.Model))
	})
	classes := map[string]*class{}
	for _, worker := range w.workers {
		h := backlog.WorkerView{Offer: models.Offer{Models: worker.models, GPUType: worker.gpu}, Status: models.WorkerIdle}
		switch j := worker.job; {
		case worker.gone:
			h.Status, h.BootSeconds, h.AgeSeconds = models.WorkerBooting, &w.boot, w.now-worker.since
		case j != nil:
			held := w.now - worker.since
			reported := math.Floor(held/5) * 5 // as progress is reported
			h.Status, h.AccountID, h.Kind, h.EstimatedGPUSeconds, h.HeldSeconds = models.WorkerBusy, j.account, j.Kind, j.gpuSeconds, held
			h.ResumedPercent, h.Percent = j.percent(j.done), j.percent(j.done+reported*worker.speed)
			h.SilentSeconds = held - reported
		}
		o.hire(classes, h)
	}
	o.lines = w.lines()
	o.run()
	return o
}

func (w *world) lines() []*line {
	slices.SortFunc(w.queue, func(a, b *simJob) int { return lo.Ternary(b.before(a), 1, 0) - lo.Ternary(a.before(b), 1, 0) })
	var rows []backlog.Standby
	for _, c := range w.clients {
		n := 0
		for _, j := range w.queue {
			if j.simClient != c || n == standbySample {
				continue
			}
			n++
			rows = append(rows, backlog.Standby{
				AccountID: c.account, Queue: j.load().Queue, TimeClass: j.TimeClass,
				GPUSeconds: j.gpuSeconds, VirtualTime: c.virtualTime, Queued: c.queued, Weight: c.weight, Running: c.running, MaxRunning: c.maxRunning,
			})
		}
	}
	return lineUp(rows)
}

var simCatalogue = catalogue.New(
	&catalogue.Model{Name: "preview", GPUTypes: []string{"any"}}, &catalogue.Model{Name: "film", GPUTypes: []string{"any"}},
)

func simKindOf(model, resolution string, seconds int, gpuSeconds float64) simKind {
	return simKind{backlog.Kind{Model: model, TimeClass: resolution + "," + strconv.Itoa(seconds)}, gpuSeconds}
}
