package runtime_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

// model is a Handler that does what the prompt says.
type model struct{}

func (model) Load(_ context.Context, asked runtime.Model) error {
	if asked.Name != "m" {
		return runtime.Failf(runtime.InvalidInput, "There is no model %q.", asked.Name)
	}
	return nil
}

func (model) Render(ctx context.Context, job *runtime.Job) (runtime.Result, error) {
	switch job.Prompt {
	case "fail":
		return runtime.Result{}, runtime.Failf(runtime.OutOfMemory, "The GPU's memory is too small.")
	case "break":
		return runtime.Result{}, errors.New(strings.Repeat("é", 4000))
	case "wait":
		for {
			select {
			case <-ctx.Done():
				return runtime.Result{}, ctx.Err()
			case <-job.CheckpointAsked:
				job.Checkpoint(runtime.Checkpoint{Path: filepath.Join(job.Workdir, "c"), Step: 3, Percent: 30})
			}
		}
	}
	for n, given := range job.Checkpoints {
		if n == 0 {
			job.Reject(given, errors.New("torn"))
			continue
		}
		job.Resumed(given, given.Step)
	}
	for step := range 100 {
		job.Progress(runtime.Progress{Phase: runtime.PhaseRendering, Step: step})
	}
	job.Log("info", "done")
	return runtime.Result{Video: filepath.Join(job.Workdir, "v.mp4")}, nil
}

func TestServe(t *testing.T) {
	t.Parallel()

	t.Run("ServesManyJobsHoweverTheyEnd", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "serve")
		do := func(prompt string) runtime.Message {
			require.NoError(t, p.Start(runtime.Start{Model: "m", Workdir: "/work", Prompt: prompt}))
			if prompt == "wait" {
				require.NoError(t, p.Checkpoint())
				checkpoint, _ := next(t, p)
				require.Equal(t, &runtime.Checkpoint{Path: "/work/c", Step: 3, Percent: 30}, checkpoint)
				require.NoError(t, p.Cancel(false))
			}
			message, open := next(t, p)
			require.True(t, open, p.Tail())
			return message
		}

		require.Equal(t, &runtime.Failure{Class: runtime.OutOfMemory, Message: "The GPU's memory is too small."}, do("fail"))
		require.Equal(t, &runtime.Cancelled{}, do("wait"))
		broken := do("break").(*runtime.Failure)
		require.Equal(t, runtime.ModelCrash, broken.Class)
		require.LessOrEqual(t, len(broken.Message), 2000)
		require.Equal(t, &runtime.Cancelled{}, do("wait"))
	})

	t.Run("LoadsAModel", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "serve")

		require.NoError(t, p.Load(runtime.Model{Name: "m"}))
		message, _ := next(t, p)
		require.Equal(t, &runtime.Loaded{Model: "m"}, message)

		require.NoError(t, p.Load(runtime.Model{Name: "x"}))
		message, _ = next(t, p)
		require.Equal(t, &runtime.Failure{Class: runtime.InvalidInput, Message: `There is no model "x".`}, message)
	})

	t.Run("ReportsCheckpointsInOrder", func(t *testing.T) {
		t.Parallel()

		p := launch(t, "serve")
		given := []runtime.Restorable{{Path: "/in/b", Step: 20}, {Path: "/in/a", Step: 10}}
		require.NoError(t, p.Start(runtime.Start{Model: "m", Workdir: "/work", Checkpoints: given}))

		first, _ := next(t, p)
		second, _ := next(t, p)

		require.Equal(t, &runtime.CheckpointRejected{Path: "/in/b", Reason: "torn"}, first)
		require.Equal(t, &runtime.Resumed{Path: "/in/a", Step: 10}, second)
	})

	t.Run("CancelsTheJobWhenItsInputEnds", func(t *testing.T) {
		t.Parallel()

		in := strings.NewReader(`{"start":{"job":"job_1","model":"m","prompt":"wait","workdir":"/work"}}` + "\n" + `{"half`)
		var out strings.Builder

		err := runtime.Serve(t.Context(), in, &out, runtime.Ready{Models: runtime.Offers("m")}, model{})

		require.NoError(t, err)
		require.True(t, strings.HasSuffix(out.String(), `{"cancelled":{}}`+"\n"), out.String())
	})

	t.Run("FailsOnInvalidCommands", func(t *testing.T) {
		t.Parallel()

		for _, line := range []string{"hello", `{"dance":{}}`} {
			err := runtime.Serve(t.Context(), strings.NewReader(line+"\n"), io.Discard, runtime.Ready{}, model{})

			require.ErrorContains(t, err, "serve the agent: a command")
		}
	})
}
