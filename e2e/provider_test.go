package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/fakeprovider"
	"github.com/reelay/reelay/internal/localstack"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

const providerKey = "key_of_an_account"

// provider makes a model of a hosted provider, a pool with its account there, and the file of its key.
func (s *stack) provider(t *testing.T, name string, fake *enginetest.Provider, kind string) (secrets string) {
	t.Helper()
	_, err := s.dial(t, s.keys.AdminKey).ApplyModels(t.Context(), "models.yaml", "models: [{name: "+name+", runtime: "+kind+`, settings: {model: text-to-video/kling-3.0, fixed: {settings.duration: 5}},
		type: video.generate, description: A model of a provider., gpuTypes: [any], timeoutSeconds: 600, gpuSecondsPerSecond: 1,
		quality: {allowStill: true, allowDark: true}, params: {type: object, properties: {}}}]`, false)
	require.NoError(t, err)
	_, err = s.dial(t, s.keys.AdminKey).ApplyPools(t.Context(), "pools.yaml",
		fmt.Sprintf("pools: [{name: %s, provider: engines, engineKind: %s, models: [%s], engines: [%q]}]", name, kind, name, fake.URL), false)
	require.NoError(t, err)
	secrets = filepath.Join(t.TempDir(), "secrets.yaml")
	text := fmt.Sprintf("engines: [{provider: %s, url: %q, key: %s}]", kind, fake.URL, providerKey)
	require.NoError(t, os.WriteFile(secrets, []byte(text), 0o600))
	return secrets
}

// providerAgent is an agent of a provider's pool.
type providerAgent struct {
	*localstack.Child
	log string // the path of what it prints
}

// providerAgent starts an agent of a provider's pool, until the test ends.
func (s *stack) providerAgent(t *testing.T, pool, secrets string) *providerAgent {
	t.Helper()
	log := filepath.Join(t.TempDir(), "agent.log")
	child, err := localstack.StartChild(localstack.ChildConfig{
		Name: "agent", Path: reelay, Log: log, Env: append(os.Environ(), "REELAY_API_KEY="+s.keys.WorkerKey),
		Args: []string{"agent", "--endpoint", s.keys.Endpoint, "--pool", pool, "--work-dir", t.TempDir(), "--engine-secrets", secrets},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		child.Stop(context.Background())
		if text, _ := os.ReadFile(log); t.Failed() {
			t.Logf("an agent:\n%s", text)
		}
	})
	return &providerAgent{child, log}
}

// hosted is a pool whose agents share an account at a fake of Kling, which takes five jobs at a time.
type hosted struct {
	*stack
	pool    string
	fake    *enginetest.Provider
	secrets string
	agents  []*providerAgent
	// ids are those of the jobs, by their prompts, of which some are known to be complete.
	ids      map[string]string
	complete map[string]bool
}

// hostedLimit is how many jobs the provider takes at a time.
const hostedLimit = 5

// startProviders starts a stack whose accounts at providers take five jobs at a time.
func startProviders(t *testing.T, args ...string) *stack {
	t.Helper()
	return startProvidersWith(t, nil, args...)
}

// startProvidersWith is startProviders with additional environment variables.
func startProvidersWith(t *testing.T, env []string, args ...string) *stack {
	t.Helper()
	limits := filepath.Join(t.TempDir(), "providers.yaml")
	text := fmt.Sprintf("providers: {kling: {concurrent: %d, perMinute: 3000}}", hostedLimit)
	require.NoError(t, os.WriteFile(limits, []byte(text), 0o600))
	s, err := launchWith(append(env, "REELAY_PROVIDER_LIMITS="+limits), dataDir(t), append([]string{"--agents", "0"}, args...)...)
	require.NoError(t, err)
	s.endWith(t)
	s.lift(t)
	return s
}

// rent makes a pool with an account at a fake of its own, and starts its agents, each of which has as many workers as
// the account has slots.
func (s *stack) rent(t *testing.T, pool string, agents, steps int) *hosted {
	t.Helper()
	fake := enginetest.NewProvider(t, fakeprovider.Config{Provider: "kling", Concurrent: hostedLimit, Steps: steps, Key: providerKey})
	h := &hosted{stack: s, pool: pool, fake: fake, ids: map[string]string{}, complete: map[string]bool{}}
	h.secrets = s.provider(t, pool, fake, "kling")
	testrun.Eventually(t, "that the limits of the file count", func() bool {
		account := h.account(t)
		return account != nil && account.Concurrent == hostedLimit && account.PerMinute == 3000
	})
	for range agents {
		h.agents = append(h.agents, s.providerAgent(t, pool, h.secrets))
	}
	return h
}

