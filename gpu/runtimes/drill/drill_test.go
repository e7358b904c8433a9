package drill_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/drill"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// asRuntime is an environment variable that makes this test binary a drill.
const asRuntime = "REELAY_TEST_AS_DRILL"

func TestMain(m *testing.M) {
	if os.Getenv(asRuntime) != "" {
		if err := drill.Run(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testrun.Main(m.Run)
}

func launch(t *testing.T) *runtime.Process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := runtime.Launch(t.Context(), runtime.Config{Command: []string{self}, Env: append(os.Environ(), asRuntime+"=1")})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

func newJob(t *testing.T, params string, checkpoints ...runtime.Restorable) runtime.Start {
	t.Helper()
	return runtime.Start{
		Job: "job_1", Model: drill.Name, Type: "video.generate", Prompt: "a calm sea", Params: []byte(params),
		Workdir: t.TempDir(), Checkpoints: checkpoints,
	}
}

// until reads messages and returns the first of type M.
func until[M runtime.Message](t *testing.T, p *runtime.Process) M {
	t.Helper()
	limit := time.After(testrun.WaitLimit)
	for {
		select {
		case message, open := <-p.Messages():
			require.True(t, open, "the runtime ended: %v", p.Tail())
			if m, ok := message.(M); ok {
				return m
			}
		case <-limit:
			require.Fail(t, "the runtime says nothing more", p.Tail())
		}
	}
}

func readVideo(t *testing.T, p *runtime.Process) []byte {
	t.Helper()
	video, err := os.ReadFile(until[*runtime.Result](t, p).Video)
	require.NoError(t, err)
	return video
}

// interrupted returns a checkpoint of a render of 50 steps.
func interrupted(t *testing.T) runtime.Restorable {
	t.Helper()
	p := launch(t)
	require.NoError(t, p.Start(newJob(t, `{"steps": 50, "stepMillis": 5, "seed": 7, "checkpointEvery": 10}`)))
	taken := until[*runtime.Checkpoint](t, p)
	p.Kill()
	return runtime.Restorable{Path: taken.Path, Step: taken.Step}
}

const again = `{"steps": 50, "stepMillis": 0, "seed": 7}`

func TestDrill(t *testing.T) {
	t.Parallel()

	t.Run("ContinuesADraft", func(t *testing.T) {
		t.Parallel()
		p := launch(t)
		draft := newJob(t, again)
		draft.DraftSteps = 10
		require.NoError(t, p.Start(draft))
		taken := until[*runtime.Checkpoint](t, p)
		result := until[*runtime.Result](t, p)
		require.Equal(t, 10, taken.Step)
		require.Empty(t, result.Video)
		require.FileExists(t, result.Preview)

		require.NoError(t, p.Start(newJob(t, again, runtime.Restorable{Path: taken.Path, Step: taken.Step})))
		require.Equal(t, 10, until[*runtime.Resumed](t, p).Step)
		continued := readVideo(t, p)
		require.NoError(t, p.Start(newJob(t, again)))
		require.Equal(t, readVideo(t, p), continued)
	})

	t.Run("MakesThePredictedVideo", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		require.NoError(t, p.Start(newJob(t, again)))

		require.Equal(t, drill.Video("a calm sea", 7, 50), readVideo(t, p))
		require.NotEqual(t, drill.Video("a calm sea", 7, 50), drill.Video("a calm sea", 8, 50))
		require.NotEqual(t, drill.Video("a calm sea", 7, 50), drill.Video("a calm sea", 7, 51))
	})

	t.Run("MakesTheSameVideoFromACheckpoint", func(t *testing.T) {
		t.Parallel()

		from := interrupted(t)
		p := launch(t)
		require.NoError(t, p.Start(newJob(t, again, from)))

		resumed := until[*runtime.Resumed](t, p)

		require.Equal(t, 10, resumed.Step)
		require.Equal(t, drill.Video("a calm sea", 7, 50), readVideo(t, p))
	})

	t.Run("RejectsADamagedCheckpoint", func(t *testing.T) {
		t.Parallel()

		from := interrupted(t)
		content, err := os.ReadFile(from.Path)
		require.NoError(t, err)
		content[len(content)/2] ^= 1
		require.NoError(t, os.WriteFile(from.Path, content, 0o600))
		p := launch(t)
		require.NoError(t, p.Start(newJob(t, again, from)))

		rejected := until[*runtime.CheckpointRejected](t, p)

		require.Contains(t, rejected.Reason, "checksum")
		require.Equal(t, drill.Video("a calm sea", 7, 50), readVideo(t, p))
	})

	t.Run("RejectsTheCheckpointOfAnotherJob", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		require.NoError(t, p.Start(newJob(t, `{"steps": 50, "stepMillis": 0, "seed": 8}`, interrupted(t))))

		rejected := until[*runtime.CheckpointRejected](t, p)

		require.Contains(t, rejected.Reason, "another video")
		require.Equal(t, drill.Video("a calm sea", 8, 50), readVideo(t, p))
	})

	t.Run("CrashesOnRequest", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		require.NoError(t, p.Start(newJob(t, `{"misbehave": "crash", "misbehaveAt": 1, "stepMillis": 0}`)))

		var failure *runtime.Failure
		require.ErrorAs(t, p.Wait(), &failure)

		require.Equal(t, runtime.ModelCrash, failure.Class)
	})

	t.Run("RunsOutOfMemoryOnRequest", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		require.NoError(t, p.Start(newJob(t, `{"misbehave": "oom", "misbehaveAt": 1, "stepMillis": 0}`)))

		require.Equal(t, runtime.OutOfMemory, until[*runtime.Failure](t, p).Class)
	})

	t.Run("RefusesUnknownParameters", func(t *testing.T) {
		t.Parallel()

		for _, params := range []string{`{"steps": 0}`, `{"steps": 100001}`, `{"stepMillis": -1}`, `{"colour": "red"}`, `[]`} {
			p := launch(t)
			require.NoError(t, p.Start(newJob(t, params)))

			require.Equal(t, runtime.InvalidInput, until[*runtime.Failure](t, p).Class, params)
		}
	})
}
