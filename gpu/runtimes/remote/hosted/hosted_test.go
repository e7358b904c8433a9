package hosted_test

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/fakeprovider"
	"github.com/reelay/reelay/gpu/runtimes/remote/hosted"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	testrun.AtOnce(12) // most of the time they wait for a provider
	testrun.Main(m.Run)
}

// spec is what a test must know of a provider.
type spec struct {
	name, model string
	// submit and poll are the patterns of the calls, and result that of the call that answers the result; ""
	// means that poll does.
	submit, poll, result string
	// file is the place of the video in that answer, and film what is there, with %s for the address.
	file, film string
	path       string         // of the API, behind the fake's address
	films      string         // the pattern of the call for a film, if it is not GET /films/{id}
	fixed      map[string]any // of the model's settings
	ownIDs     bool           // the ids of jobs have a form of their own
}

const veoModel = "/v1/projects/p1/locations/us-central1/publishers/google/models/veo-3.1-fast-generate-001"

// specs are all providers.
var specs = []spec{
	{name: "fal", model: "fal-ai/kling-video/v2/master/text-to-video", submit: "POST /{owner}/{app}/{path...}",
		poll: "GET /{owner}/{app}/requests/{id}/status", result: "GET /{owner}/{app}/requests/{id}", file: "video.url", film: `"%s"`},
	{name: "gemini", model: "gemini-omni-1.1-flash", submit: "POST /v1/interactions", poll: "GET /v1/interactions/{id}",
		file: "steps", film: `[{"type": "model_output", "content": [{"type": "video", "uri": "%s"}]}]`, films: "GET /v1beta/files/{call}"},
	{name: "kling", model: "text-to-video/kling-3.0", submit: "POST /text-to-video/{model}", poll: "GET /tasks",
		file: "data.0.outputs", film: `[{"type": "video", "url": "%s"}]`},
	{name: "luma", model: "ray-3.2", submit: "POST /v1/generations", poll: "GET /v1/generations/{id}", file: "output",
		film: `[{"type": "video", "url": "%s"}]`, path: "/v1"},
	{name: "minimax", model: "MiniMax-H3", submit: "POST /v2/video_generation", poll: "GET /v2/query/video_generation/{id}",
		file: "task.content.url", film: `"%s"`},
	{name: "replicate", model: "kwaivgi/kling-v2.1", submit: "POST /v1/models/{owner}/{name}/predictions", poll: "GET /v1/predictions/{id}",
		file: "output", film: `"%s"`, path: "/v1"},
	{name: "runpod", submit: "POST /v2/{endpoint}/run", poll: "GET /v2/{endpoint}/status/{id}", file: "output", film: `{"video_url": "%s"}`,
		path: "/v2/a1b2c3d4"},
	{name: "veo", model: "veo-3.1-fast-generate-001", submit: "POST " + veoModel + ":predictLongRunning",
		poll: "POST " + veoModel + ":fetchPredictOperation", file: "response.videos",
		film: `[{"gcsUri": "%s"}]`, path: "/v1/projects/p1/locations/us-central1",
		films: "GET /storage/v1/b/{bucket}/o/{object}", fixed: map[string]any{"parameters.storageUri": "gs://bucket-1/films"}},
	{name: "runway", model: "gen4.5", submit: "POST /v1/text_to_video", poll: "GET /v1/tasks/{id}", file: "output", film: `["%s"]`},
}

const key = "key_of_the_tests"

