package engines

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/quality"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/comfyui"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/stretchr/testify/require"
)

// film is a graph that renders frames slowly and saves them as an MP4.
const film = `{
	"1": {"class_type": "SlowFrames", "inputs": {"frames": 24, "step_seconds": 0.1, "steps": 10, "seed": 1, "fail_at": -1, "prompt": "", "model": "small.safetensors"}},
	"2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 24}},
	"3": {"class_type": "SaveVideo", "inputs": {"video": ["2", 0], "filename_prefix": "video", "format": "mp4", "codec": "h264"}}}`

const filmInputs = `{"prompt": "1.prompt", "seed": "1.seed", "steps": "1.steps", "stepSeconds": "1.step_seconds", "failAt": "1.fail_at", "model": "1.model"}`

func comfySettings() json.RawMessage {
	return json.RawMessage(`{"graph": ` + film + `, "inputs": ` + filmInputs + `, "output": "3"}`)
}

func comfyAgent(t *testing.T, urls ...string) *remotetest.Agent {
	t.Helper()
	return remotetest.New(t, "comfyui", urls, func(url string) remote.Engine { return comfyui.New(remote.Target{URL: url}) }, time.Minute)
}

func comfyJob(id, params string) runtime.Start {
	return runtime.Start{Job: id, Model: "slow", Type: "video.generate", Prompt: "a harbour", Params: json.RawMessage(params), Settings: comfySettings()}
}

// runsOf counts how often the engine ran a prompt.
func runsOf(t *testing.T, dir, key string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "output", "runs.txt"))
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(t, err)
	return strings.Count(string(data), key)
}

func playable(t *testing.T, path string) {
	t.Helper()
	report, err := quality.Check(t.Context(), path, quality.Expect{AllowDark: true, AllowStill: true})
	require.NoError(t, err)
	require.Nil(t, report.Defect)
}

func keyOf(t *testing.T, handle string) string {
	t.Helper()
	var h struct{ Key string }
	require.NoError(t, json.Unmarshal([]byte(handle), &h))
	return h.Key
}

func submitted(handle string) bool { return strings.Contains(handle, `"ref":`) }

