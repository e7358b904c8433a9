package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// departure says whether, and how urgently, the agent must leave. It only becomes
// more urgent: draining, urgent, over and gone are closed in this order.
type departure struct {
	// draining is closed when the agent must take no new job.
	draining chan struct{}
	// urgent is closed when the current job must be handed over.
	urgent chan struct{}
	// over is closed when no time is left to save anything.
	over chan struct{}
	// gone is closed when the machine is expected to be gone.
	gone chan struct{}

	// noticing is closed when the control plane knows of the notice, or cannot be told. Nil means
	// that there was none.
	noticing atomic.Pointer[chan struct{}]

	// notice is the time before a deadline at which urgent is closed.
	notice time.Duration

	mu       sync.Mutex
	deadline time.Time // zero: the current job may finish
	timers   []*time.Timer
}

func newDeparture(notice time.Duration) *departure {
	return &departure{
		draining: make(chan struct{}), urgent: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{}),
		notice: notice,
	}
}

// drain makes the agent leave when its job is done, and by the deadline if it is
// not zero.
func (d *departure) drain(deadline time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	shut(d.draining)
	if deadline.IsZero() || !d.deadline.IsZero() && !deadline.Before(d.deadline) {
		return
	}
	d.deadline = deadline
	d.at(deadline.Add(-d.notice), d.urgent)
	// A tenth of the notice early, so that the last call still arrives.
	d.at(deadline.Add(-min(d.notice/10, 2*time.Second)), d.over)
	d.at(deadline, d.gone)
}

// hurry makes the agent hand over its job now; the machine is gone at the deadline.
func (d *departure) hurry(deadline time.Time) {
	d.drain(deadline)
	d.mu.Lock()
	defer d.mu.Unlock()
	shut(d.urgent)
}

func (d *departure) at(when time.Time, c chan struct{}) {
	d.timers = append(d.timers, time.AfterFunc(time.Until(when), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		shut(c)
	}))
}

// stop cancels the timers of the deadline.
func (d *departure) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, timer := range d.timers {
		timer.Stop()
	}
}

func shut(c chan struct{}) {
	if !closed(c) {
		close(c)
	}
}

// closed reports whether c is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// until returns a context that ends with ctx, or with the given cause when c is
// closed.
func until(ctx context.Context, c <-chan struct{}, cause error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-c:
			cancel(cause)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// noticeWithin is how long a job that is handed over waits for the control plane to know why.
const noticeWithin = time.Second

// awaitNotice waits until the control plane knows why this worker leaves, so that the job's events
// say it.
func (d *departure) awaitNotice() {
	telling := d.noticing.Load()
	if telling == nil {
		return
	}
	limit := time.NewTimer(noticeWithin)
	defer limit.Stop()
	select {
	case <-*telling:
	case <-limit.C:
	case <-d.over:
	}
}
