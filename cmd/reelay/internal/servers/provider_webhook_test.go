package servers

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/fakeprovider"
	"github.com/reelay/reelay/gpu/runtimes/remote/hosted"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// hookTests are the providers with webhooks: a model, and the path of the API at the fake.
var hookTests = map[string]struct{ model, path string }{
	"kling": {"text-to-video/kling-3.0", ""}, "fal": {"fal-ai/wan/v2.2", ""}, "replicate": {"owner/name", "/v1"},
	"runpod": {"", "/v2/a1b2c3d4"},
}

// The agents of these tests poll once an hour by themselves: only webhooks can end a job.
func TestWebhooksOfProviders(t *testing.T) {
	t.Parallel()
	for _, a := range provider.All {
		_, tested := hookTests[a.Name]
		require.Equal(t, a.Webhooks, tested, a.Name)
	}

	// begin starts agents that render n jobs at a fake, and waits until the provider generates them all.
	begin := func(t *testing.T, kind string, config fakeprovider.Config, n int) (*strained, *enginetest.Provider, []*remotetest.Agent) {
		t.Helper()
		s, adapter := newStrained(t), provider.Find(kind)
		config.Provider, config.Key = kind, "key"
		fake := enginetest.NewProvider(t, config)
		url := fake.URL + hookTests[kind].path
		pool, err := s.pools().Create(t.Context(), jobs.Host, capacity.PoolSpec{
			Name: "hosted", Provider: engine.Provider, EngineKind: engine.Kind(kind), Models: []string{"testcard"},
			Engines: []string{url},
		})
		require.NoError(t, err)
		_, err = s.db.ExecContext(t.Context(), "UPDATE provider_accounts SET per_minute = 1000") // no poll waits for its turn
		require.NoError(t, err)
		api, err := client.New(s.publicURL, s.houseKey(t, access.RoleWorker))
		require.NoError(t, err)
		settings, err := json.Marshal(map[string]any{"model": hookTests[kind].model})
		require.NoError(t, err)
		var agents []*remotetest.Agent
		for slot := range n {
			worker, err := api.RegisterWorker(t.Context(), client.RegisterWorkerInput{
				Provider: engine.Provider, ProviderInstanceId: "hosted@" + kind + "#1", Slot: new(slot), PoolId: new(string(pool.ID)), Region: "local",
				GpuType: "any", CapacityClass: client.CapacityClassOnDemand, Models: []string{}, WarmModels: []string{}, AgentVersion: "test",
			})
			require.NoError(t, err)
			_, err = s.customer.SubmitJob(t.Context(), client.SubmitJobInput{Model: "testcard", Prompt: new("A paper boat")})
			require.NoError(t, err)
			answer, err := api.WithKey(worker.WorkerToken).
				LeaseJob(t.Context(), client.LeaseJobInput{WorkerId: worker.Worker.Id, WaitSeconds: new(20)})
			require.NoError(t, err)
			require.NotNil(t, answer.Lease)
			a := remotetest.Run(t, remote.Config{Kind: kind, Own: url, Every: time.Hour, Account: "hosted", Engines: map[string]remote.Engine{
				url: hosted.New(adapter, remote.Target{URL: url, Secrets: func() (http.Header, error) {
					return adapter.Auth.Header("key"), nil
				}}, hosted.NewControl(api, "hosted")),
			}})
			a.Start(runtime.Start{Job: answer.Lease.Job.Id, Model: "m", Type: "video.generate", Prompt: "A paper boat", Settings: settings})
			a.Await(func(s remotetest.Said) bool { return s.Progress != nil && s.Progress.Phase == runtime.PhaseGenerating })
			agents = append(agents, a)
		}
		return s, fake, agents
	}

	for kind := range hookTests {
		for _, how := range []fakeprovider.Webhooks{fakeprovider.UsualWebhooks, fakeprovider.RudeWebhooks} {
			t.Run("EndJobsBeforeTheNextPoll/"+kind+" "+string(how), func(t *testing.T) {
				t.Parallel()
				_, fake, agents := begin(t, kind, fakeprovider.Config{Webhooks: how, Steps: 1}, 2)

				fake.Step()

				for i, a := range agents {
					end := a.End()
					require.NotNil(t, end.Result, "%+v", end.Failure)
					require.Equal(t, fakeprovider.Succeeded, fake.Tasks()[i].State, "the end was believed before it came")
				}
				require.Len(t, fake.Tasks(), 2)
			})
		}
	}
}
