// Package host keeps the runtime of a worker and the model that it has loaded, from one job to the next.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
)

// Command is a program that speaks the runtime protocol.
type Command struct {
	Name    string
	Command []string
	// BuiltIn marks a runtime of this program that need not be started to know what it offers:
	// Models, and those that the agent is told to serve and whose entry in the catalogue names it.
	BuiltIn bool
	Models  []string
	// Any marks a built-in runtime that runs every model whose entry names it, also models that come
	// later.
	Any bool
	// Env are variables beside the agent's own, such as NAME=VALUE. Those of Reelay are not passed on otherwise.
	Env []string
}

// Process is a running runtime; [runtime.Process] is the only one outside tests.
// Its methods are documented there.
type Process interface {
	Announced() runtime.Ready
	Load(model runtime.Model) error
	Start(runtime.Start) error
	Checkpoint() error
	Cancel(keep bool) error
	Stored() error
	Messages() <-chan runtime.Message
	Wait() error
	Tail() string
	TailSince(position int64) (text []byte, end int64)
	Kill()
}

// Launcher starts a runtime and waits until it is ready.
type Launcher func(context.Context, Command) (Process, error)

// Host keeps one runtime process, and the model that it has loaded, between jobs. A
// GPU has memory for one: a job for another runtime's model ends the process first.
type Host struct {
	commands    []Command
	launch      Launcher
	loadTimeout time.Duration
	log         *slog.Logger

	offers map[string]Command // by model
	// offersOf reports whether the runtime of a name offers a model.
	offersOf map[string]func(model string) bool
	running  Process
	command  string // the name of the running command
	down     atomic.Pointer[string]
	loaded   runtime.Model // the model in memory
	// said is the log of the current job from the process that ended last. ours
	// reports whether the running process's output belongs to the current job too.
	said string
	ours bool
}

// New returns a host of the runtimes with these commands. A model must be loaded within loadTimeout.
func New(commands []Command, launch Launcher, loadTimeout time.Duration, log *slog.Logger) *Host {
	return &Host{commands: commands, launch: launch, loadTimeout: loadTimeout, log: log}
}

// Survey starts each runtime once and returns the models that they offer, limited
// to those in only unless it is empty. The last runtime keeps running.
func (h *Host) Survey(ctx context.Context, only []string) ([]string, error) {
	h.offers, h.offersOf = map[string]Command{}, map[string]func(string) bool{}
	var all []string
	for _, command := range h.commands {
		offered, err := h.offered(ctx, command, only)
		if err != nil {
			return nil, err
		}
		h.offersOf[command.Name] = func(model string) bool { return slices.Contains(offered, model) }
		for _, model := range offered {
			all = append(all, model)
			if _, taken := h.offers[model]; !taken && (len(only) == 0 || slices.Contains(only, model)) {
				h.offers[model] = command
			}
		}
	}
	var models []string
	for model := range h.offers {
		models = append(models, model)
	}
	slices.Sort(models)
	for _, model := range only {
		if !slices.Contains(models, model) {
			return nil, fmt.Errorf("no runtime offers the model %q: they offer %q", model, all)
		}
	}
	return models, nil
}

// offered returns the models that a runtime offers, which may be more than those in only. It
// starts a runtime that is not built in.
func (h *Host) offered(ctx context.Context, command Command, only []string) ([]string, error) {
	if command.BuiltIn {
		if len(only) > 0 {
			return only, nil
		}
		return command.Models, nil
	}
	offered, err := h.start(ctx, command)
	if err != nil {
		return nil, fmt.Errorf("the runtime %s does not start: %w", command.Name, err)
	}
	if len(offered) == 0 { // any model whose settings it understands
		offered = only
	}
	if len(offered) == 0 {
		return nil, fmt.Errorf("the runtime %s can run any model: name the models to serve with --models", command.Name)
	}
	return offered, nil
}

// start replaces the running process with a new one.
func (h *Host) start(ctx context.Context, command Command) ([]string, error) {
	h.Kill()
	if !command.BuiltIn {
		h.down.Store(&command.Name)
	}
	p, err := h.launch(ctx, command)
	if err != nil {
		return nil, err
	}
	h.running, h.command = p, command.Name
	h.down.Store(nil)
	ready := p.Announced()
	h.log.Info("runtime started", "runtime", ready.Runtime, "protocol", ready.Protocol, "models", ready.Models)
	var names []string
	for _, offer := range ready.Models {
		names = append(names, offer.Name)
	}
	return names, nil
}

// CommandFor returns the runtime for a model: the one that the catalogue names in wanted, if it
// is one of the agent's and offers the model, else the first that offers it. A built-in runtime
// understands the settings of no other runtime's models.
func (h *Host) CommandFor(model, wanted string) (Command, bool) {
	for _, command := range h.commands {
		if command.Name == wanted && (command.Any || h.offersOf[wanted](model)) {
			return command, true
		}
	}
	command, ok := h.offers[model]
	if command.BuiltIn && !slices.Contains(command.Models, model) {
		return Command{}, false
	}
	return command, ok
}

// LoadTimes are how long it took to have a model in memory: to start the runtime, if it did not run,
// and to load the model; and to download the weights before.
type LoadTimes struct{ Load, Fetch time.Duration }

