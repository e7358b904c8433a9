package agent

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/tracing"
)

// render runs the job on the runtime. Its error is one of the reasons to stop, a
// *runtime.Failure, or a fault of this machine.
func (t *attempt) render() (*runtime.Result, error) {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, err
	}
	t.progress.phase(client.PhaseStarting, "starting on a worker")
	// Before the render starts there is nothing to save: a notice ends it at once.
	beginning, stop := until(t.rendering, t.worker.going.urgent, errRelease)
	defer stop()
	checkpoints, err := t.fetchCheckpoints(beginning)
	if err != nil {
		return nil, orCause(beginning, err)
	}
	inputs, err := t.fetchInputs(beginning)
	if err != nil {
		return nil, orCause(beginning, err)
	}
	p, load, err := t.worker.runtimes.Get(beginning, t.model(), t.wantedRuntime(), t.progress.runtime)
	if err != nil {
		return nil, orCause(beginning, err)
	}
	if load != nil {
		t.progress.loaded(load)
	}
	if err := t.worker.runtimes.Begin(t.order(checkpoints, inputs)); err != nil {
		return nil, err
	}
	return t.follow(p, checkpoints)
}

// model returns the job's model.
func (t *attempt) model() runtime.Model {
	m := runtime.Model{Name: t.lease.Job.Model}
	if leased := t.lease.Model; leased != nil {
		m.Version = leased.Version
		if leased.Settings != nil {
			m.Settings = *leased.Settings
		}
	}
	return m
}

// wantedRuntime returns the name of the runtime that the catalogue names for the model, or "".
func (t *attempt) wantedRuntime() string {
	if t.lease.Model == nil || t.lease.Model.Runtime == nil {
		return ""
	}
	return *t.lease.Model.Runtime
}

// handle returns the handle that the lease has for the runtime, or "".
func (t *attempt) handle() string {
	if t.lease.Handle == nil {
		return ""
	}
	return *t.lease.Handle
}

// order returns the job as the runtime's Start command.
func (t *attempt) order(checkpoints []restorable, inputs map[string]string) runtime.Start {
	job := t.lease.Job
	model := t.model()
	order := runtime.Start{
		Job: job.Id, Model: model.Name, Version: model.Version, Settings: model.Settings, Type: job.Type,
		Params: job.Params, Workdir: t.dir, Inputs: inputs, DraftSteps: t.draftSteps(), Determinism: t.determinism(),
		Handle: t.handle(), Traceparent: tracing.Parent(t.rendering),
	}
	if job.Prompt != nil {
		order.Prompt = *job.Prompt
	}
	for _, c := range checkpoints {
		order.Checkpoints = append(order.Checkpoints, runtime.Restorable{Path: c.path, Step: c.note.Step})
	}
	return order
}

// orCause returns the cause of ctx's end, or err if ctx has not ended.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watch is the state of one render, updated from its runtime's messages. Only the
// goroutine of follow uses it.
type watch struct {
	*attempt
	process     host.Process
	checkpoints []restorable
	saver       *saver
	previews    *previewer
	handles     *keeper
	// reports are calls made in the background, such as the rejection of a checkpoint
	// that did not restore. unused lists the checkpoints that the runtime has neither
	// resumed from nor rejected.
	reports sync.WaitGroup
	unused  []restorable
	// asked is when the runtime was asked for a checkpoint that has not come yet, or
	// zero.
	asked   time.Time
	release bool
	yield   yielding
}

// follow waits for the end of the render. Until then it asks for checkpoints, at the
// lease's interval and when a notice arrives.
func (t *attempt) follow(p host.Process, checkpoints []restorable) (*runtime.Result, error) {
	t.logs.follow(p)
	ctx, stop := context.WithCancel(t.rendering)
	w := &watch{
		attempt: t, process: p, checkpoints: checkpoints, unused: checkpoints,
		saver: newSaver(ctx, t), previews: newPreviewer(ctx, t.uploader), handles: newKeeper(ctx, t.attemptLease, t.handle()),
	}
	// Bad checkpoints are reported before the attempt ends.
	defer func() { stop(); w.saver.wait(); w.previews.wait(); w.handles.wait(); w.reports.Wait() }()

	result, err := w.run(ctx)
	_, failed := errors.AsType[*runtime.Failure](err)
	w.saveLast(ctx, failed)
	t.adopted = w.handles.last
	if err == nil && t.draftSteps() > 0 {
		result, err = w.endDraft(ctx, result)
	}
	if errors.Is(err, errRelease) {
		// The agent is leaving, so no other job needs the runtime.
		t.worker.runtimes.Kill()
	}
	t.worker.runtimes.Settle(err)
	return result, err
}

