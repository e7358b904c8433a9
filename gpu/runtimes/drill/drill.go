// Package drill is a runtime that rehearses a render: it takes steps, writes
// checkpoints and leaves a small file, and costs next to nothing, so that a
// laptop can hold a fleet of it. It is for drills, soaks and load tests.
//
// What it makes is known beforehand: [Film] is a pure function of prompt, seed
// and steps, through a chain of hashes with one link per step. A job that was
// interrupted any number of times must deliver just that file; one that skipped,
// repeated or mixed up a step cannot.
//
// It can be told to misbehave, as models do: to crash, to hang, to run out of
// memory.
package drill

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
)

// Name is the model that this runtime serves.
const Name = "drill"

// Run serves an agent, one job after the other, until it is told to shut down or
// in ends. It returns an error if the agent breaks the protocol or the pipes fail.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ready := runtime.Ready{Runtime: "drill 1", Models: []string{Name}}
	return runtime.Serve(ctx, in, out, ready, model{})
}

// model is the Handler. It keeps nothing between jobs.
type model struct{}

// Load has nothing to bring into memory.
func (model) Load(_ context.Context, name string) error {
	if name != Name {
		return runtime.Failf(runtime.InvalidInput, "This runtime has the model %q and no model %q.", Name, name)
	}
	return nil
}

// Render takes the steps that are left since the newest checkpoint that can be
// restored, and writes the film.
func (m model) Render(ctx context.Context, job *runtime.Job) (runtime.Result, error) {
	if err := m.Load(ctx, job.Model); err != nil {
		return runtime.Result{}, err
	}
	params, err := parseParams(job.Params)
	if err != nil {
		return runtime.Result{}, runtime.Failf(runtime.InvalidInput, "%v.", err)
	}
	r := &render{job: job, params: params, first: begin(job.Prompt, params)}
	r.state = r.restore()
	for r.state.step < params.Steps {
		if err := r.step(ctx); err != nil {
			return runtime.Result{}, err
		}
	}
	film := filepath.Join(job.Workdir, "film.mp4")
	return runtime.Result{Video: film}, os.WriteFile(film, r.state.film(), 0o600)
}

// render is one job on its way.
type render struct {
	job    *runtime.Job
	params params
	first  state // before the first step
	state  state
	files  int // checkpoints written: each has a name of its own
}

// restore takes the newest checkpoint that can be restored, or starts afresh.
func (r *render) restore() state {
	for _, given := range r.job.Checkpoints {
		restored, err := readCheckpoint(given.Path, r.first, r.params.Steps)
		if err != nil {
			r.job.Reject(given, err)
			continue
		}
		r.job.Resumed(given, restored.step)
		r.job.Progress(r.progress(restored, runtime.PhaseResuming))
		return restored
	}
	return r.first
}

// step takes its time, and answers the agent's asks for a checkpoint meanwhile.
func (r *render) step(ctx context.Context) error {
	if r.state.step == r.params.MisbehaveAt {
		if err := r.misbehave(); err != nil {
			return err
		}
	}
	timer := time.NewTimer(time.Duration(r.params.StepMillis) * time.Millisecond)
	defer timer.Stop()
	for taken := false; !taken; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.job.CheckpointAsked:
			r.checkpoint()
		case <-timer.C:
			taken = true
		}
	}
	r.state = r.state.next()
	r.job.Progress(r.progress(r.state, runtime.PhaseRendering))
	if every := r.params.CheckpointEvery; every > 0 && r.state.step%every == 0 && r.state.step < r.params.Steps {
		r.checkpoint()
	}
	return nil
}

func (r *render) progress(at state, phase runtime.Phase) runtime.Progress {
	return runtime.Progress{
		Percent: r.percent(at), Phase: phase, Step: at.step, TotalSteps: r.params.Steps,
		Message: fmt.Sprintf("rehearsing, step %d of %d", at.step, r.params.Steps),
	}
}

func (r *render) percent(at state) float64 { return 100 * float64(at.step) / float64(r.params.Steps) }

// checkpoint answers with a file. One that cannot be written costs no render.
func (r *render) checkpoint() {
	answer := runtime.Checkpoint{Step: r.state.step, Percent: r.percent(r.state)}
	if r.state.step > 0 {
		r.files++
		path := filepath.Join(r.job.Workdir, fmt.Sprintf("%06d.checkpoint", r.files))
		if err := os.WriteFile(path, r.state.checkpoint(r.first), 0o600); err != nil {
			r.job.Log("error", fmt.Sprintf("no checkpoint at step %d: %v", r.state.step, err))
		} else {
			answer.Path = path
		}
	}
	r.job.Checkpoint(answer)
}

// misbehave does what the params ask for. It returns, without an error, only if
// that is nothing.
func (r *render) misbehave() error {
	switch r.params.Misbehave {
	case crash:
		// As a fault in a model's native code: the whole process goes at once,
		// with the status that a shell shows for it.
		fmt.Fprintf(os.Stderr, "drill: crashing at step %d, as it was told to\n", r.state.step)
		os.Exit(128 + int(syscall.SIGSEGV))
	case hang:
		select {} // deaf even to a cancel, as a driver can be: only a kill ends it
	case outOfMemory:
		return runtime.Failf(runtime.OutOfMemory, "The rehearsed render ran out of GPU memory at step %d, as it was told to.", r.state.step)
	}
	return nil
}