// Get returns a process with the model in memory, of the runtime wanted if there is one. If necessary
// it starts the runtime and loads the model: then it calls progress meanwhile, and load is not nil.
// If the runtime fails, the error is a *runtime.Failure.
func (h *Host) Get(
	ctx context.Context, model runtime.Model, wanted string, progress func(*runtime.Progress),
) (_ Process, load *LoadTimes, err error) {
	command, ok := h.CommandFor(model.Name, wanted)
	if !ok {
		return nil, nil, runtime.Failf(runtime.Transient, "this worker has no runtime for the model %s: start its agent with --runtime '%s=…'",
			model.Name, cmp.Or(wanted, "NAME"))
	}
	h.idle()
	begun := time.Now()
	if h.running == nil || h.command != command.Name {
		if _, err := h.start(ctx, command); err != nil {
			return nil, nil, err
		}
	}
	if h.loaded.Name == model.Name && h.loaded.Version == model.Version {
		return h.running, nil, nil
	}
	fetch, err := h.load(ctx, model, progress)
	if err != nil {
		h.Kill()
		return nil, nil, err
	}
	took := time.Since(begun)
	fetch = min(fetch, took)
	return h.running, &LoadTimes{took - fetch, fetch}, nil
}

// load loads the model into the running process and waits until it is in memory. It returns how
// much of that time the runtime downloaded the weights.
func (h *Host) load(ctx context.Context, model runtime.Model, progress func(*runtime.Progress)) (fetch time.Duration, err error) {
	h.loaded = runtime.Model{}
	if err := h.running.Load(model); err != nil {
		return 0, err
	}
	h.ours = true // Load clears the log
	timer := time.NewTimer(h.loadTimeout)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-timer.C:
			return 0, runtime.Failf(runtime.Timeout, "the runtime %s did not load %s within %s", h.command, model.Name, h.loadTimeout)
		case message, ok := <-h.running.Messages():
			if !ok {
				return 0, h.running.Wait()
			}
			switch m := message.(type) {
			case *runtime.Progress:
				progress(m)
			case *runtime.Failure:
				return 0, Diagnose(m)
			case *runtime.Loaded:
				h.loaded = model
				return time.Duration(m.FetchSeconds * float64(time.Second)), nil
			}
		}
	}
}

// Begin starts a job on the running process.
func (h *Host) Begin(order runtime.Start) error {
	if err := h.running.Start(order); err != nil {
		return err
	}
	h.ours = true
	return nil
}

// Turn begins the log of another job. The output so far is not part of it, and may
// be another customer's.
func (h *Host) Turn() { h.said, h.ours = "", false }

// idle reads the messages that the running process sent between jobs, and notices
// if it died.
func (h *Host) idle() {
	for h.running != nil {
		select {
		case _, ok := <-h.running.Messages():
			if !ok {
				h.log.Warn("the runtime died while it was idle", "runtime", h.command, "error", h.running.Wait())
				h.Kill()
			}
		default:
			return
		}
	}
}

// Warm lists the models that are in memory.
func (h *Host) Warm() []string {
	h.idle()
	if h.running == nil || h.loaded.Name == "" {
		return nil
	}
	return []string{h.loaded.Name}
}

// Kill ends the running process, if there is one.
func (h *Host) Kill() {
	if h.running != nil {
		h.running.Kill()
		h.said = h.Tail()
		if name := h.command; !h.builtIn(name) {
			h.down.Store(&name)
		}
	}
	h.running, h.command, h.loaded = nil, "", runtime.Model{}
}

// Down returns the name of the runtime that was started and does not run, or "". It starts again with the
// next job. A runtime that is built in need not run between jobs. Down can be called at any time.
func (h *Host) Down() string {
	if name := h.down.Load(); name != nil {
		return *name
	}
	return ""
}

func (h *Host) builtIn(name string) bool {
	return slices.ContainsFunc(h.commands, func(c Command) bool { return c.Name == name && c.BuiltIn })
}

// Tail returns the end of the current job's log.
func (h *Host) Tail() string {
	if h.running == nil || !h.ours {
		return h.said
	}
	return h.running.Tail()
}

// Halt asks the running process to stop its job, and kills it if it has not stopped
// within grace. If keep is set, work that the job's handle names goes on: another worker adopts it.
func (h *Host) Halt(grace time.Duration, keep bool) {
	if h.running == nil {
		return
	}
	if err := h.running.Cancel(keep); err != nil {
		h.Kill()
		return
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			h.log.Warn("the runtime did not stop and is killed", "runtime", h.command)
			h.Kill()
			return
		case message, ok := <-h.running.Messages():
			if !ok {
				h.Kill()
				return
			}
			switch message.(type) {
			case *runtime.Cancelled, *runtime.Result, *runtime.Failure:
				return
			}
		}
	}
}

// Settle kills the process after a failure that leaves it unusable: a crash, a hang,
// running out of memory, or a defective video.
func (h *Host) Settle(err error) {
	failure, ok := errors.AsType[*runtime.Failure](err)
	if !ok {
		return
	}
	switch failure.Class {
	case runtime.ModelCrash, runtime.OutOfMemory, runtime.Timeout, runtime.DefectiveResult:
		h.Kill()
	}
}

var (
	noMemory = regexp.MustCompile(`(?i)\b(cuda|hip|gpu) out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY`)
	gpuFault = regexp.MustCompile(`(?i)\b(cuda|cudnn|cublas|nccl|hip)\w* error|\b(cudnn|cublas|cusolver)_status_|` +
		`device-side assert|illegal memory access|uncorrectable ECC|\bXid \d+|fallen off the bus`)
)

// Diagnose corrects the class of a failure that the runtime reported as TRANSIENT
// although its GPU failed: after such a fault the process must not continue.
func Diagnose(failure *runtime.Failure) *runtime.Failure {
	if failure.Class != runtime.Transient {
		return failure
	}
	said := failure.Message + "\n" + failure.Detail
	corrected := *failure
	switch {
	case noMemory.MatchString(said):
		corrected.Class = runtime.OutOfMemory
	case gpuFault.MatchString(said):
		corrected.Class = runtime.ModelCrash
	}
	return &corrected
}
