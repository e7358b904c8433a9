package agent

import (
	"context"
	"sync"
	"time"
)

// clock tracks on the monotonic clock how long one lease is surely held.
type clock struct {
	ttl time.Duration

	mu       sync.Mutex
	since    time.Time     // the moment before the last successful call
	released bool          // the attempt is ending: only the server knows the lease
	renewed  chan struct{} // closed, and replaced, by each renewal
	// expired receives when a caller waits for a renewal.
	expired chan struct{}
}

func newClock(asked time.Time, ttl time.Duration) *clock {
	return &clock{ttl: ttl, since: asked, renewed: make(chan struct{}), expired: make(chan struct{}, 1)}
}

// renew records that a call made at asked has extended the lease.
func (c *clock) renew(asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if asked.After(c.since) {
		c.since = asked
	}
	c.wakeAll()
}

// letGo ends all waiting. The agent no longer knows whether it holds the lease,
// and the only call left, which ends the attempt, is safe to repeat.
func (c *clock) letGo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released = true
	c.wakeAll()
}

func (c *clock) wakeAll() {
	close(c.renewed)
	c.renewed = make(chan struct{})
}

// age returns the time since the lease was last known to be extended.
func (c *clock) age() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.since)
}

// await returns at once if the lease is surely held. Otherwise it waits until a
// heartbeat has renewed the lease. Its error is the cause of ctx's end.
func (c *clock) await(ctx context.Context) error {
	for {
		c.mu.Lock()
		held, renewed := c.released || time.Since(c.since) < c.ttl, c.renewed
		c.mu.Unlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if held {
			return nil
		}
		select {
		case c.expired <- struct{}{}:
		default:
		}
		select {
		case <-renewed:
		case <-ctx.Done():
		}
	}
}

// times translates between the clocks of this machine and of the control plane, which may differ
// by hours. The registration happened at here and at there, by the one and the other. The zero
// value takes them for equal.
type times struct {
	here  time.Time // with the reading of the monotonic clock
	there *time.Time
}

// ours is when it is at, by the control plane's clock: early by what the registration took.
func (c times) ours(at time.Time) time.Time {
	if c.there == nil {
		return at
	}
	return c.here.Add(at.Sub(*c.there))
}

// theirs is the control plane's time at a time of this machine.
func (c times) theirs(at time.Time) time.Time {
	if c.there == nil || at.IsZero() {
		return at
	}
	return c.there.Add(at.Sub(c.here))
}
