package estimate

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/internal/recent"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Estimator keeps the forecast from which a process makes all estimates. It is refreshed in the
// background, so that no request waits for it. The only decision that depends on it is whether a
// submit is refused because of overload.
type Estimator struct {
	DB        *bun.DB
	Catalogue *catalogue.Catalogue
	// LateAfter is how long jobs of a lane wait before jobs of lower lanes are asked to yield to
	// them.
	LateAfter map[models.Tier]time.Duration

	mu       sync.Mutex
	forecast *Forecast
	at       time.Time     // when the refresh began
	took     time.Duration // without rests

	warmth atomic.Pointer[warmth]
	// fees are what providers charge.
	fees recent.Map[string, *decimal.Decimal]
	// asked reports whether the forecast was used since the newest refresh.
	asked atomic.Bool
}

const (
	// RefreshEvery is how often a serving process refreshes its forecast.
	RefreshEvery = time.Second
	// staleAfter is the age at which a forecast is no longer used.
	staleAfter = 20 * time.Second
	// refreshShare limits refreshes to this fraction of the time: 1/60.
	refreshShare = 60
	// workersPage is how many workers are read at once, and handsSpan for how long pages of workers
	// are read with pauses between them.
	workersPage = 200
	workersSpan = time.Second
	// standbyAccounts and standbySample bound what is read of each queue: its first accounts, and
	// the first jobs of each account.
	standbyAccounts = 500
	standbySample   = 20
)

// Refresh reads a new forecast.
func (e *Estimator) Refresh(ctx context.Context) error {
	begun := time.Now()
	e.asked.Store(false)
	o, err := readForecast(ctx, e.DB, e.Catalogue.Current(), e.LateAfter)
	if err != nil {
		return fmt.Errorf("refresh the outlook: %w", err)
	}
	e.warmth.Store(&o.warmth)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forecast, e.at, e.took = o, begun, time.Since(begun)-o.rested
	return nil
}

// Pass refreshes the forecast if it was used and a refresh costs less than its share of the time, or if
// it is almost stale.
func (e *Estimator) Pass(ctx context.Context) error {
	e.mu.Lock()
	rest := staleAfter / 2
	if e.asked.Load() {
		rest = min(rest, refreshShare*e.took)
	}
	rest -= time.Since(e.at)
	e.mu.Unlock()
	if rest > 0 {
		return nil
	}
	return e.Refresh(ctx)
}

// Look calls use with the forecast, unless there is none or it is stale.
func (e *Estimator) Look(use func(*Forecast)) {
	if e == nil {
		return
	}
	e.asked.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.forecast != nil && time.Since(e.at) < staleAfter {
		use(e.forecast)
		e.catchUp(e.forecast)
	}
}

// Submit returns the forecast of a job that an account is about to submit, behind all its other
// jobs. system is its wait without the account's running limit. Without a forecast nothing is
// known.
func (e *Estimator) Submit(job *models.Job, account *models.Account) (found Estimate, system float64) {
	e.Look(func(o *Forecast) {
		found, system = o.estimate(o.behindOwn(job, account))
	})
	return found, system
}

// behindOwn returns the query of a job behind all other jobs of its account. The number of the
// account's running jobs may be older or newer than the forecast.
func (o *Forecast) behindOwn(job *models.Job, account *models.Account) query {
	q := newQuery(job, account)
	q.running = max(q.running, o.held[account.ID])
	for _, l := range o.lines {
		if l.account == account.ID && l.Line == q.Line {
			q.ownAhead = l.queued
		}
	}
	return q
}

// Expect is Submit without a position, and fast enough for a thousand jobs at once: similar jobs
// with about as many jobs before them share one forecast.
func (e *Estimator) Expect(job *models.Job, account *models.Account) (known expectation) {
	e.Look(func(o *Forecast) {
		q := o.behindOwn(job, account)
		q.ownAhead = roughly(q.ownAhead)
		var ok bool
		if known, ok = o.expected[q]; !ok {
			begun := time.Now()
			found, system := o.wait(q, o.startTag(q), o.serving(q))
			known = expectation{found.WaitSeconds, found.seconds(), system}
			if o.expected == nil || len(o.expected) >= maxExpected {
				o.expected = map[query]expectation{}
			}
			o.expected[q] = known
			o.took += time.Since(begun)
		}
	})
	return known
}

