package comfyui_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/comfyui"
	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest"
	"github.com/reelay/reelay/gpu/runtimes/remote/remotetest"
	"github.com/stretchr/testify/require"
)

// simple is a job whose render takes steps.
var simple = runtime.Start{
	Job: "job_1", Model: "m", Type: "video.generate", Params: json.RawMessage(`{}`),
	Settings: json.RawMessage(`{"inputs": {}, "output": "3", "graph": {
		"1": {"class_type": "SlowFrames", "inputs": {"frames": 8, "step_seconds": 0, "steps": 5, "seed": 1, "fail_at": -1}},
		"2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 8}},
		"3": {"class_type": "SaveVideo", "inputs": {"video": ["2", 0], "filename_prefix": "x", "format": "mp4", "codec": "h264"}}}}`),
}

// called reports whether the fake was called at a path that begins so.
func called(fake *enginetest.ComfyUI, begins string) bool {
	return slices.ContainsFunc(fake.Calls(), func(call string) bool { return strings.HasPrefix(call, begins) })
}

func isSubmitted(handle string) bool { return strings.Contains(handle, `"ref"`) }

func TestJobsOfNewerReleases(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, newer bool) (*remotetest.Agent, *enginetest.ComfyUI) {
		fake := enginetest.NewComfyUI(t)
		fake.Newer(newer)
		open := func(url string) remote.Engine { return comfyui.New(remote.Target{URL: url}) }
		return remotetest.New(t, "comfyui", []string{fake.URL}, open, time.Minute), fake
	}

	t.Run("NeedOneCallAPoll", func(t *testing.T) {
		t.Parallel()
		a, fake := start(t, true)
		fake.Run(10 * time.Millisecond)
		a.Start(simple)
		require.NotNil(t, a.End().Result)
		require.True(t, called(fake, "GET /api/jobs/"))
		require.False(t, called(fake, "GET /queue"))
		require.False(t, called(fake, "GET /history"))
	})

	t.Run("AreCancelledByOneCall", func(t *testing.T) {
		t.Parallel()
		a, fake := start(t, true)
		a.Start(simple)
		a.Handle(isSubmitted)
		a.Cancel(false)
		require.True(t, a.End().Cancelled)
		require.True(t, fake.Idle())
		require.True(t, called(fake, "POST /api/jobs/"))
		require.False(t, called(fake, "POST /interrupt"))
	})

	t.Run("SayWhyANodeFailed", func(t *testing.T) {
		t.Parallel()
		a, fake := start(t, true)
		fake.Run(10 * time.Millisecond)
		job := simple
		job.Settings = json.RawMessage(strings.Replace(string(simple.Settings), `"fail_at": -1`, `"fail_at": 2`, 1))
		a.Start(job)
		end := a.End()
		require.NotNil(t, end.Failure)
		require.Contains(t, end.Failure.Message, "The node 1 (SlowFrames) failed: the node failed at step 2")
	})

	t.Run("AreNotAskedForTwiceInAJobOfAnOlderOne", func(t *testing.T) {
		t.Parallel()
		a, fake := start(t, false)
		fake.Run(10 * time.Millisecond)
		for range 2 {
			a.Start(simple)
			require.NotNil(t, a.End().Result)
		}
		asked := 0
		for _, call := range fake.Calls() {
			if strings.HasPrefix(call, "GET /api/jobs/") {
				asked++
			}
		}
		require.Equal(t, 2, asked)
	})

	for name, fault := range map[string]enginetest.Fault{
		"401":  enginetest.Status(http.StatusUnauthorized, "who?"),
		"404":  enginetest.Status(http.StatusNotFound, "404: Not Found"),
		"405":  enginetest.Status(http.StatusMethodNotAllowed, "405: Method Not Allowed"),
		"500":  enginetest.Status(http.StatusInternalServerError, "broken"),
		"HTML": enginetest.HTML, "ErrorWith200": enginetest.ErrorWith200, "Endless": enginetest.Endless,
		"AnotherJob": enginetest.Set("id", "another"), "AnUnknownStatus": enginetest.Set("status", "paused"),
		"NoSuchJob": func(c *enginetest.Call) {
			c.Answer.WriteHeader(http.StatusNotFound)
			_, _ = c.Answer.Write([]byte(`{"error": "Job not found"}`))
		},
	} {
		t.Run("AreNotNeededAfter"+name, func(t *testing.T) {
			t.Parallel()
			a, fake := start(t, true)
			fake.Fault("/api/jobs/", 0, fault)
			a.Start(simple)
			a.Handle(isSubmitted)
			fake.Step()
			a.Cancel(false)
			require.True(t, a.End().Cancelled)
			require.True(t, fake.Idle())
			fake.Run(10 * time.Millisecond)
			job := simple
			job.Job = "job_2"
			a.Start(job)
			require.NotNil(t, a.End().Result)
			require.Equal(t, 2, fake.AllRenders(), "%v", fake.Calls())
		})
	}

	t.Run("MayLackTheCancel", func(t *testing.T) {
		t.Parallel()
		a, fake := start(t, true)
		fake.Fault("POST /api/jobs/", 0, enginetest.Status(http.StatusMethodNotAllowed, "405: Method Not Allowed"))
		a.Start(simple)
		a.Handle(isSubmitted)
		a.Cancel(false)
		require.True(t, a.End().Cancelled)
		require.True(t, fake.Idle())
		require.True(t, called(fake, "POST /interrupt"))
	})

	for name, newer := range map[string]bool{"Upgrade": true, "Downgrade": false} {
		t.Run("SurviveAn"+name+"InTheMiddle", func(t *testing.T) {
			t.Parallel()
			a, fake := start(t, !newer)
			a.Start(simple)
			first := a.Handle(isSubmitted)
			fake.Kill()
			fake.Newer(newer)
			fake.Restart()
			a.Handle(func(value string) bool { return isSubmitted(value) && value != first })
			fake.Run(10 * time.Millisecond)
			require.NotNil(t, a.End().Result)
			require.Equal(t, 2, fake.AllRenders())
		})
	}
}
