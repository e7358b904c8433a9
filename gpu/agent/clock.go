package agent

import (
	"context"
	"sync"
	"time"
)

// clock is the agent's own reckoning of one lease, on the monotonic clock.
type clock struct {
	ttl time.Duration

	mu       sync.Mutex
	since    time.Time     // before the last successful ask
	released bool          // the attempt is ending: the server alone decides
	renewed  chan struct{} // closed, and replaced, by each renewal
	// expired is sent to when somebody waits for a renewal.
	expired chan struct{}
}

func newClock(asked time.Time, ttl time.Duration) *clock {
	return &clock{ttl: ttl, since: asked, renewed: make(chan struct{}), expired: make(chan struct{}, 1)}
}

// renew notes that a call begun at asked has extended the lease.
func (c *clock) renew(asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if asked.After(c.since) {
		c.since = asked
	}
	c.wakeAll()
}

// letGo ends all waiting: nothing is known of the lease any more, and the one
// call that is left, which ends the attempt, is safe to repeat.
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

// age is how long ago the lease was last known to be extended.
func (c *clock) age() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.since)
}

// await returns at once while the lease is surely held, and else when a
// heartbeat has renewed it. Its error is the cause of ctx's end.
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