// roughly rounds a number of jobs ahead to 5 binary digits, for expect.
func roughly(n int) int {
	return n &^ (1<<max(bits.Len(uint(n))-bits.Len(expectExact-1), 0) - 1)
}

// expectation is the shared forecast of similar jobs.
type expectation struct {
	WaitSeconds *float64
	// Seconds is the time until it completes.
	Seconds *float64
	System  float64
}

const (
	// expectExact is the number of jobs ahead up to which each one counts, a power of two.
	expectExact = 32
	maxExpected = 10_000
)

// Submitted adds a job that was just queued to the forecast, until the next refresh contains it.
func (e *Estimator) Submitted(job *models.Job, account *models.Account) {
	e.Look(func(o *Forecast) { o.enter(newQuery(job, account)) })
}

func newQuery(job *models.Job, account *models.Account) query {
	return query{
		load: load{job.Queue(), kindOf(job), job.EstimatedGPUSeconds}, account: job.AccountID,
		weight: account.Weight, running: account.Running, maxRunning: account.MaxRunning,
	}
}

// kindOf returns the job's kind.
func kindOf(job *models.Job) backlog.Kind {
	return backlog.Kind{Model: job.Model, TimeClass: job.TimeClass}
}

func readForecast(ctx context.Context, db bun.IDB, catalogue *catalogue.Snapshot, lateAfter map[models.Tier]time.Duration) (*Forecast,
	error) {
	o := &Forecast{catalogue: catalogue, lateAfter: lateAfter}
	known, err := backlog.ListRenderTimes(ctx, db)
	if err != nil {
		return nil, err
	}
	o.times = NewRenderTimes(known)
	lanes, err := models.ReadLanes(ctx, db)
	if err != nil {
		return nil, err
	}
	o.lanes = lo.KeyBy(lanes, func(l models.LaneState) models.Tier { return l.Lane })
	if o.arrivals, err = backlog.ListArrivals(ctx, db, ArrivalSpan); err != nil {
		return nil, err
	}
	if o.warmth.loads, err = readLoads(ctx, db); err != nil {
		return nil, err
	}
	if o.newWorkers, err = ReadNewWorkers(ctx, db, catalogue.Names()); err != nil {
		return nil, err
	}
	o.warmth.at, o.warmth.times = time.Now(), o.times
	if err := o.hireAll(ctx, db); err != nil {
		return nil, err
	}
	standby, err := backlog.ListStandby(ctx, db, slices.Collect(maps.Keys(o.held)), standbyAccounts, standbySample)
	if err != nil {
		return nil, err
	}
	o.lines = lineUp(standby)
	o.run()
	return o, nil
}

// hireAll reads the fleet in pages, because reading a large fleet at once would delay other
// requests.
func (o *Forecast) hireAll(ctx context.Context, db bun.IDB) error {
	o.held = map[models.AccountID]int{}
	classes := map[string]*class{}
	begun := time.Now()
	for last := (backlog.Slot{}); ; {
		page := time.Now()
		hands, err := backlog.ListWorkerViews(ctx, db, last, workersPage)
		if err != nil {
			return err
		}
		for _, h := range hands {
			last = h.Slot
			o.hire(classes, h)
			if h.AccountID != "" {
				o.held[h.AccountID]++
			}
		}
		if len(hands) < workersPage {
			return nil
		}
		read := time.Now()
		periodic.Rest(ctx, min(refreshShare*read.Sub(page), workersSpan-read.Sub(begun)))
		o.rested += time.Since(read)
	}
}

