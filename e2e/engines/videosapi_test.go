package engines

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/videosapi"
	"github.com/stretchr/testify/require"
)

func videosAgent(t *testing.T, urls ...string) *remotetest.Agent {
	t.Helper()
	return remotetest.New(t, "videos-api", urls, func(url string) remote.Engine { return videosapi.New(remote.Target{URL: url}) }, time.Minute)
}

func TestVideosAPI(t *testing.T) {
	for profile, start := range map[string]func(testing.TB, string) *Server{"vllm-omni": StartVLLMOmni, "sglang": StartSGLang} {
		t.Run(profile, func(t *testing.T) {
			server := start(t, t.TempDir())
			job := func(id, prompt string) runtime.Start {
				return runtime.Start{
					Job: id, Model: "wan", Type: "video.generate", Prompt: prompt, Params: json.RawMessage(`{"durationSeconds": 2, "size": "64x36", "seed": 5}`),
					Settings: json.RawMessage(`{"profile": "` + profile + `"}`),
				}
			}

			t.Run("Renders", func(t *testing.T) {
				a := videosAgent(t, server.URL)
				a.Start(job("job_1", "a harbour"))
				end := a.End()
				require.NotNil(t, end.Result, "%+v", end.Failure)
				playable(t, end.Result.Video)
				require.NoError(t, remote.Remove(t.Context(), videosapi.New(remote.Target{URL: server.URL}), server.URL, a.LastHandle()))
			})

			t.Run("SaysWhyAJobFailed", func(t *testing.T) {
				a := videosAgent(t, server.URL)
				a.Start(job("job_2", "boom"))
				end := a.End()
				require.NotNil(t, end.Failure)
				t.Log(end.Failure)
				require.Contains(t, []runtime.FailureClass{runtime.OutOfMemory, runtime.ModelCrash}, end.Failure.Class)
			})

			t.Run("LeavesWorkThatAnotherAgentAdopts", func(t *testing.T) {
				a := videosAgent(t, server.URL)
				j := job("job_3", "a slow ship")
				a.Start(j)
				j.Handle = a.Handle(submitted)
				a.Kill()
				b := videosAgent(t, server.URL)
				b.Start(j)
				end := b.End()
				require.NotNil(t, end.Result, "%+v", end.Failure)
				playable(t, end.Result.Video)
			})

			t.Run("CancelsOrSaysThatTheEngineComputesOn", func(t *testing.T) {
				a := videosAgent(t, server.URL)
				a.Start(job("job_4", "a slow ship"))
				a.Handle(submitted)
				begun := time.Now()
				a.Cancel(false)
				require.True(t, a.End().Cancelled)
				require.Less(t, time.Since(begun), 5*time.Second)
				health, err := videosapi.New(remote.Target{URL: server.URL}).Health(t.Context())
				require.NoError(t, err)
				require.Equal(t, profile == "sglang", health.Busy)
			})
		})
	}
}
