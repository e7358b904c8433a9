package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtimes/diffusers"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// tinyLTX starts a stack with two workers that render with LTX-Video, with tiny random weights
// and on the CPU. It skips the test unless REELAY_TEST_DIFFUSERS is set, as by
// `go tool task test:diffusers`: torch needs 7 GB.
func tinyLTX(t *testing.T) *stack {
	t.Helper()
	if os.Getenv("REELAY_TEST_DIFFUSERS") == "" {
		t.Skip("it needs torch: `go tool task test:diffusers` fetches it")
	}
	runtimes, err := filepath.Abs("../gpu/runtimes")
	require.NoError(t, err)
	python := filepath.Join(runtimes, "diffusers", ".venv", "bin", "python")
	env := []string{
		"PYTHONPATH=" + filepath.Join(runtimes, "python") + ":" + filepath.Join(runtimes, "diffusers"),
		"PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1",
	}
	folder := t.TempDir()
	weights := filepath.Join(folder, "weights")
	tiny := exec.Command(python, "-m", "reelay_diffusers.tiny", weights, "--pipeline", "LTXPipeline")
	tiny.Env = append(os.Environ(), env...)
	out, err := tiny.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "models.yaml"), diffusers.TinyModels(weights), 0o600))
	s, err := launchWith(append(env, "REELAY_MODELS="+folder), dataDir(t),
		"--agents", "2", "--models", "tiny-ltx", "--runtime", "diffusers="+python+" -m reelay_diffusers")
	require.NoError(t, err)
	t.Cleanup(s.end)
	return s
}

// TestDiffusers renders with a real pipeline. Its parts share the stack, one after the other.
func TestDiffusers(t *testing.T) {
	t.Parallel()
	s := tinyLTX(t)
	c := s.client(t)

	t.Run("MakesOneVideoOfEightDrafts", func(t *testing.T) {
		const takes, draftSteps, steps, firstSeed, pick = 8, 9, 48, 40, 5
		params := func(seed int) string {
			return fmt.Sprintf(`{"durationSeconds": 2, "size": "512x256", "steps": %d, "seed": %d}`, steps, seed)
		}
		// Both workers load the model before anything is measured.
		for _, id := range []string{submitTiny(t, c, `{"seed": 1}`), submitTiny(t, c, `{"seed": 2}`)} {
			until(t, c, id, completed)
		}
		made, err := c.SubmitTakes(t.Context(), client.SubmitJobInput{
			Model: "tiny-ltx", Prompt: new(tinyPrompt), Params: raw(params(firstSeed)), Draft: &client.DraftInput{Steps: draftSteps},
		}, takes, nil)
		require.NoError(t, err)
		var drafts, videos cost
		for _, take := range made.Results {
			drafts.add(t, c, take.Job.Id)
		}
		require.Equal(t, takes*draftSteps, drafts.steps)

		continued, err := c.ContinueJob(t.Context(), made.Results[pick].Job.Id)
		require.NoError(t, err)
		accepted := drafts.add(t, c, continued.Job.Id)
		var whole [takes]string
		for i := range whole {
			whole[i] = submitTiny(t, c, params(firstSeed+i))
		}
		var same *client.JobHistory
		for i, id := range whole {
			if video := videos.add(t, c, id); i == pick {
				same = video
			}
		}

		require.Equal(t, new(draftSteps), accepted.Attempts[0].ResumedFromStep)
		require.Equal(t, same.Result.Checksum, accepted.Result.Checksum, "the bytes of an undisturbed render")
		require.Equal(t, takes*steps, videos.steps)
		share := float64(drafts.steps) / float64(videos.steps)
		t.Logf("%d steps instead of %d: %.3f; %.1f GPU seconds instead of %.1f: %.3f",
			drafts.steps, videos.steps, share, drafts.seconds, videos.seconds, drafts.seconds/videos.seconds)
		require.LessOrEqual(t, share, 0.35)
	})

	t.Run("ResumesWithinDenoisingAfterAKill", func(t *testing.T) {
		const steps = 500 // long enough for a checkpoint, which is saved after 30 s
		scene := fmt.Sprintf(`{"durationSeconds": 4, "size": "512x256", "steps": %d, "seed": 7}`, steps)
		undisturbed, disturbed := submitTiny(t, c, scene), submitTiny(t, c, scene)
		until(t, c, disturbed, beyond(0.1, 1))
		saved := 0
		testrun.Eventually(t, "a checkpoint within denoising is committed", func() bool {
			saved = committed(t, c, disturbed)
			return saved > 0
		})
		require.Less(t, saved, steps)

		agent := agentPID(t, holder(t, s, disturbed))
		for _, pid := range append(descendants(agent), agent) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}

		done := until(t, c, disturbed, completed)
		history, err := c.JobHistory(t.Context(), disturbed)
		require.NoError(t, err)
		require.Len(t, history.Attempts, 2)
		require.Equal(t, client.AttemptStatusLost, history.Attempts[0].Status)
		require.NotNil(t, history.Attempts[1].ResumedFromStep)
		resumed := *history.Attempts[1].ResumedFromStep
		require.GreaterOrEqual(t, resumed, saved)
		require.Less(t, resumed, steps)
		t.Logf("killed in the middle of %d steps, resumed at step %d", steps, resumed)
		whole := until(t, c, undisturbed, completed)
		require.Equal(t, 1, whole.AttemptNo)
		require.Equal(t, frames(t, c, whole), frames(t, c, done))
		require.Equal(t, whole.Result.Checksum, done.Result.Checksum, "the files are the same, too")
	})
}

const tinyPrompt = "a lighthouse in the fog"

func raw(text string) *json.RawMessage { return new(json.RawMessage(text)) }

// submitTiny submits a video of tiny-ltx.
func submitTiny(t *testing.T, c *client.Client, params string) string {
	t.Helper()
	done, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "tiny-ltx", Prompt: new(tinyPrompt), Params: raw(params)})
	require.NoError(t, err)
	return done.Job.Id
}

// committed returns the step of a job's newest checkpoint, or 0 if it has none.
func committed(t *testing.T, c *client.Client, id string) int {
	t.Helper()
	history, err := c.JobHistory(t.Context(), id)
	require.NoError(t, err)
	newest := 0
	for _, artifact := range history.Artifacts {
		if artifact.Type != client.ArtifactTypeCheckpoint {
			continue
		}
		var note struct{ Step int }
		require.NoError(t, json.Unmarshal(*artifact.Metadata, &note))
		newest = max(newest, note.Step)
	}
	return newest
}

// cost is what jobs took on the workers.
type cost struct {
	steps   int
	seconds float64
}

// add waits until a job is completed, and adds the steps and the GPU seconds of its attempts. A
// job must have one attempt.
func (k *cost) add(t *testing.T, c *client.Client, id string) *client.JobHistory {
	t.Helper()
	job := until(t, c, id, completed)
	history, err := c.JobHistory(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, history.Attempts, 1)
	only := history.Attempts[0]
	if job.Draft != nil {
		k.steps += committed(t, c, id)
	} else {
		var made struct{ Steps int }
		require.NoError(t, json.Unmarshal(*job.Output, &made))
		k.steps += made.Steps
	}
	if only.ResumedFromStep != nil {
		k.steps -= *only.ResumedFromStep
	}
	k.seconds += only.GpuSeconds
	return history
}