// hire adds a worker to the class of equal workers. A booting worker counts once the duration of
// boots is known.
func (o *Forecast) hire(classes map[string]*class, h backlog.WorkerView) {
	one := workerView{account: h.AccountID}
	switch {
	case h.Status == models.WorkerBooting && h.BootSeconds == nil:
		return
	case h.Status == models.WorkerBooting:
		one.free = max(*h.BootSeconds-h.AgeSeconds, *h.BootSeconds/20)
	case h.AccountID != "":
		total := h.EstimatedGPUSeconds * o.times.Ratio(h.Kind, h.GPUType)
		one.free = Remaining(total, h.HeldSeconds, h.ResumedPercent, h.Percent, h.SilentSeconds)
		if MayYield(&h.Yielding, time.Duration(one.free*float64(time.Second)), UnknownBoot) {
			one.yields = h.Lane
		}
	}
	key := h.Key()
	c := classes[key]
	if c == nil {
		c = &class{Capability: o.catalogue.CapabilityOf(h.Offer), gpuType: h.GPUType}
		classes[key] = c
		o.classes = append(o.classes, c)
	}
	c.workers = append(c.workers, one)
	warm := h.WarmModels
	if h.AccountID != "" {
		warm = []string{h.Kind.Model} // its earlier report may be outdated
	}
	if len(warm) > 0 && h.Status != models.WorkerBooting {
		o.warmth.workers = append(o.warmth.workers, warmWorker{Capability: c.Capability, id: h.ID, models: warm, free: one.free})
	}
}

// lineUp groups the waiting jobs by account and queue.
func lineUp(standby []backlog.Standby) []*line {
	type place struct {
		models.Line
		account models.AccountID
	}
	byPlace := map[place]*line{}
	var all []*line
	for _, s := range standby {
		at := place{s.Line, s.AccountID}
		l := byPlace[at]
		if l == nil {
			l = &line{
				Line: s.Line, account: s.AccountID, Share: fairqueue.Share{VirtualTime: s.VirtualTime, Weight: s.Weight}, queued: s.Queued,
				running: s.Running, maxRunning: s.MaxRunning,
			}
			byPlace[at] = l
			all = append(all, l)
		}
		l.head = append(l.head, load{
			Queue:      s.Queue,
			kind:       backlog.Kind{Model: s.Model, TimeClass: s.TimeClass},
			gpuSeconds: s.GPUSeconds,
		})
	}
	return all
}

// runEvery is the minimum interval between two simulations of a forecast.
const runEvery = 20 * time.Millisecond

// catchUp simulates again if jobs were added since the last simulation, once the simulation and the
// results computed from it cost less than a fiftieth of the time. No caller waits for it.
func (e *Estimator) catchUp(o *Forecast) {
	if !o.entered || o.running || e.forecast != o {
		return
	}
	o.entered, o.running = false, true
	time.AfterFunc(max(50*o.took, runEvery)-time.Since(o.ranAt), func() {
		e.mu.Lock()
		ahead := o.copy()
		o.entered = false
		e.mu.Unlock()

		begun := time.Now()
		ahead.run()

		e.mu.Lock()
		defer e.mu.Unlock()
		o.course, o.running = ahead.course, false
		clear(o.expected)
		o.ranAt, o.took = time.Now(), time.Since(begun)
		e.catchUp(o)
	})
}

// copy returns a forecast that can be simulated while jobs are added to this one.
func (o *Forecast) copy() *Forecast {
	ahead := *o
	ahead.lines = make([]*line, len(o.lines))
	for i, l := range o.lines {
		ahead.lines[i] = new(*l)
	}
	return &ahead
}

// enter adds one job to its account's queue.
func (o *Forecast) enter(q query) {
	at := slices.IndexFunc(o.lines, func(l *line) bool { return l.account == q.account && l.Line == q.Line })
	if at < 0 {
		o.lines = append(o.lines, &line{
			Line: q.Line, account: q.account, Share: fairqueue.Share{VirtualTime: o.startTag(query{load: q.load, account: q.account}),
				Weight: q.weight},
			running: q.running, maxRunning: q.maxRunning,
		})
		at = len(o.lines) - 1
	}
	l := o.lines[at]
	if l.queued == len(l.head) && l.queued < standbySample {
		l.head = append(l.head, q.load)
	}
	l.queued++
	o.entered = true
}

// CaughtUp returns once the forecast is up to date. Only tests need it.
func (e *Estimator) CaughtUp() {
	for playing := true; playing; runtime.Gosched() {
		e.mu.Lock()
		playing = e.forecast.running
		e.mu.Unlock()
	}
}