func TestComfyUI(t *testing.T) {
	dir := t.TempDir()
	server := StartComfyUI(t, dir)

	t.Run("RendersWithProgressAndPreviews", func(t *testing.T) {
		a := comfyAgent(t, server.URL)
		require.Nil(t, a.Load(runtime.Model{Name: "slow", Settings: comfySettings()}))
		a.Start(comfyJob("job_1", `{"seed": 7}`))
		preview := a.Await(func(s remotetest.Said) bool { return s.Preview != nil })
		require.FileExists(t, preview.Preview.Path)
		a.Await(func(s remotetest.Said) bool {
			return s.Progress != nil && s.Progress.Percent > 20 && s.Progress.Step > 2
		})
		end := a.End()
		require.NotNil(t, end.Result, "%+v", end.Failure)
		playable(t, end.Result.Video)
		require.Equal(t, 1, runsOf(t, dir, keyOf(t, a.LastHandle())))
	})

	t.Run("GivesEachJobItsOwnFileAlthoughTheResultIsCached", func(t *testing.T) {
		a := comfyAgent(t, server.URL)
		for i := range 2 {
			a.Start(comfyJob(fmt.Sprint("job_cached_", i), `{"seed": 8}`))
			end := a.End()
			require.NotNil(t, end.Result, "%+v", end.Failure)
			playable(t, end.Result.Video)
		}
		files, err := filepath.Glob(filepath.Join(dir, "output", "reelay", keyOf(t, a.LastHandle())+"*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
	})

	t.Run("StopsACancelledJob", func(t *testing.T) {
		a := comfyAgent(t, server.URL)
		a.Start(comfyJob("job_2", `{"seed": 9, "steps": 1000}`))
		a.Await(func(s remotetest.Said) bool { return s.Progress != nil && s.Progress.Step > 2 })
		begun := time.Now()
		a.Cancel(false)
		require.True(t, a.End().Cancelled)
		require.Less(t, time.Since(begun), 2*time.Second)
		health, err := comfyui.New(remote.Target{URL: server.URL}).Health(t.Context())
		require.NoError(t, err)
		require.False(t, health.Busy)
	})

	t.Run("LeavesWorkThatAnotherAgentAdopts", func(t *testing.T) {
		a := comfyAgent(t, server.URL)
		job := comfyJob("job_3", `{"seed": 10, "steps": 30}`)
		a.Start(job)
		a.Await(func(s remotetest.Said) bool { return s.Progress != nil && s.Progress.Step > 2 })
		job.Handle = a.Handle(submitted)
		a.Kill()
		b := comfyAgent(t, server.URL)
		b.Start(job)
		end := b.End()
		require.NotNil(t, end.Result, "%+v", end.Failure)
		playable(t, end.Result.Video)
		require.Equal(t, 1, runsOf(t, dir, keyOf(t, job.Handle)))
	})

	t.Run("SaysWhatTheEngineLacks", func(t *testing.T) {
		a := comfyAgent(t, server.URL)
		a.Start(comfyJob("job_4", `{"model": "huge.safetensors"}`))
		end := a.End()
		require.NotNil(t, end.Failure)
		require.Equal(t, "SlowFrames.model=huge.safetensors", end.Failure.Lacks)
		has, err := comfyui.New(remote.Target{URL: server.URL}).Has(t.Context(), end.Failure.Lacks)
		require.NoError(t, err)
		require.False(t, has)
		settings := json.RawMessage(strings.ReplaceAll(string(comfySettings()), "CreateVideo", "MakeVideo"))
		failure := a.Load(runtime.Model{Name: "slow", Settings: settings})
		require.NotNil(t, failure)
		require.Equal(t, "MakeVideo", failure.Lacks)
	})

	t.Run("ClassifiesFailures", func(t *testing.T) {
		a := comfyAgent(t, server.URL)
		a.Start(comfyJob("job_5", `{"seed": 11, "failAt": 2}`))
		end := a.End()
		require.NotNil(t, end.Failure)
		require.Equal(t, runtime.ModelCrash, end.Failure.Class)
		require.Contains(t, end.Failure.Message, "the node failed at step 2, as told")
		a.Start(comfyJob("job_6", `{"steps": 100000}`))
		end = a.End()
		require.NotNil(t, end.Failure)
		require.Equal(t, runtime.InvalidInput, end.Failure.Class)
		require.Contains(t, end.Failure.Message, "Value 100000 bigger than max of 1000")
	})

	t.Run("StartsAgainWhatARestartLost", func(t *testing.T) {
		a := comfyAgent(t, server.URL)
		a.Start(comfyJob("job_7", `{"seed": 12, "steps": 30}`))
		first := a.Handle(submitted)
		a.Await(func(s remotetest.Said) bool { return s.Progress != nil && s.Progress.Step > 2 })
		server.Kill()
		server.Restart()
		end := a.End()
		require.NotNil(t, end.Result, "%+v", end.Failure)
		playable(t, end.Result.Video)
		require.NotEqual(t, keyOf(t, first), keyOf(t, a.LastHandle()))
	})

	t.Run("AdoptsAFilmThatWasFinishedBeforeTheRestart", func(t *testing.T) {
		a := comfyAgent(t, server.URL)
		job := comfyJob("job_8", `{"seed": 13}`)
		a.Start(job)
		job.Handle = a.Handle(submitted)
		require.NotNil(t, a.End().Result)
		a.Kill() // before anybody knows of the result
		server.Kill()
		server.Restart()
		b := comfyAgent(t, server.URL)
		b.Start(job)
		end := b.End()
		require.NotNil(t, end.Result, "%+v", end.Failure)
		playable(t, end.Result.Video)
		require.Equal(t, 1, runsOf(t, dir, keyOf(t, job.Handle)))
	})
}
