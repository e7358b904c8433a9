package agent

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/pause"
)

// listenAgain is about the wait before the agent subscribes again after the control plane
// refused the subscription. Agents that were refused together do not return together.
const listenAgain = 30 * time.Second

// listen subscribes to the directives for this worker until ctx ends. The answers to
// heartbeats carry them too, so a directive missed here is only late by seconds.
func (a *Agent) listen(ctx context.Context) {
	for ctx.Err() == nil {
		for directive, err := range a.api.WorkerDirectives(ctx, a.id) {
			if err != nil {
				a.log.Debug("could not subscribe to directives", "error", err)
				continue
			}
			a.handle(*directive)
		}
		// The next round notices the end of ctx.
		_ = pause.For(ctx, listenAgain/2+rand.N(listenAgain))
	}
}

// handle passes a directive to the current attempt, or to the worker if there is none.
func (a *Agent) handle(d client.Directive) {
	if t := a.current.Load(); t != nil {
		t.obey(d)
		return
	}
	a.obey(d)
}
