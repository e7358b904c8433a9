package agent

import (
	"context"
	"time"

	"github.com/reelay/reelay/client"
)

// listenAgain is how long an agent waits before it listens again to a control
// plane that refused it.
const listenAgain = 30 * time.Second

// listen hears what the control plane wants as soon as it does, until ctx ends.
// The answers to heartbeats say the same: what is missed here costs seconds.
func (a *Agent) listen(ctx context.Context) {
	for ctx.Err() == nil {
		for directive, err := range a.api.WorkerDirectives(ctx, a.worker) {
			if err != nil {
				a.log.Debug("could not listen", "error", err)
				continue
			}
			a.hear(*directive)
		}
		// an end of waiting shows in the next round
		_ = pause(ctx, listenAgain)
	}
}

// hear passes a directive to the job at hand, or else to the worker.
func (a *Agent) hear(d client.Directive) {
	if t := a.current.Load(); t != nil {
		t.obey(d)
		return
	}
	a.obey(d)
}

// obey does what the control plane asks of the worker. What it asks about a job
// is the attempt's to do.
func (a *Agent) obey(d client.Directive) {
	reason := "the control plane asked for it"
	if d.Reason != nil {
		reason = *d.Reason
	}
	switch d.Action {
	case client.DirectiveActionDrain:
		var deadline time.Time
		if d.Deadline != nil {
			deadline = *d.Deadline
		}
		if !closed(a.going.draining) {
			a.log.Info("draining", "reason", reason, "deadline", deadline)
		}
		a.going.drain(deadline)
	case client.DirectiveActionTerminate:
		a.going.hurry(time.Now())
	}
}
