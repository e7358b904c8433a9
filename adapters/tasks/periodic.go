package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/reelay/reelay/internal/periodic"
)

// Pass is periodic work that is safe to run in every process at once.
type Pass struct {
	Name  string
	Every time.Duration
	Run   func(context.Context) error
}

// Claim reports whether this process should run a pass in the current period, and how long the
// period still lasts. Only one of the processes that ask gets true.
type Claim func(ctx context.Context, name string, every time.Duration) (mine bool, left time.Duration, err error)

const (
	// sendTimeout bounds the sending of a tick to Redis.
	sendTimeout = time.Second
	// passTimeout bounds one pass.
	passTimeout = time.Minute
)

// ticks runs each pass once per period across all control processes; the process that claims
// the period first runs it. At the start of a period all processes send the same tick, and
// asynq gives it to one of them. In the middle of the period each process that does not know of its
// owner tries to claim it directly, in case Redis lost, refused or did not deliver the tick.
type ticks struct {
	sender sender
	passes []*running
}

// running is a pass that does not overlap with itself in this process.
type running struct {
	Pass
	claim Claim

	mu   sync.Mutex
	next time.Time // the end of the period that was claimed last, by this process or another
	log  periodic.Log
}

func newPeriodic(sender sender, claim Claim, passes []Pass) *ticks {
	p := &ticks{sender: sender}
	for _, pass := range passes {
		p.passes = append(p.passes, &running{Pass: pass, claim: claim, log: periodic.Log{Name: pass.Name}})
	}
	return p
}

func (p *ticks) handle(mux *asynq.ServeMux) {
	for _, pass := range p.passes {
		mux.HandleFunc(pass.message(), func(ctx context.Context, _ *asynq.Task) error {
			pass.try(ctx)
			return nil // errors are logged, and the pass runs again in the next period
		})
	}
}

// tick runs the pass in each period until ctx ends. A pass that is running then may go on
// until work ends.
func (p *ticks) tick(ctx, work context.Context, pass *running) {
	for ctx.Err() == nil {
		next := pass.try(work)
		wait(ctx, next)
		if ctx.Err() != nil {
			return
		}
		p.send(ctx, pass, next)
		wait(ctx, next.Add(pass.Every/2))
	}
}

func wait(ctx context.Context, until time.Time) {
	select {
	case <-time.After(time.Until(until)):
	case <-ctx.Done():
	}
}

// send sends the tick of the period that begins now. asynq keeps it a moment longer than it
// takes all processes to send it. A lost tick does no harm.
func (p *ticks) send(ctx context.Context, pass *running, begin time.Time) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := p.sender.send(ctx, asynq.NewTask(pass.message(), nil), asynq.Queue(periodicQueue),
		asynq.TaskID(fmt.Sprintf("%s:%d", pass.Name, begin.Round(pass.Every).UnixMilli())),
		asynq.Retention(pass.Every), asynq.MaxRetry(0), asynq.Timeout(passTimeout))
	if err != nil {
		slog.DebugContext(ctx, "no tick through Redis", "pass", pass.Name, "error", err)
	}
}

// message is the type of the pass's ticks.
func (r *running) message() string { return "pass:" + r.Name }

// try runs the pass if this process claims the period, and returns when the next period
// begins. It does not start a pass that is already running here, and does not ask for a period
// again: once a claim was answered, the period has an owner.
func (r *running) try(ctx context.Context) (next time.Time) {
	now := time.Now()
	if !r.mu.TryLock() {
		return now.Add(r.Every)
	}
	defer r.mu.Unlock()
	if now.Before(r.next) {
		return r.next
	}
	mine, left, err := r.claim(ctx, r.Name, r.Every)
	next = now.Add(left)
	if err != nil {
		next = now.Add(r.Every / 2)
	} else {
		r.next = next
	}
	if mine {
		ctx, cancel := context.WithTimeout(ctx, passTimeout)
		defer cancel()
		began := time.Now()
		err = r.run(ctx)
		slog.DebugContext(ctx, "pass ended", "pass", r.Name, "seconds", time.Since(began).Seconds())
	}
	r.log.Note(ctx, err)
	return next
}

func (r *running) run(ctx context.Context) (err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("pass %s panicked: %v\n%s", r.Name, broken, debug.Stack())
		}
	}()
	return r.Run(ctx)
}
