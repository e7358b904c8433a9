// Package engines drives the engines of a pool: it asks each how it is, gives the ready ones a
// worker, takes the worker back when its engine is not ready, and reports all of that to the
// control plane.
package engines

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/pause"
)

const (
	// lookEvery is the time between two looks at an engine, and between two reports.
	lookEvery = 5 * time.Second
	lookLimit = 10 * time.Second
	callLimit = 20 * time.Second
)

// State is what the control plane shows of an engine.
type State = client.EngineState

// Fleet drives the engines of a pool.
type Fleet struct {
	API  *client.Client
	Pool string
	// Open returns the engine at an address.
	Open func(kind engine.Kind, url string) (remote.Engine, error)
	// Work runs the worker of an engine until it has left, or ctx ends. others are the addresses of
	// the other engines of the pool.
	Work func(ctx context.Context, d *Driver, others []string) error
	// Waiting learns why Kind does not know the pool yet; optional.
	Waiting func(why string)
	Log     *slog.Logger

	mu      sync.Mutex
	drivers map[string]*Driver
	changed chan struct{}
	stopped bool
}

// Kind asks what kind of engines a pool has. It is "" if the pool has none: then its workers render
// by themselves. Kind repeats the call while the control plane does not answer or has no such pool.
func (f *Fleet) Kind(ctx context.Context) (engine.Kind, error) {
	for {
		wanted, err := f.sync(ctx)
		switch {
		case client.ErrorCode(err) == client.CodeInvalidInput:
			return "", nil // the pool has no engines, or is named by its id
		case err == nil:
			return engine.Kind(wanted.Kind), nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case client.ErrorCode(err) == client.CodeUnauthenticated, client.ErrorCode(err) == client.CodeForbidden:
			return "", errors.New("the key is unknown, revoked, or not a worker's: " +
				"set REELAY_API_KEY or --key to a key with the role WORKER")
		}
		if f.Waiting != nil {
			f.Waiting(err.Error())
		}
		f.Log.Warn("could not ask for the engines of the pool, retrying", "pool", f.Pool, "error", err)
		if err := pause.For(ctx, lookEvery); err != nil {
			return "", err
		}
	}
}

// Stop makes the workers leave after their jobs, and Run end then.
func (f *Fleet) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	for _, d := range f.drivers {
		d.retire()
	}
	f.reportSoon()
}

// Run drives the engines until Stop, or until ctx ends, and their workers have left. It follows the pool: engines
// that join it get a worker, and those that leave it lose theirs.
func (f *Fleet) Run(ctx context.Context) error {
	f.mu.Lock()
	f.drivers, f.changed = map[string]*Driver{}, make(chan struct{}, 1)
	f.mu.Unlock()
	var driving sync.WaitGroup
	defer driving.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		wanted, err := f.sync(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if f.over() {
			driving.Wait()
			return nil
		}
		if err != nil {
			// Workers continue: their leases are valid.
			f.Log.Warn("could not report the engines", "error", err)
		} else {
			f.follow(ctx, wanted, &driving)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
		case <-time.After(lookEvery):
		}
	}
}

func (f *Fleet) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// follow starts and stops drivers as the pool wants it.
func (f *Fleet) follow(ctx context.Context, wanted *client.WantedEngines, driving *sync.WaitGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	keep := map[string]bool{}
	for _, w := range wanted.Engines {
		for slot := range max(wanted.Workers, 1) {
			name := driverName(w.Url, slot)
			keep[name] = true
			d := f.drivers[name]
			if d == nil {
				opened, err := f.Open(engine.Kind(wanted.Kind), w.Url)
				if err != nil {
					f.Log.Error("an engine cannot be driven", "engine", w.Url, "error", err)
					continue
				}
				d = newDriver(f, w.Url, slot, opened)
				f.drivers[name] = d
				own, stop := context.WithCancel(ctx)
				d.stop = stop
				driving.Go(func() {
					d.run(own)
					f.forget(d)
				})
				f.Log.Info("an engine joined", "engine", w.Url, "slot", slot)
			}
			d.hold(w.Held)
		}
	}
	for name, d := range f.drivers {
		if !keep[name] && !d.left() {
			f.Log.Info("an engine left the pool, or has fewer workers", "engine", d.URL, "slot", d.Slot)
			d.retire()
		}
	}
}

// driverName is the name of the driver of an engine's worker.
func driverName(url string, slot int) string { return url + "#" + strconv.Itoa(slot) }

// forget removes a driver that has ended. Until then an engine that comes back to the pool gets no
// other one, whose worker would take the place of the first and so its job.
func (f *Fleet) forget(d *Driver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.stop()
	delete(f.drivers, driverName(d.URL, d.Slot))
	f.reportSoon()
}

// sync reports all engines and returns what the pool wants.
func (f *Fleet) sync(ctx context.Context) (*client.WantedEngines, error) {
	f.mu.Lock()
	reports := []client.EngineReport{}
	for _, d := range f.drivers {
		if d.Slot == 0 { // the others are of the same engine
			reports = append(reports, d.report())
		}
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return f.API.SyncEngines(ctx, f.Pool, reports)
}

// reportSoon makes Run report now.
func (f *Fleet) reportSoon() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// others returns the addresses of the engines beside one.
func (f *Fleet) others(url string) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.drivers {
		if d.URL != url {
			all = append(all, d.URL)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
