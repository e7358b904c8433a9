package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
)

// Config says which engines a runtime works with.
type Config struct {
	// Kind is the kind of all of them.
	Kind string
	// Own is the address of the engine on which this runtime starts jobs. It adopts work on all.
	Own     string
	Engines map[string]Engine // by address
	// Patience is how long an engine may give no valid answer before its job goes elsewhere; 0
	// means 2 minutes.
	Patience time.Duration
	// Every is the time between two polls; 0 means a second.
	Every time.Duration
	// Account is the pool of a hosted provider, whose work is paid; "" for engines.
	Account string
}

// Run serves an agent, one job at a time, until the agent sends shutdown or in
// ends. It returns an error if the agent breaks the protocol or the pipes fail.
func Run(ctx context.Context, in io.Reader, out io.Writer, config Config) error {
	if config.Engines[config.Own] == nil {
		return fmt.Errorf("the engine %s is not among those of this runtime", config.Own)
	}
	h := &host{
		kind: config.Kind, own: config.Own, engines: config.Engines,
		patience: cmp.Or(config.Patience, 2*time.Minute), every: cmp.Or(config.Every, time.Second), account: config.Account,
	}
	return runtime.Serve(ctx, in, out, runtime.Ready{Runtime: config.Kind + " 1"}, h)
}

// host is the Handler.
type host struct {
	kind, own       string
	account         string
	engines         map[string]Engine
	patience, every time.Duration
}

// Load asks the engine whether it has what the model needs. An engine that does not answer is left
// to Render, which waits for it.
func (h *host) Load(ctx context.Context, model runtime.Model) error {
	loader, ok := h.engines[h.own].(Loader)
	if !ok {
		return nil
	}
	err := loader.Load(ctx, model.Name, model.Settings)
	if failure, refused := errors.AsType[*runtime.Failure](err); refused {
		return failure
	}
	return nil
}

// Render does a job on an engine.
func (h *host) Render(ctx context.Context, job *runtime.Job) (runtime.Result, error) {
	asked := &Job{
		ID: job.Job, Model: job.Model, Type: job.Type, Prompt: job.Prompt, Params: map[string]any{}, Inputs: job.Inputs,
		Settings: job.Settings, Log: job.Log,
	}
	decoder := json.NewDecoder(bytes.NewReader(job.Params))
	decoder.UseNumber()
	if err := decoder.Decode(&asked.Params); err != nil && !errors.Is(err, io.EOF) {
		return runtime.Result{}, runtime.Failf(runtime.InvalidInput, "The parameters are not a JSON object: %v.", err)
	}
	r := &run{host: h, job: job, asked: asked, report: newReport(job), seen: time.Now()}
	defer r.report.close()
	result, err := r.do(ctx)
	if err == nil {
		return result, nil
	}
	if ctx.Err() != nil {
		r.cancel(ctx)
		return runtime.Result{}, context.Cause(ctx)
	}
	if late, ok := errors.AsType[*unready](err); ok {
		return runtime.Result{}, late.failure(r.account)
	}
	if _, ok := errors.AsType[*runtime.Failure](err); !ok {
		err = runtime.Failf(runtime.Transient, "%v", err)
	}
	return runtime.Result{}, err
}