// account returns the account at the provider, or nil if the pool has none yet.
func (h *hosted) account(t *testing.T) *client.ProviderAccount {
	t.Helper()
	pools, err := h.operator(t).Pools(t.Context())
	require.NoError(t, err)
	for _, p := range pools {
		if p.Name == h.pool {
			return p.ProviderAccount
		}
	}
	return nil
}

// feed submits jobs.
func (h *hosted) feed(t *testing.T, n int) {
	t.Helper()
	var inputs []client.SubmitJobInput
	for range n {
		inputs = append(inputs, client.SubmitJobInput{Model: h.pool, Prompt: new(fmt.Sprint("ship ", len(h.ids)+len(inputs)))})
	}
	made, err := h.client(t).SubmitJobs(t.Context(), inputs)
	require.NoError(t, err)
	require.Zero(t, made.Rejected)
	for i, result := range made.Results {
		h.ids[*inputs[i].Prompt] = result.Job.Id
	}
}

// restart kills an agent, as kill -9 does, and starts another.
func (h *hosted) restart(t *testing.T, agent int) {
	t.Helper()
	h.agents[agent].Kill()
	h.agents[agent] = h.providerAgent(t, h.pool, h.secrets)
}

// storm makes the provider answer 429 to everything, until the calls of as many jobs as it takes were refused.
func (h *hosted) storm(t *testing.T, retryAfter time.Duration) {
	t.Helper()
	before := h.fake.Limited()
	h.fake.Refuse(retryAfter)
	testrun.Eventually(t, "that the provider refuses calls", func() bool { return h.fake.Limited() >= before+hostedLimit })
	testrun.Eventually(t, "that the account is paused for all", func() bool { return h.account(t).State == client.ProviderStatePaused })
}

// check waits until all jobs have ended, and checks that each is complete and was paid once.
func (h *hosted) check(t *testing.T) {
	t.Helper()
	c, operator := h.client(t), h.operator(t)
	for _, id := range h.ids {
		h.await(t, c, id, client.JobStatusCompleted)
		job, err := operator.JobHistory(t.Context(), id)
		require.NoError(t, err)
		for _, a := range job.Attempts {
			require.NotEqual(t, client.AttemptStatusFailed, a.Status, "an attempt counted: %v", a.FailureReason)
		}
	}
	paid := map[string]int{}
	for _, task := range h.fake.Tasks() {
		paid[task.Prompt]++
	}
	require.Len(t, paid, len(h.ids))
	require.Len(t, h.fake.Tasks(), len(h.ids), "a job was paid twice: %v", paid)
}

func TestProvider(t *testing.T) {
	t.Parallel()

	t.Run("GetsNoMoreJobsThanItsLimitFromAllAgentsTogetherAndNoneTwice", func(t *testing.T) {
		t.Parallel()
		h := startProviders(t).rent(t, "hosted", 5, 4)
		h.feed(t, 24)
		testrun.Eventually(t, "that the provider works on five jobs", func() bool { return h.fake.Most() == hostedLimit })

		h.restart(t, 0)
		h.kill(t, "redis", syscall.SIGKILL)
		h.flush(t) // it comes back empty
		require.Zero(t, h.fake.Limited(), "the provider refused a job because of its limit")
		h.storm(t, time.Second)
		refused := h.fake.Limited()
		h.fake.Allow()
		h.fake.Run(50 * time.Millisecond)

		h.check(t)
		require.Equal(t, hostedLimit, h.fake.Most())
		require.Equal(t, refused, h.fake.Limited(), "the provider refused a job because of its limit")
	})

	t.Run("GetsAJobOnceThatOwnGPUsWouldNotFinishInTime", func(t *testing.T) {
		t.Parallel()
		h := startProviders(t, "--agents", "1").rent(t, "hosted", 2, 4)
		c := h.client(t)
		until(t, c, submit(t, c, "a long film", 60, 10), func(j *client.Job) bool { return j.Status == client.JobStatusRunning })
		job, err := c.SubmitJob(t.Context(), client.SubmitJobInput{
			Model: "testcard", Prompt: new("ship 0"), Fallback: []string{"hosted"}, FinishBy: new(time.Now().Add(2 * time.Minute)),
		})
		require.NoError(t, err)
		h.ids["ship 0"] = job.Job.Id
		testrun.Eventually(t, "that the job is at the provider", func() bool { return len(h.fake.Tasks()) > 0 })

		h.restart(t, 0)
		h.restart(t, 1)
		h.fake.Run(50 * time.Millisecond)

		h.check(t)
		ended, err := c.Job(t.Context(), job.Job.Id)
		require.NoError(t, err)
		require.Equal(t, "hosted", ended.Model)
		require.Len(t, ended.Routes, 1, "it goes out once")
	})
}
