package e2e

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/e2e/engines"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/kinds"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestEngineCancel(t *testing.T) {
	t.Parallel()

	t.Run("SendsNoOtherJobToAnEngineThatComputesOn", func(t *testing.T) {
		t.Parallel()
		fake := enginetest.NewVideosAPI(t, enginetest.SGLang())
		var early atomic.Int32
		fake.Fault("POST /v1/videos", 0, func(c *enginetest.Call) {
			if !fake.Idle() {
				early.Add(1)
			}
			c.Do(c.Answer, c.Request)
		})
		s := start(t, "--agents", "0", "--engine", fake.URL, "--engine-kind", "videos-api")
		s.onEngine(t, "deaf", "videos-api", "{profile: sglang}")
		c := s.client(t)
		cancelled, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "deaf", Prompt: new("a harbour")})
		require.NoError(t, err)
		testrun.Eventually(t, "that the engine renders the job", func() bool { return fake.AllRenders() == 1 })
		next, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "deaf", Prompt: new("a ship")})
		require.NoError(t, err)

		_, err = c.CancelJob(t.Context(), cancelled.Job.Id)

		require.NoError(t, err)
		s.await(t, c, cancelled.Job.Id, client.JobStatusCancelled)
		testrun.Eventually(t, "that the engine is drained", func() bool { return s.stateOf(t, "engines", fake.URL) == client.EngineStateDraining })
		require.Equal(t, 1, fake.AllRenders())
		fake.Run(10 * time.Millisecond)
		s.await(t, c, next.Job.Id, client.JobStatusCompleted)
		require.Equal(t, 2, fake.AllRenders())
		require.Zero(t, early.Load(), "a job was sent to the engine while it computed another one")
	})

	for kind, real := range map[engine.Kind]struct {
		start            func(t *testing.T) *engines.Server
		settings, params string
	}{
		engine.ComfyUI: {
			func(t *testing.T) *engines.Server { return engines.StartComfyUI(t, t.TempDir()) },
			`{inputs: {seed: 1.seed, steps: 1.steps}, output: "3", graph: ` + slowFilm("video", 0, soakSteps) + `}`, `{"steps": 900}`,
		},
		engine.Cog: {func(t *testing.T) *engines.Server { return engines.StartCog(t, t.TempDir()) }, "{}", `{"seconds": 120}`},
	} {
		t.Run("Frees_"+string(kind), func(t *testing.T) {
			t.Parallel()
			server := real.start(t)
			s := start(t, "--agents", "0", "--engine", server.URL, "--engine-kind", string(kind))
			s.onEngine(t, "long", string(kind), real.settings)
			c := s.client(t)
			asked, err := kinds.New(kind, remote.Target{URL: server.URL}, nil)
			require.NoError(t, err)
			busy := func() bool {
				health, err := asked.Health(t.Context())
				return err == nil && health.Busy
			}
			for range 5 {
				job, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "long", Prompt: new("a harbour"), Params: new(json.RawMessage(real.params))})
				require.NoError(t, err)
				testrun.Eventually(t, "that the engine renders", busy)
				begun := time.Now()
				_, err = c.CancelJob(t.Context(), job.Job.Id)
				require.NoError(t, err)
				testrun.Eventually(t, "that the engine is free", func() bool { return !busy() })
				freed := time.Since(begun)
				s.await(t, c, job.Job.Id, client.JobStatusCancelled)
				t.Logf("%s was free %s after the cancel, and the job cancelled after %s", kind, freed, time.Since(begun))
				require.LessOrEqual(t, freed, 2*time.Second)
			}
		})
	}
}

// await waits until a job has ended, as it should.
func (s *stack) await(t *testing.T, c *client.Client, id string, want client.JobStatus) {
	t.Helper()
	testrun.Eventually(t, "that the job is "+string(want), func() bool {
		job, err := c.Job(t.Context(), id)
		require.NoError(t, err)
		if job.Status != want {
			require.NotContains(t, []client.JobStatus{client.JobStatusCompleted, client.JobStatusFailed, client.JobStatusCancelled}, job.Status, job.FailureReason)
		}
		return job.Status == want
	})
}
