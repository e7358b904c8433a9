package quality_test

import (
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/quality"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// video makes a video of 2 s, 160 × 90 pixels and 24 frames per second from a filter graph.
func video(t *testing.T, graph string, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "video.mp4")
	args := append([]string{"-v", "error", "-nostdin", "-f", "lavfi", "-i", graph, "-t", "2", "-pix_fmt", "yuv420p", "-c:v", "libx264",
		"-preset", "ultrafast"}, more...)
	out, err := ffmpeg(t.Context(), append(args, path)...)
	require.NoError(t, err, string(out))
	return path
}

const card = "testsrc2=s=160x90:r=24"

func TestExpect(t *testing.T) {
	t.Parallel()

	accepts := func(t *testing.T, path string, e quality.Expect) {
		report, err := quality.Check(t.Context(), path, e)
		require.NoError(t, err)
		require.Nil(t, report.Defect)
	}

	t.Run("AcceptsFewFramesThatAllDiffer", func(t *testing.T) {
		t.Parallel()
		for _, fps := range []int{1, 2, 3, 5} {
			for _, seconds := range []float64{0.5, 1, 2, 3} {
				frames := max(1, int(math.Round(seconds*float64(fps))))
				path := video(t, fmt.Sprintf("testsrc2=s=160x90:r=%d", fps), "-t", "9", "-frames:v", strconv.Itoa(frames))
				report, err := quality.Check(t.Context(), path, quality.Expect{FPS: float64(fps), DurationSeconds: seconds})
				require.NoError(t, err)
				require.Nil(t, report.Defect, "%g s at %d frames per second", seconds, fps)
			}
		}
	})

	t.Run("AcceptsBlackPicturesIfAllowed", func(t *testing.T) {
		t.Parallel()
		accepts(t, video(t, "color=black:s=160x90:r=24"), quality.Expect{AllowDark: true})
	})

	t.Run("AcceptsAStillPictureIfAllowed", func(t *testing.T) {
		t.Parallel()
		accepts(t, video(t, "smptebars=s=160x90:r=24"), quality.Expect{AllowStill: true})
	})

	t.Run("AcceptsFineDetailThatBecomesSlightlyFiner", func(t *testing.T) {
		t.Parallel()
		// A wave under static grain, which grows by an eighth after a second: neighbouring
		// pixels have a correlation of 0.33, and then of 0.28.
		accepts(t, video(t, "nullsrc=s=160x90:r=24,geq=cb=128:cr=128:"+
			"lum='128+45*sin(X/20+3*T)+(157+20*gte(T,1))*(mod(abs(sin(X*12.9898+Y*78.233)*43758.5453),1)-0.5)'"), quality.Expect{})
	})

	t.Run("ComparesTheAverageOfAVariableRate", func(t *testing.T) {
		t.Parallel()
		// 18 of each 24 frames are kept.
		path := video(t, card+",select='lt(mod(n\\,24)\\,9)+gt(mod(n\\,24)\\,14)'", "-vsync", "vfr")
		accepts(t, path, quality.Expect{FPS: 18, DurationSeconds: 2})
	})

	t.Run("ComparesTheShorterSide", func(t *testing.T) {
		t.Parallel()
		path := video(t, card)
		accepts(t, path, quality.Expect{ShortSide: 96})

		report, err := quality.Check(t.Context(), path, quality.Expect{ShortSide: 480})

		require.NoError(t, err)
		require.Equal(t, quality.WrongSize, report.Defect.Code)
	})

	t.Run("ReportsAMissingFileAsADefect", func(t *testing.T) {
		t.Parallel()

		report, err := quality.Check(t.Context(), filepath.Join(t.TempDir(), "none.mp4"), quality.Expect{})

		require.NoError(t, err)
		require.Equal(t, quality.Undecodable, report.Defect.Code)
	})

	t.Run("ReportsTheCauseOfItsContextsEnd", func(t *testing.T) {
		t.Parallel()
		cause := errors.New("the job is cancelled")
		ctx, cancel := context.WithCancelCause(t.Context())
		path := video(t, card)
		cancel(cause)

		_, err := quality.Check(ctx, path, quality.Expect{})

		require.ErrorIs(t, err, cause)
	})
}

func TestFrame(t *testing.T) {
	t.Parallel()
	path := video(t, card+",loop=-1:1:10,setpts=N/(24*TB)")
	report, err := quality.Check(t.Context(), path, quality.Expect{})
	require.NoError(t, err)
	require.Equal(t, quality.Frozen, report.Defect.Code)
	require.Len(t, report.Evidence, 2)
	picture := filepath.Join(t.TempDir(), "frame.jpg")

	for _, at := range report.Evidence {
		require.NoError(t, quality.Frame(t.Context(), path, at, picture))

		file, err := os.Open(picture)
		require.NoError(t, err)
		size, err := jpeg.DecodeConfig(file)
		require.NoError(t, file.Close())
		require.NoError(t, err)
		require.Equal(t, 160, size.Width)
	}
	require.ErrorIs(t, quality.Frame(t.Context(), path, 10_000, picture), quality.ErrNoFrame)
	require.NoFileExists(t, picture)
}

// Not parallel: PATH belongs to the whole process.
func TestPrograms(t *testing.T) {
	path := video(t, card)
	folder := t.TempDir()
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))

	t.Run("AreKilledWithTheirChildren", func(t *testing.T) {
		pid := filepath.Join(folder, "pid")
		script := "#!/bin/sh\nsleep 1000 &\necho $! > " + pid + ".new\nmv " + pid + ".new " + pid + "\nwait\n"
		testrun.WriteProgram(t, filepath.Join(folder, "ffprobe"), script)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			for {
				if _, err := os.Stat(pid); err == nil || t.Context().Err() != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()

		_, err := quality.Check(ctx, path, quality.Expect{})

		require.ErrorIs(t, err, context.Canceled)
		text, err := os.ReadFile(pid)
		require.NoError(t, err)
		child, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return dead(child) }, time.Minute, 5*time.Millisecond)
	})

	t.Run("ThatLackMemorySayNothingOfTheVideo", func(t *testing.T) {
		script := "#!/bin/sh\necho 'ffprobe: error while loading shared libraries: liblapack.so.3: failed to map segment from shared object' >&2\nexit 127\n"
		testrun.WriteProgram(t, filepath.Join(folder, "ffprobe"), script)

		_, err := quality.Check(t.Context(), path, quality.Expect{})

		require.ErrorContains(t, err, "this host has too little memory or too many processes for ffprobe: ")
	})

	t.Run("AreRequired", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())

		_, err := quality.Check(t.Context(), path, quality.Expect{})

		require.ErrorIs(t, err, quality.ErrMissing)
	})
}

// dead reports whether a process has ended, even if nobody has waited for it.
func dead(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
