package testcard

import (
	"context"
	"io"
	"os/exec"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
)

// Name is the model that this runtime serves.
const Name = "testcard"

// Run serves an agent, one job at a time, until the agent sends shutdown or in
// ends. It returns an error if the agent breaks the protocol or the pipes fail.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ready := runtime.Ready{Runtime: "testcard 1", Models: runtime.Offers(Name)}
	return runtime.Serve(ctx, in, out, ready, model{})
}

// model is the Handler. It keeps nothing between jobs.
type model struct{}

// Load only looks for ffmpeg, so that a missing one is reported before a render.
func (model) Load(_ context.Context, asked runtime.Model) error {
	if asked.Name != Name {
		return runtime.Failf(runtime.InvalidInput, "This runtime only has the model %q, not %q.", Name, asked.Name)
	}
	_, err := findFFmpeg()
	return err
}

// Render makes the video, its stills, and the output, which describes the video.
func (m model) Render(ctx context.Context, job *runtime.Job) (runtime.Result, error) {
	if err := m.Load(ctx, runtime.Model{Name: job.Model}); err != nil {
		return runtime.Result{}, err
	}
	video, err := parseVideo(job.Prompt, job.Params)
	if err != nil {
		return runtime.Result{}, runtime.Failf(runtime.InvalidInput, "%v.", err)
	}
	if video.begins {
		if video.picture, err = readBackdrop(ctx, job.Inputs["referenceImage"], video.width, video.height); err != nil {
			return runtime.Result{}, runtime.Failf(runtime.InvalidInput, "The picture of referenceImage cannot be used: %v.", err)
		}
	}
	r := &render{job: job, video: video, began: time.Now()}
	r.state = r.restore()
	r.first = r.state.step
	if err := r.denoise(ctx); err != nil {
		return runtime.Result{}, err
	}
	if job.DraftSteps > 0 {
		return r.draft(ctx)
	}
	return r.encode(ctx)
}

// findFFmpeg reports a missing ffmpeg as MODEL_CRASH: the model cannot run on this
// host, but the job can be retried on another.
func findFFmpeg() (string, error) {
	path, err := exec.LookPath("ffmpeg")
	if err != nil {
		return "", runtime.Failf(runtime.ModelCrash,
			"ffmpeg was not found on this host (%v). Install it: apt-get install ffmpeg, or brew install ffmpeg.", err)
	}
	return path, nil
}
