package engines

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/cog"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/stretchr/testify/require"
)

func TestCog(t *testing.T) {
	server := StartCog(t, t.TempDir())
	agent := func(t *testing.T) *remotetest.Agent {
		return remotetest.New(t, "cog", []string{server.URL}, func(url string) remote.Engine { return cog.New(remote.Target{URL: url}) }, time.Minute)
	}
	job := func(id, prompt, params string) runtime.Start {
		return runtime.Start{Job: id, Model: "film", Type: "video.generate", Prompt: prompt, Params: json.RawMessage(params)}
	}

	t.Run("Renders", func(t *testing.T) {
		a := agent(t)
		a.Start(job("job_1", "a harbour", `{"seconds": 0.5}`))
		end := a.End()
		require.NotNil(t, end.Result, "%+v", end.Failure)
		playable(t, end.Result.Video)
	})

	t.Run("SaysWhyAJobFailed", func(t *testing.T) {
		a := agent(t)
		a.Start(job("job_2", "boom", `{"seconds": 0.1}`))
		end := a.End()
		require.NotNil(t, end.Failure)
		require.Equal(t, runtime.ModelCrash, end.Failure.Class)
		require.Contains(t, end.Failure.Message, "boom happened")
		a.Start(job("job_3", "memory", `{"seconds": 0}`))
		require.Equal(t, runtime.OutOfMemory, a.End().Failure.Class)
	})

	t.Run("StopsACancelledJob", func(t *testing.T) {
		a := agent(t)
		a.Start(job("job_4", "a harbour", `{"seconds": 60}`))
		a.Handle(submitted)
		begun := time.Now()
		a.Cancel(false)
		require.True(t, a.End().Cancelled)
		require.Less(t, time.Since(begun), 3*time.Second)
		health, err := cog.New(remote.Target{URL: server.URL}).Health(t.Context())
		require.NoError(t, err)
		require.False(t, health.Busy)
	})

	t.Run("StartsAgainWhatARestartLost", func(t *testing.T) {
		a := agent(t)
		a.Start(job("job_5", "a harbour", `{"seconds": 2}`))
		a.Handle(submitted)
		server.Kill()
		server.Restart()
		end := a.End()
		require.NotNil(t, end.Result, "%+v", end.Failure)
		playable(t, end.Result.Video)
	})
}
