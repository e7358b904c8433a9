package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

func TestFullDisk(t *testing.T) {
	t.Parallel()

	written := &fs.PathError{Op: "write", Path: "/work/input-0.mp4", Err: syscall.ENOSPC}
	detailed := runtime.Failf(runtime.ModelCrash, "The program ffmpeg ended with the status 228.")
	detailed.Detail = "video.mp4: No space left on device"
	for name, err := range map[string]error{
		"a download of the agent": fmt.Errorf("fetch the input clips.0: %w", written),
		"a quota":                 &fs.PathError{Op: "mkdir", Path: "/work", Err: syscall.EDQUOT},
		"a crash of the runtime":  runtime.Failf(runtime.ModelCrash, "OSError: [Errno 28] No space left on device"),
		"a program's last words":  detailed,
	} {
		got := describe(err)
		require.Equal(t, runtime.Transient, got.Class, name)
		require.Contains(t, got.Message, "A disk of the host ", name)
		require.Contains(t, got.Message, "--work-dir", name)
		require.Contains(t, got.Message, err.Error(), name)
	}
	require.Equal(t, runtime.ModelCrash, describe(runtime.Failf(runtime.ModelCrash, "NaN in the latents")).Class)
	require.Equal(t, runtime.InvalidInput, describe(runtime.Failf(runtime.InvalidInput, "No space left on device")).Class)
	require.NotContains(t, describe(errors.New("network unreachable")).Message, "disk")

	t.Run("IsNoCrashOfTheJob", func(t *testing.T) {
		t.Parallel()
		story(t, oneJob, func(t *testing.T, f *fixture) {
			<-f.model.started
			f.model.messages <- runtime.Failf(runtime.ModelCrash, "write step-7: no space left on device")
			time.Sleep(time.Second)

			failed := f.of("failJob")
			require.Len(t, failed, 1)
			require.Equal(t, "TRANSIENT", failed[0].in["class"])
			require.Contains(t, failed[0].in["message"], "is full: write step-7")
		})
	})
}
