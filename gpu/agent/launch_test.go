package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/agent/host"
	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// TestMain lets this binary be a runtime.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "runtime" {
		ready := runtime.Ready{Runtime: "test", Models: runtime.Offers("testcard")}
		if err := runtime.Serve(context.Background(), os.Stdin, os.Stdout, ready, painter{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Setenv("REELAY_API_KEY", "rl_secret")
	testrun.Main(m.Run)
}

// painter renders its environment, so that a test can look at it.
type painter struct{}

func (painter) Load(context.Context, runtime.Model) error { return nil }

func (painter) Render(_ context.Context, job *runtime.Job) (runtime.Result, error) {
	job.Log("info", "painting "+job.Prompt)
	path := filepath.Join(job.Workdir, "video.mp4")
	return runtime.Result{Video: path}, os.WriteFile(path, []byte(strings.Join(os.Environ(), "\n")), 0o600)
}

func TestLaunch(t *testing.T) {
	t.Parallel()

	t.Run("RunsAProgramThatKnowsNoKey", func(t *testing.T) {
		t.Parallel()
		self, err := os.Executable()
		require.NoError(t, err)
		control := newControl()
		control.queue()
		completed := make(chan object, 1)
		control.set("completeJob", func(in object) (object, client.Code) {
			completed <- in
			return object{"job": object{"id": "job_1"}, "next": nil}, ""
		})
		api, err := client.New("http://control", "rl_enrol", client.WithTransport(control))
		require.NoError(t, err)
		notices := make(chan Notice)
		ended := make(chan error, 1)
		config := Config{
			Client: api, Provider: "local", InstanceID: "one", Region: "here", GPUType: "none", WorkDir: t.TempDir(),
			Runtimes: []host.Command{{Name: "test", Command: []string{self, "runtime"}}},
			Notices:  notices, Log: slog.New(slog.DiscardHandler), Slot: 1, Devices: []string{"2", "3"},
		}

		go func() { ended <- Run(t.Context(), config) }()
		in := <-completed
		notices <- Notice{Reason: "test", Deadline: time.Now().Add(30 * time.Second)}

		require.NoError(t, <-ended)
		require.Equal(t, "video/mp4", in["video"].(object)["contentType"])
		require.Contains(t, control.body("/FINAL_VIDEO/1"), "PATH=")
		require.Contains(t, control.body("/FINAL_VIDEO/1"), "CUDA_VISIBLE_DEVICES=2,3\nROCR_VISIBLE_DEVICES=2,3")
		require.NotContains(t, control.body("/FINAL_VIDEO/1"), "rl_secret")
		require.Equal(t, "info: painting a lighthouse\n", control.body("/LOG/2"))
	})

	t.Run("SaysWhyARuntimeDoesNotStart", func(t *testing.T) {
		t.Parallel()
		api, err := client.New("http://control", "rl_enrol", client.WithTransport(newControl()))
		require.NoError(t, err)

		err = Run(t.Context(), Config{
			Client: api, Provider: "local", InstanceID: "one", Region: "here", GPUType: "none", WorkDir: t.TempDir(),
			Runtimes: []host.Command{{Name: "broken", Command: []string{"sh", "-c", "echo no GPU here >&2; exit 3"}}},
			Log:      slog.New(slog.DiscardHandler),
		})

		require.ErrorContains(t, err, "the runtime broken does not start")
		require.ErrorContains(t, err, "no GPU here")
	})
}
