package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/models"
)

// callPatience is how long a round waits for the providers. Longer calls continue, and rounds leave
// their pools alone until they end.
const callPatience = 2 * time.Second

// callLimit bounds a call to a provider. It is longer than the limits of the providers.
const callLimit = 5 * time.Minute

// calls contains the running calls to providers, at most one per pool.
type calls struct {
	mu      sync.Mutex
	running map[models.PoolID]running
	started []chan struct{} // since the last wait; each is closed when its call ends
	failed  []error         // of those that ended
	stopped bool            // no further call may start
}

type running struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// start runs a call in the background, unless a call of the pool already runs. The call does not
// end with ctx, which belongs to the round.
func (c *calls) start(ctx context.Context, pool models.PoolID, call func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, runs := c.running[pool]; runs || c.stopped {
		return
	}
	if c.running == nil {
		c.running = map[models.PoolID]running{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	done := make(chan struct{})
	c.running[pool], c.started = running{cancel, done}, append(c.started, done)
	go func() {
		defer close(done)
		defer cancel()
		err := call(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, pool)
		if err != nil && !c.stopped {
			c.failed = append(c.failed, err)
		}
	}()
}

// stopLimit bounds how long a process waits at its end for the calls that it cancelled. It is
// longer than a program of the provider "command" may take to end.
const stopLimit = 5 * time.Second

// stop cancels the running calls, and waits up to stopLimit until they have ended.
func (c *calls) stop() {
	c.mu.Lock()
	c.stopped = true
	all := slices.Collect(maps.Values(c.running))
	c.mu.Unlock()
	limit := time.After(stopLimit)
	for _, r := range all {
		r.cancel()
	}
	for _, r := range all {
		select {
		case <-r.done:
		case <-limit:
			return
		}
	}
}

// wait waits up to callPatience for the calls that were started since the last wait. It returns the
// errors of all calls that have ended since then.
func (c *calls) wait(ctx context.Context) error {
	patience := time.NewTimer(callPatience)
	defer patience.Stop()
	c.mu.Lock()
	started := c.started
	c.started = nil
	c.mu.Unlock()
	for _, done := range started {
		select {
		case <-done:
		case <-patience.C:
			patience.Reset(0)
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Join(c.failed...)
	c.failed = nil
	return err
}
