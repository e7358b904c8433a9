package engines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/pause"
)

// Driver is one engine and its worker.
type Driver struct {
	URL string
	// Slot tells the workers of one engine apart: a hosted provider has several.
	Slot   int
	fleet  *Fleet
	engine remote.Engine
	log    *slog.Logger
	stop   context.CancelFunc

	mu      sync.Mutex
	state   State
	reason  string
	health  remote.Health
	lacks   map[string]string // by model
	held    bool
	retired bool
	working bool
	adopts  bool          // no worker has run yet: work that runs may be a job's
	leave   chan struct{} // closed when the present worker must take no more jobs
	turn    chan struct{} // receives when the engine may have become ready
}

func newDriver(f *Fleet, url string, slot int, opened remote.Engine) *Driver {
	return &Driver{
		URL: url, Slot: slot, fleet: f, engine: opened, log: f.Log.With("engine", url), state: client.EngineStateUnreachable,
		reason: "it has not been asked yet", lacks: map[string]string{}, adopts: true, turn: make(chan struct{}, 1),
	}
}

// run looks at the engine, and gives it a worker whenever it is ready, until ctx ends or the engine
// leaves the pool. The worker then leaves after its job.
func (d *Driver) run(ctx context.Context) {
	var looking sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	defer looking.Wait()
	defer stop()
	looking.Go(func() {
		for watching.Err() == nil {
			_ = d.look(watching)
			_ = pause.For(watching, lookEvery)
		}
	})
	for failures := 0; !d.over(ctx); {
		if !d.ready() {
			select {
			case <-ctx.Done():
				return
			case <-d.turn:
			}
			continue
		}
		leave := make(chan struct{})
		d.mu.Lock()
		d.leave, d.working = leave, true
		d.mu.Unlock()
		err := d.fleet.Work(ctx, d, d.fleet.others(d.URL))
		d.mu.Lock()
		d.leave, d.working, d.adopts = nil, false, false
		d.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		_ = d.look(ctx)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		d.log.Error("the worker of an engine ended, and is started again", "error", err)
		_ = pause.For(ctx, min(time.Duration(failures)*lookEvery, time.Minute))
	}
}

func (d *Driver) over(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return ctx.Err() != nil || d.retired
}

// ready reports whether the engine may have a worker. One that renders something when the agent
// starts may: it can be the job of an earlier agent, which a worker adopts.
func (d *Driver) ready() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.held && !d.retired && (d.state == client.EngineStateReady || d.adopts && d.state == client.EngineStateDraining &&
		d.health.Busy)
}

// Leave is closed when the worker must take no more jobs.
func (d *Driver) Leave() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leave
}

// Ready asks the engine whether it takes a job now. The worker asks before each job.
func (d *Driver) Ready(ctx context.Context) error {
	d.mu.Lock()
	adopts := d.adopts
	d.adopts = false
	d.mu.Unlock()
	if err := d.look(ctx); err != nil && !adopts {
		return err
	}
	return nil
}

// look asks the engine how it is.
func (d *Driver) look(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	health, err := d.engine.Health(limited)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	state, reason := client.EngineStateReady, ""
	unreachable, silent := errors.AsType[*remote.Unreachable](err)
	switch {
	case silent:
		state, reason = client.EngineStateUnreachable, unreachable.Error()
	case err != nil:
		state, reason = client.EngineStateFailed, err.Error()
	case health.Loading != "":
		state, reason = client.EngineStateUnreachable, health.Loading
	case health.Busy:
		state, reason = client.EngineStateDraining, "it renders something that Reelay cancelled or did not start"
	}
	d.recheck(ctx, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.health = health
	}
	if state != d.state || reason != d.reason {
		d.log.Info("the state of an engine", "state", state, "reason", reason)
		defer d.fleet.reportSoon()
	}
	d.state, d.reason = state, reason
	d.nudge()
	if state != client.EngineStateReady {
		return fmt.Errorf("the engine %s takes no job: %s", d.URL, reason)
	}
	return nil
}

// nudge wakes those who wait for a change. Its caller holds the lock.
func (d *Driver) nudge() {
	if (d.held || d.retired || d.state == client.EngineStateUnreachable || d.state == client.EngineStateFailed) && d.leave != nil {
		select {
		case <-d.leave:
		default:
			close(d.leave)
		}
	}
	select {
	case d.turn <- struct{}{}:
	default:
	}
}

// recheck asks the engine again for what it lacked.
func (d *Driver) recheck(ctx context.Context, down error) {
	provider, ok := d.engine.(remote.Provider)
	if !ok || down != nil {
		return
	}
	d.mu.Lock()
	lacks := map[string]string{}
	for model, missing := range d.lacks {
		lacks[model] = missing
	}
	d.mu.Unlock()
	for model, missing := range lacks {
		if has, err := provider.Has(ctx, missing); err != nil || !has {
			continue
		}
		d.log.Info("the engine now has what it lacked", "model", model, "lacked", missing)
		d.mu.Lock()
		delete(d.lacks, model)
		d.mu.Unlock()
		d.fleet.reportSoon()
	}
}

func (d *Driver) hold(held bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = held
	d.nudge()
}

// left reports whether the driver ends after its present job.
func (d *Driver) left() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.retired
}

// retire ends the driver after its present job.
func (d *Driver) retire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retired = true
	d.nudge()
}

// Unfit records that the engine could not do a job, before the job goes back: what it lacks for
// the model, or that it can do none.
func (d *Driver) Unfit(ctx context.Context, model string, failure *runtime.Failure) {
	d.log.Warn("the engine cannot do a job", "model", model, "reason", failure.Message)
	if failure.Lacks == "" {
		return
	}
	d.mu.Lock()
	d.lacks[model] = failure.Lacks
	d.mu.Unlock()
	if _, err := d.fleet.sync(ctx); err != nil {
		d.log.Warn("could not report what an engine lacks", "error", err)
	}
}

// Completed removes what the engine keeps of a job that is complete.
func (d *Driver) Completed(ctx context.Context, handle string) {
	if err := remote.Remove(ctx, d.engine, d.URL, handle); err != nil {
		d.log.Debug("the engine keeps what it has of a job", "error", err)
	}
}

func (d *Driver) report() client.EngineReport {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.state
	if d.working && (state == client.EngineStateReady || state == client.EngineStateDraining) && d.health.Busy {
		state = client.EngineStateBusy
	}
	r := client.EngineReport{
		Url: d.URL, State: state, Reason: d.reason, Version: d.health.Version, GpuName: d.health.GPU,
		GpuMemoryBytes: client.Optional(d.health.Memory), GpuMemoryFreeBytes: client.Optional(d.health.Free),
		Lacks: []client.EngineLackInput{},
	}
	if state == client.EngineStateBusy {
		r.Reason = ""
	}
	for model, missing := range d.lacks {
		r.Lacks = append(r.Lacks, client.EngineLackInput{Model: model, Missing: missing})
	}
	slices.SortFunc(r.Lacks, func(a, b client.EngineLackInput) int { return cmp.Compare(a.Model, b.Model) })
	return r
}
