package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/agent/redact"
	"github.com/reelay/reelay/internal/pause"
)

// Agent is one registered worker.
type Agent struct {
	worker
	current    atomic.Pointer[attempt] // nil between jobs
	registered chan struct{}           // closed when the worker is registered
	waiting    atomic.Pointer[string]  // why it is not registered yet
}

func newAgent(config Config, launch host.Launcher) *Agent {
	return &Agent{registered: make(chan struct{}), worker: worker{
		config: config, api: config.Client, log: config.Log,
		dir:      filepath.Join(config.WorkDir, config.folder()),
		going:    newDeparture(config.Notice),
		secrets:  redact.New(os.Environ()),
		packer:   &packer{mode: config.CheckpointCompression},
		runtimes: host.New(config.Runtimes, launch, config.LoadTimeout, config.Log),
	}}
}

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
	return newAgent(config, host.LaunchOn(config.Devices)).run(ctx)
}

// unready says why the worker takes no jobs, or is empty.
func (a *Agent) unready() string {
	switch down := a.runtimes.Down(); {
	case closed(a.going.draining):
		return "it leaves"
	case !closed(a.registered):
		why := a.waiting.Load()
		if why == nil {
			return "it starts"
		}
		return "it is not registered: " + *why
	case down != "":
		return "its runtime " + down + " does not run"
	}
	return ""
}

func (a *Agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { a.watchNotices(ctx) })
	defer watching.Wait()
	defer cancel()
	defer a.going.stop()
	a.config.Probes.Set(a.config.Slot, a.unready)
	defer a.config.Probes.Set(a.config.Slot, func() string { return "it has ended" })

	// Remove what a killed agent with this instance id left.
	if err := os.RemoveAll(a.dir); err != nil {
		return fmt.Errorf("clear the work directory: %w", err)
	}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return fmt.Errorf("make the work directory: %w", err)
	}
	defer os.RemoveAll(a.dir)
	defer a.runtimes.Kill()

	starting, stop := until(ctx, a.going.urgent, errRelease)
	defer stop()
	models, err := a.runtimes.Survey(starting, a.config.Models)
	if err == nil {
		models, err = a.runnable(starting, models)
	}
	if err == nil {
		err = a.register(starting, models)
	}
	if starting.Err() != nil && errors.Is(context.Cause(starting), errRelease) {
		return nil
	}
	if err != nil {
		return err
	}
	watching.Go(func() { a.listen(ctx) })
	if engine := a.config.Engine; engine != nil {
		watching.Go(func() {
			select {
			case <-ctx.Done():
			case <-engine.Leave():
				a.going.drain(time.Time{})
			}
		})
	}
	return a.serve(ctx)
}

// serve runs one job after another until the worker drains.
func (a *Agent) serve(ctx context.Context) error {
	for {
		if a.engineAway(ctx) {
			break
		}
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

// engineAway reports whether the worker's engine takes no job now. The worker then leaves: it
// would only hold a job that others can do.
func (a *Agent) engineAway(ctx context.Context) bool {
	if a.config.Engine == nil || closed(a.going.draining) {
		return false
	}
	err := a.config.Engine.Ready(ctx)
	if err != nil && ctx.Err() == nil {
		a.log.Info("the worker leaves", "reason", err)
		a.going.drain(time.Time{})
	}
	return err != nil && ctx.Err() == nil
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
	t := newAttempt(ctx, &a.worker, g)
	a.runtimes.Turn()
	a.current.Store(t)
	defer a.current.Store(nil)
	t.log.Info("job leased", "model", g.Job.Model, "no", g.AttemptNo, "checkpoints", len(g.Checkpoints))
	var background sync.WaitGroup
	background.Go(t.keepLease)
	background.Go(func() { t.progress.run(t.rendering) })
	background.Go(func() { t.logs.run(t.rendering) })
	defer background.Wait()
	defer t.disown(nil)
	defer t.progress.close()
	defer os.RemoveAll(t.dir)

	result, err := t.render()
	return t.end(result, err)
}

// leave deregisters the worker. It does not wait for an unreachable control plane,
// because the machine may be gone at any moment.
func (a *Agent) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTimeout)
	defer cancel()
	if err := a.api.DeregisterWorker(ctx, a.id); err != nil && client.ErrorCode(err) != client.CodeUnauthenticated {
		a.log.Warn("could not deregister the worker", "error", err)
	}
}

// register enrols the worker. It retries for as long as the control plane is
// unreachable.
func (a *Agent) register(ctx context.Context, models []string) error {
	c := a.config
	in := client.RegisterWorkerInput{
		Provider: c.Provider, ProviderInstanceId: c.InstanceID, Slot: &c.Slot, GpuCount: new(c.gpuCount()), PoolId: client.Optional(c.PoolID),
		Region: c.Region, Zone: client.Optional(c.Zone), GpuType: c.GPUType, CapacityClass: c.CapacityClass,
		Models: models, WarmModels: a.runtimes.Warm(), AgentVersion: c.Version,
	}
	for failures := 1; ; failures++ {
		r, asked, err := a.registerOnce(ctx, in)
		if err == nil {
			a.api = a.api.WithKey(r.WorkerToken)
			a.id = r.Worker.Id
			a.times = times{here: asked, there: r.Worker.RegisteredAt}
			a.heartbeat, a.leaseTime = time.Duration(r.HeartbeatSeconds)*time.Second, time.Duration(r.LeaseSeconds)*time.Second
			a.log = a.log.With("worker", a.id)
			a.log.Info("worker registered", "instance", c.InstanceID, "models", strings.Join(models, ","))
			for _, refused := range r.Worker.RefusedModels {
				a.log.Warn("the worker gets no jobs of a model that it offers; it waits until that changes", "model", refused.Model, "reason",
					refused.Reason)
			}
			close(a.registered)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		proving := c.Identity != nil && !hasCode(err) // the metadata server failed
		if c.Identity != nil && client.ErrorCode(err) == client.CodeUnauthenticated {
			// A proof is good for one registration, whose answer may have been lost.
			if proving = failures < identityTries; !proving {
				return fmt.Errorf("the control plane refuses the identity of this machine: %w", err)
			}
		} else if client.ErrorCode(err) == client.CodeUnauthenticated {
			// The API's own message is about HTTP headers.
			return errors.New("the key is unknown or revoked: set REELAY_API_KEY or --key to a key with the role WORKER")
		}
		if !proving && !theirFault(err) {
			return fmt.Errorf("register the worker: %w", err)
		}
		a.log.Warn("could not register the worker, retrying", "error", err)
		a.waiting.Store(new(err.Error()))
		if err := pause.For(ctx, delay(err, failures)); err != nil {
			return err
		}
	}
}

// registerOnce also returns when it called the control plane.
func (a *Agent) registerOnce(ctx context.Context, in client.RegisterWorkerInput) (_ *client.Registration, asked time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	api := a.api
	if a.config.Identity != nil {
		proof, err := a.config.Identity(ctx)
		if err != nil {
			return nil, asked, err
		}
		api = api.WithKey(proof)
	}
	asked = time.Now()
	r, err := api.RegisterWorker(ctx, in)
	return r, asked, err
}

// identityTries is how many refusals of the machine's identity the agent accepts in a row.
const identityTries = 6

// hasCode reports whether an error is an answer of the API, or the lack of one.
func hasCode(err error) bool {
	_, ok := errors.AsType[*client.Error](err)
	return ok
}
