package testcard

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
)

// Where the phases begin and end, in percent.
const (
	renderedPercent = 90
	encodedPercent  = 99
)

// render is the state of one job.
type render struct {
	job        *runtime.Job
	video      video
	state      *latents
	first      int // the step at which this attempt began
	files      int // checkpoints written
	began      time.Time
	previewDue time.Time // when the next preview may be made
}

// restore returns the state in the newest checkpoint that can be restored, or new
// latents if there is none.
func (r *render) restore() *latents {
	for _, given := range r.job.Checkpoints {
		state, err := readCheckpoint(given.Path, r.video)
		if err != nil {
			r.job.Reject(given, err)
			continue
		}
		r.job.Resumed(given, state.step)
		percent := percentAt(state)
		r.job.Progress(runtime.Progress{
			Percent: percent, Phase: runtime.PhaseResuming, Step: state.step, TotalSteps: state.steps,
			Message: fmt.Sprintf("resuming from checkpoint at %.0f %%", percent),
		})
		return state
	}
	return newLatents(r.video)
}

func percentAt(l *latents) float64 { return renderedPercent * float64(l.step) / float64(l.steps) }

// denoise does the remaining steps, of a draft those up to its last. Each step has its own due time, counted from
// the beginning, so that a slow step does not delay the later ones.
func (r *render) denoise(ctx context.Context) error {
	each := time.Duration(r.video.pace * r.video.seconds() / float64(r.state.steps) * float64(time.Second))
	last := r.state.steps
	if r.job.DraftSteps > 0 {
		last = min(r.job.DraftSteps, last)
	}
	for r.state.step < last {
		done := r.state.step - r.first
		if err := r.answerUntil(ctx, time.NewTimer(time.Until(r.began.Add(each*time.Duration(done+1)))).C); err != nil {
			return err
		}
		r.state.advance()
		r.job.Progress(runtime.Progress{
			Percent: percentAt(r.state), Phase: runtime.PhaseRendering,
			Message: fmt.Sprintf("denoising, step %d of %d", r.state.step, r.state.steps),
			Step:    r.state.step, TotalSteps: r.state.steps,
			ETASeconds: eta(r.began, done+1, last-r.state.step),
		})
		r.preview()
	}
	return nil
}

// eta returns how many seconds left steps take, given that done steps took the time
// since began.
func eta(began time.Time, done, left int) float64 {
	return time.Since(began).Seconds() / float64(done) * float64(left)
}

// encodingETA is eta for the encoding. It returns 0, for unknown, during the first
// frames, whose time includes the start of the encoder.
func encodingETA(began time.Time, frames, of int) float64 {
	if 10*frames < of {
		return 0
	}
	return eta(began, frames, of-frames)
}

// answerUntil answers the agent's requests for a checkpoint until the timer fires
// or the job is cancelled.
func (r *render) answerUntil(ctx context.Context, timer <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.job.CheckpointAsked:
			r.checkpoint()
		case <-timer:
			return nil
		}
	}
}

// checkpoint writes a checkpoint and reports it. If the file cannot be written, the
// render continues: the answer is an empty checkpoint, and the log says why.
func (r *render) checkpoint() {
	answer := runtime.Checkpoint{Step: r.state.step, Percent: percentAt(r.state)}
	if r.state.step > 0 {
		// the agent may still be uploading an earlier file of the same step
		r.files++
		path := filepath.Join(r.job.Workdir, fmt.Sprintf("step-%06d-%d.checkpoint", r.state.step, r.files))
		content, err := encodeCheckpoint(r.video, r.state)
		if err == nil {
			err = writeCheckpoint(path, content)
		}
		if err != nil {
			r.job.Log("error", fmt.Sprintf("no checkpoint at step %d: %v", r.state.step, err))
		} else {
			answer.Path = path
			answer.Info = json.RawMessage(fmt.Sprintf(`{"format":"testcard","version":%d}`, checkpointVersion))
		}
	}
	r.job.Checkpoint(answer)
}

// encode makes the files. Meanwhile it answers requests for a checkpoint with the
// last step.
func (r *render) encode(ctx context.Context) (runtime.Result, error) {
	type outcome struct {
		result runtime.Result
		err    error
	}
	encoded := make(chan outcome, 1)
	go func() {
		result, err := r.write(ctx)
		encoded <- outcome{result, err}
	}()
	for {
		select {
		case <-r.job.CheckpointAsked:
			r.checkpoint()
		case done := <-encoded:
			return done.result, done.err
		}
	}
}

// write encodes the video, its thumbnail and its spritesheet.
func (r *render) write(ctx context.Context) (runtime.Result, error) {
	to := filesIn(r.job.Workdir)
	began := time.Now()
	card, err := newCard(r.video, r.state)
	if err != nil {
		return runtime.Result{}, err
	}
	encoder, err := startEncoder(ctx, r.video, to)
	if err != nil {
		return runtime.Result{}, err
	}
	for frame := range r.video.frames {
		if err := encoder.write(card.paint(frame)); err != nil {
			return runtime.Result{}, err
		}
		r.reportFrame(began, frame+1)
	}
	if err := encoder.finish(); err != nil {
		return runtime.Result{}, err
	}
	output, err := json.Marshal(map[string]any{
		"width": r.video.width, "height": r.video.height, "fps": r.video.fps, "frames": r.video.frames,
		"durationSeconds": r.video.seconds(), "seed": r.video.seed, "steps": r.state.steps,
	})
	return runtime.Result{Video: to.video, Thumbnail: to.thumbnail, Spritesheet: to.spritesheet, Output: output}, err
}

func (r *render) reportFrame(began time.Time, frames int) {
	r.job.Progress(runtime.Progress{
		Percent: renderedPercent + (encodedPercent-renderedPercent)*float64(frames)/float64(r.video.frames),
		Phase:   runtime.PhaseEncoding,
		Message: fmt.Sprintf("encoding, frame %d of %d", frames, r.video.frames),
		Step:    r.state.step, TotalSteps: r.state.steps,
		Frame: frames, TotalFrames: r.video.frames,
		ETASeconds: encodingETA(began, frames, r.video.frames),
	})
}