func each(t *testing.T, test func(t *testing.T, s spec)) {
	t.Helper()
	for _, s := range specs {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func (s spec) fake(t *testing.T) *enginetest.Provider {
	t.Helper()
	return enginetest.NewProvider(t, fakeprovider.Config{Provider: s.name, Concurrent: 5, Key: key})
}

// agent starts an agent of the provider with a key.
func (s spec) agent(t *testing.T, f *enginetest.Provider, key string) *remotetest.Agent {
	t.Helper()
	return s.patient(t, f, key, 2*time.Minute) // several calls may time out on a slow machine
}

// patient starts an agent that waits so long for a valid answer.
func (s spec) patient(t *testing.T, f *enginetest.Provider, key string, patience time.Duration) *remotetest.Agent {
	t.Helper()
	return s.run(t, remote.Target{URL: f.URL + s.path, Secrets: s.secrets(key)}, nil, patience)
}

// secrets returns the headers of a key.
func (s spec) secrets(key string) func() (http.Header, error) {
	return func() (http.Header, error) { return provider.Find(s.name).Auth.Header(key), nil }
}

// run starts an agent of the pool "hosted" at a target.
func (s spec) run(t *testing.T, target remote.Target, gate hosted.Gate, patience time.Duration) *remotetest.Agent {
	t.Helper()
	target.Limit = 30 * time.Second
	return remotetest.Run(t, remote.Config{Kind: s.name, Own: target.URL, Account: "hosted", Patience: patience, Every: 50 * time.Millisecond,
		Engines: map[string]remote.Engine{target.URL: hosted.New(provider.Find(s.name), target, gate)}})
}

func (s spec) job(prompt string) runtime.Start {
	settings, _ := json.Marshal(map[string]any{"model": s.model, "fixed": s.fixed})
	return runtime.Start{Job: "job_1", Model: "m", Type: "video.generate", Prompt: prompt, Settings: settings,
		Params: json.RawMessage(`{"durationSeconds": 5, "aspectRatio": "16:9", "seed": 7}`)}
}

func TestEveryProvider(t *testing.T) {
	t.Parallel()
	for _, a := range provider.All {
		found := false
		for _, s := range specs {
			found = found || s.name == a.Name
		}
		require.True(t, found, "%s has no tests here", a.Name)
	}
	each(t, func(t *testing.T, s spec) {
		t.Run("MakesAVideo", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			a := s.agent(t, f, key)
			a.Start(s.job("A paper boat"))
			a.Await(func(s remotetest.Said) bool { return s.Progress != nil && s.Progress.Phase == runtime.PhaseGenerating })
			f.Run(10 * time.Millisecond)

			end := a.End()

			require.NotNil(t, end.Result, "%+v", end.Failure)
			film, err := os.ReadFile(end.Result.Video)
			require.NoError(t, err)
			tasks := f.Tasks()
			require.Len(t, tasks, 1)
			require.Equal(t, tasks[0].ID, enginetest.FilmID(t, film))
			require.Equal(t, "A paper boat", tasks[0].Prompt)
			require.Equal(t, s.model, tasks[0].Model)
		})

		t.Run("AdoptsAfterTheLossOfItsAgent", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			a, job := s.agent(t, f, key), s.job("A paper boat")
			a.Start(job)
			job.Handle = a.Handle(func(value string) bool {
				var h struct{ Ref string }
				return json.Unmarshal([]byte(value), &h) == nil && h.Ref != ""
			})
			a.Kill()
			f.Run(10 * time.Millisecond)
			b := s.agent(t, f, key)
			b.Start(job)

			end := b.End()

			require.NotNil(t, end.Result, "%+v", end.Failure)
			require.Len(t, f.Tasks(), 1)
		})

		t.Run("DoesNotPayTwiceForAnAnswerThatWasLost", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			f.Fault(s.submit, 1, enginetest.LoseAnswer)
			f.Run(10 * time.Millisecond)
			a := s.agent(t, f, key)
			a.Start(s.job("A paper boat"))

			end := a.End()

			require.Len(t, f.Tasks(), 1)
			if provider.Find(s.name).Lookup != nil {
				require.NotNil(t, end.Result, "%+v", end.Failure)
				return
			}
			require.NotNil(t, end.Failure)
			require.Equal(t, runtime.SubmitUnknown, end.Failure.Class, end.Failure.Message)
			require.NotEmpty(t, a.LastHandle(), "the next attempt must see that the job may have begun")
		})

		t.Run("WaitsWhileThereAreTooManyCalls", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			f.Refuse(time.Second)
			f.Run(10 * time.Millisecond)
			a := s.agent(t, f, key)
			a.Start(s.job("A paper boat"))
			testrun.Eventually(t, "that the provider has refused a call", func() bool { return f.Limited() > 0 })
			f.Allow()

			end := a.End()

			require.NotNil(t, end.Result, "%+v", end.Failure)
			require.Len(t, f.Tasks(), 1)
		})

		for _, prompt := range []string{"Forbidden at once", "Forbidden at the end"} {
			t.Run("NamesContentThatIsNotMade/"+prompt, func(t *testing.T) {
				t.Parallel()
				f := s.fake(t)
				f.Run(10 * time.Millisecond)
				a := s.agent(t, f, key)
				a.Start(s.job(prompt))

				end := a.End()

				require.NotNil(t, end.Failure)
				require.Equal(t, runtime.ContentPolicy, end.Failure.Class, end.Failure.Message)
			})
		}

		t.Run("TriesAgainWhatFailed", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			f.Run(10 * time.Millisecond)
			a := s.agent(t, f, key)
			a.Start(s.job("This fails"))

			end := a.End()

			require.NotNil(t, end.Failure)
			require.Contains(t, []runtime.FailureClass{runtime.ModelCrash, runtime.Transient}, end.Failure.Class, end.Failure.Message)
		})

		t.Run("StopsForAWrongKey", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			a := s.agent(t, f, "key_that_expired")
			a.Start(s.job("A paper boat"))

			end := a.End()

			require.NotNil(t, end.Failure)
			require.True(t, end.Failure.Unready, "%+v", end.Failure)
			require.NotContains(t, end.Failure.Message, "key_that_expired")
			require.Empty(t, f.Tasks())
		})

		t.Run("StopsForAnAccountWithoutMoney", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			f.RunOut()
			a := s.agent(t, f, key)
			a.Start(s.job("A paper boat"))

			end := a.End()

			require.NotNil(t, end.Failure)
			require.True(t, end.Failure.Unready, "%+v", end.Failure)
			require.Equal(t, runtime.ProviderUnavailable, end.Failure.Class, end.Failure.Message)
			require.Empty(t, f.Tasks())
		})

		t.Run("RefusesAModelThatTheProviderDoesNotKnow", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			f.Fault(s.submit, 1, enginetest.Status(404, "no such model"))
			a := s.agent(t, f, key)
			a.Start(s.job("A paper boat"))

			end := a.End()

			require.NotNil(t, end.Failure)
			require.Equal(t, runtime.InvalidInput, end.Failure.Class, end.Failure.Message)
		})

		t.Run("StopsACancelledJob", func(t *testing.T) {
			t.Parallel()
			f := s.fake(t)
			a := s.agent(t, f, key)
			a.Start(s.job("A paper boat"))
			a.Await(func(s remotetest.Said) bool { return s.Progress != nil && s.Progress.Phase == runtime.PhaseGenerating })
			a.Cancel(false)

			end := a.End()

			require.True(t, end.Cancelled)
			if provider.Find(s.name).Cancel != nil {
				require.Equal(t, fakeprovider.Cancelled, f.Tasks()[0].State)
			}
		})

		for name, fault := range map[string]enginetest.Fault{
			"HTML": enginetest.HTML, "AnotherShape": enginetest.ErrorWith200, "ACut": enginetest.Cut, "NoAnswer": enginetest.LoseRequest,
			"Endless": enginetest.Endless, "500": enginetest.Status(500, "oops"), "503": enginetest.Status(503, "down"),
			"429": enginetest.Status(429, "slow down"), "418": enginetest.Status(418, "I am a teapot"),
		} {
			t.Run("OutlivesAPollThatIsAnsweredWith/"+name, func(t *testing.T) {
				t.Parallel()
				f := s.fake(t)
				f.Fault(s.poll, 2, fault)
				f.Run(50 * time.Millisecond)
				a := s.agent(t, f, key)
				a.Start(s.job("A paper boat"))

				end := a.End()

				require.NotNil(t, end.Result, "%+v", end.Failure)
				require.Len(t, f.Tasks(), 1, "a poll that fails says nothing of the job")
			})
		}
	})
}
