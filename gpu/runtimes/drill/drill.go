// Package drill is a runtime that simulates a render: it takes steps, writes
// checkpoints and produces a small file. It needs so little CPU and memory that a
// laptop can run a fleet of it. It is used in drills, soaks and load tests.
//
// Its output is predictable: [Video] is a pure function of prompt, seed and steps,
// computed as a chain of hashes with one link per step. However often a job is
// interrupted, it must deliver exactly this file. It cannot do so if a step was
// skipped, repeated or mixed up.
//
// Parameters can make it misbehave as models do: crash, hang, or run out of memory.
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

// Run serves an agent, one job at a time, until the agent sends shutdown or in
// ends. It returns an error if the agent breaks the protocol or the pipes fail.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ready := runtime.Ready{Runtime: "drill 1", Models: runtime.Offers(Name)}
	return runtime.Serve(ctx, in, out, ready, model{})
}

// model is the Handler. It keeps nothing between jobs.
type model struct{}

// Load only checks the model's name.
func (model) Load(_ context.Context, asked runtime.Model) error {
	if asked.Name != Name {
		return runtime.Failf(runtime.InvalidInput, "This runtime only has the model %q, not %q.", Name, asked.Name)
	}
	return nil
}

// Render resumes from the newest checkpoint that it can restore, takes the
// remaining steps, and writes the video.
func (m model) Render(ctx context.Context, job *runtime.Job) (runtime.Result, error) {
	if err := m.Load(ctx, runtime.Model{Name: job.Model}); err != nil {
		return runtime.Result{}, err
	}
	params, err := parseParams(job.Params)
	if err != nil {
		return runtime.Result{}, runtime.Failf(runtime.InvalidInput, "%v.", err)
	}
	r := &render{job: job, params: params, first: begin(job.Prompt, params)}
	r.state = r.restore()
	last := params.Steps
	if job.DraftSteps > 0 {
		last = min(job.DraftSteps, last)
	}
	for r.state.step < last {
		if err := r.step(ctx); err != nil {
			return runtime.Result{}, err
		}
	}
	if job.DraftSteps > 0 {
		r.checkpoint()
		preview := filepath.Join(job.Workdir, "draft.png")
		return runtime.Result{Preview: preview}, r.state.draw(preview)
	}
	video := filepath.Join(job.Workdir, "video.mp4")
	return runtime.Result{Video: video}, os.WriteFile(video, r.state.video(), 0o600)
}

// render is the state of one job.
type render struct {
	job    *runtime.Job
	params params
	first  state // before the first step
	state  state
	files  int // checkpoints written, to give each file its own name
}

// restore returns the state in the newest checkpoint that can be restored, or the
// first state if there is none.
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

// step takes one step. While it waits, it answers the agent's requests for a
// checkpoint.
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

// checkpoint writes a checkpoint and reports it. If the file cannot be written,
// the render continues.
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

// misbehave does what the params ask for. It returns nil if they ask for nothing
// at this step.
func (r *render) misbehave() error {
	switch r.params.Misbehave {
	case crash:
		// Like a fault in a model's native code: the whole process ends at once,
		// with the status that a shell would show.
		fmt.Fprintf(os.Stderr, "drill: crashing at step %d, as requested\n", r.state.step)
		os.Exit(128 + int(syscall.SIGSEGV))
	case hang:
		select {} // ignores even a cancel, as a driver can: only a kill ends it
	case outOfMemory:
		return runtime.Failf(runtime.OutOfMemory, "The simulated render ran out of GPU memory at step %d, as requested.", r.state.step)
	}
	return nil
}
