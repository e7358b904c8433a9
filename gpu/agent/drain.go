package agent

import (
	"context"
	"sync"
	"time"
)

// departure is whether, and how urgently, the agent has to go. It only ever gets
// more urgent: draining, urgent, over, gone come in this order.
type departure struct {
	// draining is closed when no more work is to be taken.
	draining chan struct{}
	// urgent is closed when the job at hand must be handed over.
	urgent chan struct{}
	// over is closed when there is no time left to save anything more.
	over chan struct{}
	// gone is closed when the machine is thought to be.
	gone chan struct{}

	// notice is how long before a deadline it gets urgent.
	notice time.Duration

	mu       sync.Mutex
	deadline time.Time // zero: the job at hand may take its time
	timers   []*time.Timer
}

func newDeparture(notice time.Duration) *departure {
	return &departure{
		draining: make(chan struct{}), urgent: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{}),
		notice: notice,
	}
}

// drain says that the agent goes once its job is done, and by the deadline,
// unless that is zero.
func (d *departure) drain(deadline time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	shut(d.draining)
	if deadline.IsZero() || !d.deadline.IsZero() && !deadline.Before(d.deadline) {
		return
	}
	d.deadline = deadline
	d.at(deadline.Add(-d.notice), d.urgent)
	// a tenth of the notice early, so that the last word is still heard
	d.at(deadline.Add(-min(d.notice/10, 2*time.Second)), d.over)
	d.at(deadline, d.gone)
}

// hurry says that the agent will be gone at the deadline, and that the time until
// then is for handing over its job.
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

// stop forgets deadlines that have not come.
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

// closed tells whether c is.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// until returns a context that ends with ctx or, because of cause, when c is
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
