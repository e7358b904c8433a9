package agent

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/reelay/reelay/client"
)

const (
	// leaseWait is how long one ask for a job waits, in seconds.
	leaseWait = 20
	// callTimeout bounds one call, not counting the wait that it asks for, so that
	// a dead connection is found while a lease lasts.
	callTimeout = 10 * time.Second
	// beatTimeout bounds a heartbeat, and a report of progress, which extends the lease
	// as well. Several fit into one lease, each on another connection: the api process
	// at the end of the first one may be the only one that does not answer.
	beatTimeout = 5 * time.Second
)

// ask waits for a job. It returns nil once the worker is draining. A request
// whose answer was lost is repeated under its id, and so gives the same lease.
// The error is one that repeating cannot help.
func (a *Agent) ask(ctx context.Context) (*grant, error) {
	asking, stop := until(ctx, a.going.draining, errHandOver)
	defer stop()
	id := uuid.NewString()
	for failures := 0; ; {
		asked := time.Now()
		answer, err := a.askOnce(asking, id)
		if err == nil && answer.Lease != nil {
			return &grant{answer.Lease, asked}, nil
		}
		if err == nil {
			failures = 0
			id = uuid.NewString()
			if answer.Directive != nil {
				a.obey(*answer.Directive)
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if closed(a.going.draining) {
			a.refuse(ctx, id)
			return nil, nil
		}
		if err == nil {
			continue
		}
		if !theirFault(err) {
			return nil, err
		}
		failures++
		a.log.Debug("could not ask for a job", "error", err, "failures", failures)
		// an end of waiting shows in the next round
		_ = pause(asking, delay(err, failures))
	}
}

func (a *Agent) askOnce(ctx context.Context, id string) (*client.LeaseAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseWait*time.Second+callTimeout)
	defer cancel()
	return a.api.LeaseJob(ctx, client.LeaseJobInput{
		WorkerId: a.worker, WaitSeconds: new(leaseWait), WarmModels: a.runtimes.warm(), RequestId: &id,
	})
}

// refuse gives back the job that an ask may have been granted while it was broken
// off: a draining worker gets no new one, but the same request the same lease.
func (a *Agent) refuse(ctx context.Context, requestID string) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	answer, err := a.api.LeaseJob(ctx, client.LeaseJobInput{WorkerId: a.worker, WaitSeconds: new(0), RequestId: &requestID})
	if err == nil && answer.Lease != nil {
		a.giveBack(ctx, &grant{Lease: answer.Lease})
	}
}

// giveBack returns a job that was not begun.
func (a *Agent) giveBack(ctx context.Context, g *grant) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if _, err := a.api.ReleaseJob(ctx, g.Hold(), client.FailureClassPreempted); err != nil {
		a.log.Warn("could not give back a job", "job", g.Job.Id, "error", err)
	}
}

// grant is a lease and the moment before it was asked for.
type grant struct {
	*client.Lease
	asked time.Time
}

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