func (w *watch) run(ctx context.Context) (*runtime.Result, error) {
	config := w.worker.config
	silence := time.NewTimer(config.HangTimeout)
	defer silence.Stop()
	pace := time.NewTicker(max(time.Second, time.Duration(w.lease.CheckpointSeconds*float64(time.Second))))
	defer pace.Stop()
	urgent := w.worker.going.urgent
	for {
		select {
		case <-ctx.Done():
			cause := context.Cause(ctx)
			_, failed := errors.AsType[*runtime.Failure](cause)
			w.worker.runtimes.Halt(config.StopGrace, !failed && !errors.Is(cause, errCancelled))
			return nil, cause
		case <-w.worker.going.over:
			return nil, errRelease
		case <-silence.C:
			return nil, runtime.Failf(runtime.Timeout, "the render showed no progress for %s", config.HangTimeout)
		case <-pace.C:
			w.askCheckpoint()
		case <-w.giveWay:
			w.askToYield()
		case <-urgent:
			urgent = nil
			w.release = true
			w.handles.hasten()
			w.askCheckpoint()
		case err := <-w.saver.saved:
			w.saver.done(err)
		case err := <-w.handles.stored:
			if w.handles.done(err) {
				// If the process has ended, its messages say so.
				_ = w.process.Stored()
			}
		case <-w.previews.sent:
			w.previews.done()
		case message, ok := <-w.process.Messages():
			if !ok {
				return nil, w.process.Wait()
			}
			if _, answer := message.(*runtime.Checkpoint); !answer { // an answer, not progress
				silence.Reset(config.HangTimeout)
			}
			if result, err := w.handle(message); result != nil || err != nil {
				return result, err
			}
		}
		if w.release && w.asked.IsZero() && !w.saver.busy && !w.handles.busy {
			return nil, errRelease
		}
		if w.gaveWay() {
			w.worker.runtimes.Halt(config.StopGrace, true)
			return nil, errGaveWay
		}
	}
}

// lastSave is how long an attempt that ends waits for what is being saved.
const lastSave = time.Minute

// saveLast reports from where the job resumed, and waits for the handle that is being stored, and after a failure also for the
// checkpoint that is being saved, before the end is reported, so that the next attempt can go
// on from them.
func (w *watch) saveLast(ctx context.Context, failed bool) {
	w.handles.hasten()
	w.progress.flush(ctx)
	limit := time.NewTimer(lastSave)
	defer limit.Stop()
	for w.handles.busy || failed && w.saver.busy {
		select {
		case err := <-w.handles.stored:
			w.handles.done(err)
		case err := <-w.saver.saved:
			w.saver.done(err)
		case <-limit.C:
			return
		case <-w.worker.going.over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// askCheckpoint asks for a checkpoint unless one was asked for or is being saved.
// Before the job leaves this worker, a checkpoint that is being saved is not new enough.
func (w *watch) askCheckpoint() {
	if !w.asked.IsZero() || w.saver.busy && !w.release && !w.yield.open {
		return
	}
	// If the process has ended, its messages say so.
	if w.process.Checkpoint() == nil {
		w.asked = time.Now()
	}
}

// handle handles one message. A result or an error ends the render.
func (w *watch) handle(message runtime.Message) (*runtime.Result, error) {
	switch m := message.(type) {
	case *runtime.Progress:
		w.progress.runtime(m)
	case *runtime.Checkpoint:
		var cost time.Duration
		if !w.asked.IsZero() {
			cost = time.Since(w.asked)
		}
		w.asked = time.Time{}
		if m.Path != "" {
			w.saver.put(&taken{m, cost, time.Now()})
		}
		if w.release { // the runtime is done: upload its log together with the checkpoint
			text := w.worker.lastWords()
			w.reports.Go(func() { w.keepLog(text) })
		}
	case *runtime.Resumed:
		from, err := find(w.checkpoints, m.Path)
		if err != nil {
			return nil, runtime.Failf(runtime.ModelCrash, "%s", err)
		}
		w.log.Info("job resumed", "checkpoint", from.artifact.Id, "step", m.Step, "note", m.Note)
		w.progress.resumed(from.artifact.Id, from.note.Percent, m.Note)
		w.unused = []restorable{from}
	case *runtime.CheckpointRejected:
		bad, err := find(w.checkpoints, m.Path)
		if err != nil {
			return nil, runtime.Failf(runtime.ModelCrash, "%s", err)
		}
		w.disuse(bad, m.Reason)
	case *runtime.Preview:
		w.previews.put(m)
	case *runtime.Metrics:
		w.log.Debug("the runtime's metrics", "gpuMemoryBytes", m.GPUMemoryBytes, "stepSeconds", m.StepSeconds)
	case *runtime.Handle:
		w.handles.put(m)
	case *runtime.Result:
		return m, nil
	case *runtime.Failure:
		if m.Class == runtime.CheckpointCorrupt && len(w.unused) > 0 {
			w.disuse(w.unused[0], m.Message)
		}
		return nil, host.Diagnose(m)
	default:
		return nil, runtime.Failf(runtime.ModelCrash, "the runtime sent %T during a job, where it is not allowed", m)
	}
	return nil, nil
}

// disuse reports in the background that a checkpoint did not restore.
func (w *watch) disuse(bad restorable, reason string) {
	w.unused = slices.DeleteFunc(slices.Clone(w.unused), func(r restorable) bool { return r.path == bad.path })
	reason = w.worker.secrets.Clean(reason)
	w.log.Warn("a checkpoint did not restore", "checkpoint", bad.artifact.Id, "reason", reason)
	w.reports.Go(func() {
		ctx, stop := until(w.rendering, w.worker.going.over, errRelease)
		defer stop()
		if err := w.rejectCheckpoint(ctx, bad.artifact.Id, reason); err != nil && ctx.Err() == nil {
			w.log.Warn("a checkpoint could not be rejected", "checkpoint", bad.artifact.Id, "error", err)
		}
	})
}

// describe turns any error of a render into the failure that the control plane
// records.
func describe(err error) *runtime.Failure {
	if failure := fullDisk(err); failure != nil {
		return failure
	}
	if failure, ok := errors.AsType[*runtime.Failure](err); ok {
		return failure
	}
	return runtime.Failf(runtime.Transient, "the worker could not go on: %s", err)
}
