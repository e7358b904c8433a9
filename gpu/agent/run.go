package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/reelay/reelay/client"
)

// Run works until the machine is about to go away or the control plane asks the
// worker to leave. It then hands over its job, deregisters the worker and returns
// nil. It returns an error if the configuration is invalid, a runtime does not
// start, or the control plane refuses the worker. If ctx ends, Run stops at once
// and hands nothing over.
func Run(ctx context.Context, config Config) error {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return err
	}
	return newAgent(config, launch).run(ctx)
}

func (a *Agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { a.watchNotices(ctx) })
	defer watching.Wait()
	defer cancel()
	defer a.going.stop()

	// Remove what a killed agent with this instance id left.
	if err := os.RemoveAll(a.dir); err != nil {
		return fmt.Errorf("clear the work directory: %w", err)
	}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return fmt.Errorf("make the work directory: %w", err)
	}
	defer os.RemoveAll(a.dir)
	defer a.runtimes.kill()

	starting, stop := until(ctx, a.going.urgent, errHandOver)
	defer stop()
	models, err := a.runtimes.survey(starting, a.config.Models)
	if err == nil {
		err = a.register(starting, models)
	}
	if starting.Err() != nil && errors.Is(context.Cause(starting), errHandOver) {
		return nil
	}
	if err != nil {
		return err
	}
	watching.Go(func() { a.listen(ctx) })
	return a.serve(ctx)
}

// serve runs one job after another until the worker drains.
func (a *Agent) serve(ctx context.Context) error {
	for {
		g, err := a.ask(ctx)
		if client.ErrorCode(err) == client.CodeUnauthenticated {
			return a.errEnded()
		}
		if err != nil {
			return fmt.Errorf("ask for a job: %w", err)
		}
		if g == nil {
			break
		}
		for g != nil && !closed(a.going.draining) {
			g = a.work(ctx, g)
		}
		if g != nil {
			a.giveBack(ctx, g)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	a.leave(ctx)
	a.log.Info("agent left")
	return nil
}

// errEnded explains that the control plane no longer accepts the token of this worker.
func (a *Agent) errEnded() error {
	return fmt.Errorf("the control plane has ended this worker: another agent took its place with the same --instance-id (%s), "+
		"or an operator terminated it. Start each agent with an --instance-id of its own", a.config.InstanceID)
}

// work runs one job from its lease to its end. It returns the next lease if the
// control plane answered with one. Every goroutine that it started has ended when
// it returns.
func (a *Agent) work(ctx context.Context, g *grant) *grant {
	t := a.newAttempt(ctx, g)
	a.runtimes.turn()
	a.current.Store(t)
	defer a.current.Store(nil)
	t.log.Info("job leased", "model", g.Job.Model, "no", g.AttemptNo, "checkpoints", len(g.Checkpoints))
	var background sync.WaitGroup
	background.Go(t.keepLease)
	background.Go(func() { t.progress.run(t.rendering) })
	defer background.Wait()
	defer t.disown(nil)
	defer os.RemoveAll(t.dir)

	result, err := t.render()
	return t.end(result, err)
}

// leave deregisters the worker. It does not wait for an unreachable control plane,
// because the machine may be gone at any moment.
func (a *Agent) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTimeout)
	defer cancel()
	if err := a.api.DeregisterWorker(ctx, a.worker); err != nil && client.ErrorCode(err) != client.CodeUnauthenticated {
		a.log.Warn("could not deregister the worker", "error", err)
	}
}
