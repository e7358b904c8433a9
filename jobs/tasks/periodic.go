package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/reelay/reelay/jobs"
)

// Pass is periodic work that is safe to run in every process at once.
type Pass struct {
	Name  string
	Every time.Duration
	Run   func(context.Context) error
}

const (
	// sendTimeout is how long a tick tries Redis before it goes without.
	sendTimeout = time.Second
	// passTimeout bounds one pass.
	passTimeout = time.Minute
	// skew is by how much the clocks of control processes may differ and a tick
	// still be run once.
	skew = time.Minute
)

// periodic runs each tick of each pass once in all control processes together,
// as far as Redis allows: they all send it under one id, and one of them gets
// it. Without Redis each runs its passes itself.
type periodic struct {
	sender sender
	passes []*running
}

// running is a pass that does not overlap with itself in this process.
type running struct {
	Pass
	mu sync.Mutex
}

func newPeriodic(opt asynq.RedisConnOpt, passes []Pass) *periodic {
	p := &periodic{sender: newSender(opt)}
	for _, pass := range passes {
		p.passes = append(p.passes, &running{Pass: pass})
	}
	return p
}

func (p *periodic) close() { p.sender.close() }

func (p *periodic) handle(mux *asynq.ServeMux) {
	for _, pass := range p.passes {
		mux.HandleFunc(pass.message(), func(ctx context.Context, _ *asynq.Task) error { return pass.run(ctx) })
	}
}

// tick sends a message at each tick of the pass until ctx ends.
func (p *periodic) tick(ctx context.Context, pass *running) {
	for ctx.Err() == nil {
		due := time.Now().Truncate(pass.Every)
		if err := p.send(ctx, pass, due); err != nil && ctx.Err() == nil {
			slog.DebugContext(ctx, "pass runs without Redis", "pass", pass.Name, "error", err)
			if err := jobs.Finish(ctx, pass.run); err != nil && ctx.Err() == nil {
				slog.ErrorContext(ctx, "periodic pass failed", "pass", pass.Name, "error", err)
			}
		}
		select {
		case <-time.After(time.Until(due.Add(pass.Every))):
		case <-ctx.Done():
		}
	}
}

// send sends the tick that is due. asynq keeps it after it was run, so that a
// process that is late cannot have it run again. It is not retried: the next
// tick is.
func (p *periodic) send(ctx context.Context, pass *running, due time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return p.sender.send(ctx, asynq.NewTask(pass.message(), nil), asynq.Queue(periodicQueue),
		asynq.TaskID(fmt.Sprintf("%s:%d", pass.Name, due.UnixMilli())),
		asynq.Retention(2*pass.Every+skew), asynq.MaxRetry(0), asynq.Timeout(passTimeout))
}

// message is the type of the pass's ticks.
func (r *running) message() string { return "pass:" + r.Name }

// run runs the pass, or does nothing if it runs already.
func (r *running) run(ctx context.Context) (err error) {
	if !r.mu.TryLock() {
		return nil
	}
	defer r.mu.Unlock()
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("pass %s panicked: %v\n%s", r.Name, broken, debug.Stack())
		}
	}()
	return r.Run(ctx)
}
