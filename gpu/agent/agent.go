package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/client"
)

// Agent is one registered worker.
type Agent struct {
	config   Config
	api      *client.Client
	log      *slog.Logger
	dir      string
	going    *departure
	runtimes *host
	secrets  *redactor
	current  atomic.Pointer[attempt] // nil between jobs

	// set by register, before registered is closed
	registered           chan struct{}
	worker               string
	heartbeat, leaseTime time.Duration
}

// Run works until the machine goes away, or the control plane asks it to leave,
// and then returns nil: its job is handed over and its worker deregistered. It
// returns an error if the configuration is wrong, a runtime does not start, or
// the control plane refuses the worker. If ctx ends, everything stops where it
// is, and nothing is handed over.
func Run(ctx context.Context, config Config) error {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return err
	}
	return newAgent(config, launch).run(ctx)
}

func newAgent(config Config, launch launcher) *Agent {
	return &Agent{
		config: config, api: config.Client, log: config.Log,
		dir:        filepath.Join(config.WorkDir, config.InstanceID),
		going:      newDeparture(config.Notice),
		registered: make(chan struct{}),
		secrets:    newRedactor(os.Environ()),
		runtimes:   &host{commands: config.Runtimes, launch: launch, loadTimeout: config.LoadTimeout, log: config.Log},
	}
}

func (a *Agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { a.watchNotices(ctx) })
	defer watching.Wait()
	defer cancel()
	defer a.going.stop()

	// what a killed agent of this name left
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

// serve does one job after the other.
func (a *Agent) serve(ctx context.Context) error {
	for {
		g, err := a.ask(ctx)
		if client.ErrorCode(err) == client.CodeUnauthenticated {
			return fmt.Errorf("the control plane has ended this worker: %w", err)
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

// register enrols the worker, however long the control plane is away.
func (a *Agent) register(ctx context.Context, models []string) error {
	c := a.config
	in := client.RegisterWorkerInput{
		Provider: c.Provider, ProviderInstanceId: c.InstanceID, PoolId: optional(c.PoolID),
		Region: c.Region, Zone: optional(c.Zone), GpuType: c.GPUType, CapacityClass: c.CapacityClass,
		Models: models, WarmModels: a.runtimes.warm(), AgentVersion: c.Version,
	}
	for failures := 1; ; failures++ {
		r, err := a.registerOnce(ctx, in)
		if err == nil {
			a.api = a.api.WithKey(r.WorkerToken)
			a.worker = r.Worker.Id
			a.heartbeat, a.leaseTime = time.Duration(r.HeartbeatSeconds)*time.Second, time.Duration(r.LeaseSeconds)*time.Second
			a.log = a.log.With("worker", a.worker)
			a.log.Info("worker registered", "instance", c.InstanceID, "models", models)
			close(a.registered)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !theirFault(err) {
			return fmt.Errorf("register the worker: %w", err)
		}
		a.log.Warn("the control plane cannot be reached", "error", err)
		if err := pause(ctx, delay(err, failures)); err != nil {
			return err
		}
	}
}

func (a *Agent) registerOnce(ctx context.Context, in client.RegisterWorkerInput) (*client.Registration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return a.api.RegisterWorker(ctx, in)
}
