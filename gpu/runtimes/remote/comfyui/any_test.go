package comfyui_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/comfyui"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/stretchr/testify/require"
)

func TestGraphsOfJobs(t *testing.T) {
	t.Parallel()
	picture := filepath.Join(t.TempDir(), "in.png")
	require.NoError(t, os.WriteFile(picture, []byte("\x89PNG\r\n\x1a\n"), 0o600))
	const settings = `{"any": {"nodes": ["LoadImage", "SlowFrames", "CreateVideo", "SaveVideo"], "files": ["small.safetensors"]}}`
	job := func(image string) runtime.Start {
		return runtime.Start{
			Job: "job_1", Model: "comfyui.graph", Type: "video.generate", Settings: json.RawMessage(settings),
			Inputs: map[string]string{"files.0": picture},
			Params: json.RawMessage(`{"files": ["art_1"], "graph": {
				"0": {"class_type": "LoadImage", "inputs": {"image": "` + image + `"}},
				"1": {"class_type": "SlowFrames", "inputs": {
					"frames": 4, "step_seconds": 0, "steps": 1, "seed": 1, "fail_at": -1, "image": ["0", 0]}},
				"2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 24}},
				"3": {"class_type": "SaveVideo", "inputs": {
					"video": ["2", 0], "filename_prefix": "x", "format": "mp4", "codec": "h264"}}}}`),
		}
	}
	agentOf := func(t *testing.T) (*remotetest.Agent, *enginetest.ComfyUI) {
		fake := enginetest.NewComfyUI(t)
		fake.Run(10 * time.Millisecond)
		open := func(url string) remote.Engine { return comfyui.New(remote.Target{URL: url, Limit: time.Second}) }
		return remotetest.New(t, "comfyui", []string{fake.URL}, open, time.Minute), fake
	}

	t.Run("LoadTheFilesOfTheJob", func(t *testing.T) {
		t.Parallel()
		a, fake := agentOf(t)
		a.Start(job("{{files.0}}"))
		end := a.End()
		require.NotNil(t, end.Result, "%+v", end.Failure)
		uploaded, err := filepath.Glob(filepath.Join(fake.Dir, "input", "reelay", "*-files-0.png"))
		require.NoError(t, err)
		require.Len(t, uploaded, 1)
	})

	for name, fault := range map[string]enginetest.Fault{
		"Hang": enginetest.Hang, "HTML": enginetest.HTML, "ErrorWith200": enginetest.ErrorWith200, "Endless": enginetest.Endless,
		"500": enginetest.Status(http.StatusInternalServerError, "broken"), "Cut": enginetest.Cut, "LoseAnswer": enginetest.LoseAnswer,
	} {
		t.Run("SurviveAnUploadWith"+name, func(t *testing.T) {
			t.Parallel()
			a, fake := agentOf(t)
			fake.Fault("POST /upload/image", 1, fault)
			a.Start(job("{{files.0}}"))
			end := a.End()
			require.NotNil(t, end.Result, "%+v", end.Failure)
			require.Equal(t, 1, fake.AllRenders())
		})
	}

	for name, image := range map[string]string{"AFileOfAnotherJob": "reelay/other.png", "AFileThatTheJobLacks": "{{files.1}}"} {
		t.Run("AreRefusedWith"+name, func(t *testing.T) {
			t.Parallel()
			a, fake := agentOf(t)
			a.Start(job(image))
			end := a.End()
			require.NotNil(t, end.Failure)
			require.Equal(t, runtime.InvalidInput, end.Failure.Class)
			require.Contains(t, end.Failure.Message, "the input image of the node 0 (LoadImage)")
			require.NotContains(t, fake.Calls(), "POST /prompt")
			require.NotContains(t, fake.Calls(), "POST /upload/image")
		})
	}
}
