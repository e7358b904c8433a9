package pass

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Pass is work that control processes do by themselves. It is safe to run in every process at
// once; in one process it does not overlap with itself.
type Pass struct {
	Name string
	// On is the work that the pass does: it runs only while there is some. Without it, the pass
	// runs in each of its periods.
	On models.Work
	// Every is the length of the periods: the pass runs once in each, in one of the processes. With
	// 0 it runs in every process, as soon as there is work, and the processes share the work.
	Every time.Duration
	// Rest is the length of the periods while there is no work of On. With 0 the pass does not run
	// then.
	Rest time.Duration
	// Pause is the least time between two runs of a pass without periods.
	Pause time.Duration
	// Run returns how much it did.
	Run func(context.Context) (int, error)
}

// Agenda runs passes when there is work for them. It finds out with one statement a second for all
// passes, and sooner if work is announced (change.TopicDue) or known to be due before.
//
// PostgreSQL decides what is due, and which process runs a pass in a period. So no pass depends on
// Redis, and another process does the work of one that ends.
type Agenda struct {
	DB            *bun.DB
	Notifications jobs.Notifications
	// Passes must be the same in every process.
	Passes []Pass

	mu     sync.Mutex
	passes []*running
	again  periodic.Wake
}

const (
	// lookRest is the least time between two looks, so that news of many jobs costs few looks.
	lookRest = 10 * time.Millisecond
	// passTimeout bounds one run of a pass that has periods.
	passTimeout = time.Minute
	// drainTime is how long passes may take to end at shutdown.
	drainTime = 5 * time.Second
)

// running is the state of a pass in this process.
type running struct {
	Pass
	log periodic.Log

	runs   bool
	missed bool      // there was work while it ran
	rested time.Time // when it may run again; for a pass without periods
	// next is the end of the period that was claimed last, by this process or another, for each length
	// of periods.
	next map[time.Duration]time.Time
}

// Run runs the passes until ctx ends. It then lets running ones finish.
func (a *Agenda) Run(ctx context.Context) error {
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainTime, cut) })()
	var runs sync.WaitGroup
	defer runs.Wait()

	a.again = periodic.NewWake()
	for _, p := range a.Passes {
		a.passes = append(a.passes, &running{Pass: p, log: periodic.Log{Name: p.Name}, next: map[time.Duration]time.Time{}})
	}
	defer a.Notifications.Subscribe(ctx, change.TopicDue, a.again.Send)()
	log := periodic.Log{Name: "agenda"}
	for ctx.Err() == nil {
		began := time.Now()
		found, err := a.look(work)
		log.Note(ctx, err)
		for _, p := range found.start {
			runs.Go(func() { a.run(work, p) })
		}
		periodic.Rest(ctx, lookRest)
		select {
		case <-a.again:
		case <-time.After(found.wait - time.Since(began)):
		case <-ctx.Done():
		}
	}
	return nil
}

// found is what a look found: passes to start, and the time until the next look.
type found struct {
	start []*running
	wait  time.Duration
}

// look finds the passes that must run now. A pass that it returns counts as running.
func (a *Agenda) look(ctx context.Context) (f found, err error) {
	f.wait = change.DueEvery
	agenda, err := models.ReadAgenda(ctx, a.DB)
	if err != nil {
		return f, fmt.Errorf("read what is due: %w", err)
	}
	if agenda.Next > 0 {
		f.wait = min(f.wait, agenda.Next)
	}
	now := time.Now()
	var ask []models.PassPeriod
	asked := map[string]*running{}
	a.mu.Lock()
	for _, p := range a.passes {
		period, at, wanted := p.due(agenda)
		switch {
		case !wanted:
		case p.runs:
			p.missed = p.Every == 0
		case at.After(now):
			if p.On != "" && agenda.Due[p.On] { // the others need not be on time
				f.wait = min(f.wait, at.Sub(now))
			}
		case period.Every == 0:
			p.runs = true
			f.start = append(f.start, p)
		default:
			ask, asked[period.Name] = append(ask, period), p
		}
	}
	a.mu.Unlock()
	if len(ask) == 0 {
		return f, nil
	}
	claims, err := models.ClaimPasses(ctx, a.DB, ask)
	if err != nil {
		return f, fmt.Errorf("claim the periods of %d passes: %w", len(ask), err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, period := range ask {
		p, claim := asked[period.Name], claims[period.Name]
		p.next[period.Every] = now.Add(claim.Left)
		if claim.Mine {
			p.runs = true
			f.start = append(f.start, p)
		}
	}
	return f, nil
}

// due returns the period in which a pass should run, since when it may, and whether it should at all.
func (p *running) due(agenda models.Agenda) (period models.PassPeriod, at time.Time, wanted bool) {
	period = models.PassPeriod{Name: p.Name, Every: p.Every}
	if p.On != "" && !agenda.Due[p.On] {
		// A period of another length has another name: their numbers cannot be compared.
		period = models.PassPeriod{Name: p.Name + " at rest", Every: p.Rest}
		if p.Rest == 0 {
			return period, at, false
		}
	}
	if period.Every == 0 {
		return period, p.rested, true
	}
	return period, p.next[period.Every], true
}

// run runs a pass. If a pass without periods did something, there may be more.
func (a *Agenda) run(ctx context.Context, p *running) {
	if p.Every > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, passTimeout)
		defer cancel()
	}
	began := time.Now()
	n, err := p.try(ctx)
	slog.DebugContext(ctx, "pass ended", "pass", p.Name, "did", n, "seconds", time.Since(began).Seconds())
	p.log.Note(ctx, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.missed || p.Every == 0 && n > 0 {
		a.again.Send()
	}
	p.runs, p.missed, p.rested = false, false, time.Now().Add(p.Pause)
}

func (p *running) try(ctx context.Context) (n int, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("pass %s panicked: %v\n%s", p.Name, broken, debug.Stack())
		}
	}()
	return p.Run(ctx)
}
