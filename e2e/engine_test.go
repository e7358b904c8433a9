package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// driver starts an agent that drives the engines of a pool, until the test ends.
func (s *stack) driver(t *testing.T, pool string) *localstack.Child {
	t.Helper()
	output, err := os.CreateTemp(t.TempDir(), "agent-*.log")
	require.NoError(t, err)
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: "agent", Path: reelay, Log: output.Name(), Env: append(os.Environ(), "REELAY_API_KEY="+s.keys.WorkerKey),
		Args: []string{"agent", "--endpoint", s.keys.Endpoint, "--pool", pool, "--work-dir", t.TempDir(), "--engine-patience", "20s"},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		child.Stop(context.Background())
		if text, _ := io.ReadAll(output); t.Failed() {
			t.Logf("the agent:\n%s", text)
		}
		output.Close()
	})
	return child
}

// onEngines makes a model of the Videos API.
func (s *stack) onEngines(t *testing.T, name string) {
	t.Helper()
	s.onEngine(t, name, "videos-api", `{profile: vllm-omni}`)
}

// onEngine makes a model that engines of a kind render.
func (s *stack) onEngine(t *testing.T, name, kind, settings string) {
	t.Helper()
	_, err := s.dial(t, s.keys.AdminKey).ApplyModels(t.Context(), "models.yaml", "models: [{name: "+name+", runtime: "+kind+", settings: "+settings+`,
		type: video.generate, description: A model on engines., gpuTypes: [any], timeoutSeconds: 600, gpuSecondsPerSecond: 1,
		quality: {allowStill: true, allowDark: true}, params: {type: object, properties: {`+engineParams[kind]+`}}}]`, false)
	require.NoError(t, err)
}

var engineParams = map[string]string{
	"videos-api": "durationSeconds: {type: number, default: 1}, size: {type: string, default: 64x36}, steps: {type: integer, default: 10}, seed: {type: integer}",
	"comfyui":    "seed: {type: integer}, steps: {type: integer}",
	"cog":        "seconds: {type: number}",
}

// engines makes a model of the Videos API and a pool of engines that serve it.
func (s *stack) engines(t *testing.T, name string, urls ...string) {
	t.Helper()
	s.onEngines(t, name)
	list, err := json.Marshal(urls)
	require.NoError(t, err)
	source := fmt.Sprintf("pools: [{name: %s, provider: engines, engineKind: videos-api, models: [%s], engines: %s}]", name, name, list)
	_, err = s.dial(t, s.keys.AdminKey).ApplyPools(t.Context(), "pools.yaml", source, false)
	require.NoError(t, err)
}

func TestEngines(t *testing.T) {
	t.Parallel()

	t.Run("AreTriedWithUp", func(t *testing.T) {
		t.Parallel()
		fake := enginetest.NewVideosAPI(t, enginetest.VLLMOmni())
		fake.Run(10 * time.Millisecond)
		s := start(t, "--agents", "0", "--engine", fake.URL+"/", "--engine-kind", "videos-api")
		s.onEngines(t, "tried") // the pool serves all models of its kind
		c := s.client(t)
		submitted, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "tried", Prompt: new("a harbour")})
		require.NoError(t, err)
		testrun.Eventually(t, "that the job has ended", func() bool {
			job, err := c.Job(t.Context(), submitted.Job.Id)
			require.NoError(t, err)
			require.NotEqual(t, client.JobStatusFailed, job.Status)
			return job.Status == client.JobStatusCompleted
		})
	})

	t.Run("RenderWhatIsSubmitted", func(t *testing.T) {
		t.Parallel()
		s := common(t)
		fakes := []*enginetest.VideosAPI{enginetest.NewVideosAPI(t, enginetest.VLLMOmni()), enginetest.NewVideosAPI(t, enginetest.VLLMOmni())}
		for _, fake := range fakes {
			fake.Run(10 * time.Millisecond)
		}
		s.engines(t, "engines-render", fakes[0].URL, fakes[1].URL)
		s.driver(t, "engines-render")
		c := s.client(t)
		var ids []string
		for i := range 6 {
			job, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "engines-render", Prompt: new(fmt.Sprint("ship ", i))})
			require.NoError(t, err)
			ids = append(ids, job.Job.Id)
		}
		for _, id := range ids {
			testrun.Eventually(t, "that the job has ended", func() bool {
				job, err := c.Job(t.Context(), id)
				require.NoError(t, err)
				require.NotEqual(t, client.JobStatusFailed, job.Status)
				return job.Status == client.JobStatusCompleted
			})
		}
		require.Equal(t, 6, fakes[0].AllRenders()+fakes[1].AllRenders())
		require.Positive(t, fakes[0].AllRenders())
		require.Positive(t, fakes[1].AllRenders())
		require.Empty(t, fakes[0].All(), "the engine keeps nothing of jobs that are complete")
	})
	t.Run("KeepTheirJobWhenTheyLeaveAPoolAndComeBack", func(t *testing.T) {
		t.Parallel()
		s := common(t)
		fake := enginetest.NewVideosAPI(t, enginetest.VLLMOmni())
		s.engines(t, "engines-return", fake.URL)
		s.driver(t, "engines-return")
		c := s.client(t)
		job, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "engines-return", Prompt: new("a harbour")})
		require.NoError(t, err)
		testrun.Eventually(t, "that the engine renders the job", func() bool { return fake.AllRenders() == 1 })
		other := enginetest.NewVideosAPI(t, enginetest.VLLMOmni())
		asked := func(e *enginetest.VideosAPI) {
			before := len(e.Calls())
			testrun.Eventually(t, "that the agent asks "+e.URL, func() bool { return len(e.Calls()) > before })
		}

		s.engines(t, "engines-return", other.URL)
		asked(other) // so the agent knows that the first one has left
		s.engines(t, "engines-return", fake.URL)
		testrun.Eventually(t, "that the agent knows that it is back", func() bool { return s.stateOf(t, "engines-return", fake.URL) != client.EngineStateUnknown })

		fake.Run(10 * time.Millisecond)
		s.await(t, c, job.Job.Id, client.JobStatusCompleted)
		attempts, _, err := c.JobAttempts(t.Context(), job.Job.Id)
		require.NoError(t, err)
		require.Len(t, attempts, 1)
	})
}

// stateOf returns the state of an engine of a pool.
func (s *stack) stateOf(t *testing.T, pool, url string) client.EngineState {
	t.Helper()
	pools, err := s.operator(t).Pools(t.Context())
	require.NoError(t, err)
	for _, p := range pools {
		for _, e := range p.Engines {
			if p.Name == pool && e.Url == url {
				return e.State
			}
		}
	}
	return ""
}
