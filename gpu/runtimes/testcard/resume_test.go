package testcard_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/stretchr/testify/require"
)

const (
	// A video of 24 steps in 1.2 s, slow enough to interrupt at any step.
	slow = `{"durationSeconds":0.5,"fps":8,"pace":2.4,"seed":7,"aspectRatio":"1:1"}`
	// The same frames without a pace.
	fast = `{"durationSeconds":0.5,"fps":8,"pace":0,"seed":7,"aspectRatio":"1:1"}`
)

var calmSea struct {
	once   sync.Once
	frames string
}

// undisturbed returns the hash of the frames of an uninterrupted render, done once
// for all tests.
func undisturbed(t *testing.T) string {
	t.Helper()
	calmSea.once.Do(func() { calmSea.frames = frames(t, render(t, launch(t), newJob(t, "A calm sea", fast)).Video) })
	require.NotEmpty(t, calmSea.frames, "another test was to render it")
	return calmSea.frames
}

// interrupted starts a job, takes a checkpoint once reached is true, and kills the
// runtime. It copies the file away, as an agent does.
func interrupted(t *testing.T, job runtime.Start, reached func(runtime.Message) bool, env ...string) runtime.Restorable {
	t.Helper()

	p := launch(t, env...)
	require.NoError(t, p.Start(job))
	until(t, p, reached)
	taken := checkpoint(t, p)
	p.Kill()
	require.NoError(t, p.Wait())

	content, err := os.ReadFile(taken.Path)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return runtime.Restorable{Path: path, Step: taken.Step}
}

// endless is an ffmpeg that reads a frame and then hangs.
const endless = `case "$*" in *-encoders) exit;; esac; head -c 700000 >/dev/null; exec sleep 600`

func TestResume(t *testing.T) {
	t.Parallel()

	t.Run("GivesTheFramesOfAnUninterruptedRender", func(t *testing.T) {
		t.Parallel()

		job := newJob(t, "A calm sea", slow)
		for _, at := range []int{2, 9, 17} {
			taken := interrupted(t, job, step(at))
			require.GreaterOrEqual(t, taken.Step, at)
			job = newJob(t, "A calm sea", slow)
			job.Checkpoints = []runtime.Restorable{taken}
		}
		p := launch(t)
		require.NoError(t, p.Start(job))
		messages := until(t, p, isEnd)

		resumed := one[*runtime.Resumed](t, messages)
		require.Equal(t, runtime.Resumed{Path: job.Checkpoints[0].Path, Step: job.Checkpoints[0].Step}, *resumed)
		require.Equal(t, undisturbed(t), frames(t, one[*runtime.Result](t, messages).Video))
	})

	t.Run("EncodesAgainIfItWasKilledWhileEncoding", func(t *testing.T) {
		t.Parallel()

		taken := interrupted(t, newJob(t, "A calm sea", fast), encoding, withFFmpeg(t, endless))
		require.Equal(t, 24, taken.Step, "the last step")
		job := newJob(t, "A calm sea", fast)
		job.Checkpoints = []runtime.Restorable{taken}

		got := frames(t, render(t, launch(t), job).Video)

		require.Equal(t, undisturbed(t), got)
	})

	t.Run("FallsBackToOlderCheckpointsAndThenStartsAgain", func(t *testing.T) {
		t.Parallel()

		older := interrupted(t, newJob(t, "A calm sea", slow), step(3))
		newer := interrupted(t, newJob(t, "A calm sea", slow), step(12))
		other := interrupted(t, newJob(t, "A rough sea", slow), step(3))
		damage(t, newer.Path)
		want := undisturbed(t)
		p := launch(t)

		job := newJob(t, "A calm sea", fast)
		job.Checkpoints = []runtime.Restorable{newer, older}
		require.NoError(t, p.Start(job))
		messages := until(t, p, isEnd)
		rejected := one[*runtime.CheckpointRejected](t, messages)
		require.Equal(t, runtime.CheckpointRejected{Path: newer.Path, Reason: "its checksum is wrong"}, *rejected)
		require.Equal(t, older.Step, one[*runtime.Resumed](t, messages).Step)
		require.Equal(t, want, frames(t, one[*runtime.Result](t, messages).Video))

		job = newJob(t, "A calm sea", fast)
		job.Checkpoints = []runtime.Restorable{newer, other, {Path: filepath.Join(t.TempDir(), "gone")}}
		require.NoError(t, p.Start(job))
		messages = until(t, p, isEnd)
		var reasons []string
		for _, message := range messages {
			require.IsNotType(t, &runtime.Resumed{}, message)
			if rejected, ok := message.(*runtime.CheckpointRejected); ok {
				reasons = append(reasons, rejected.Reason)
			}
		}
		require.Len(t, reasons, 3)
		require.Contains(t, reasons[1], "another video")
		require.Equal(t, want, frames(t, one[*runtime.Result](t, messages).Video))
	})

	t.Run("RefusesATruncatedFile", func(t *testing.T) {
		t.Parallel()

		taken := interrupted(t, newJob(t, "A calm sea", slow), step(2))
		content, err := os.ReadFile(taken.Path)
		require.NoError(t, err)
		p := launch(t)
		for _, length := range []int{0, 7, 8, 60, len(content) / 2, len(content) - 1} {
			require.NoError(t, os.WriteFile(taken.Path, content[:length], 0o600))
			job := newJob(t, "A calm sea", slow)
			job.Checkpoints = []runtime.Restorable{taken}
			require.NoError(t, p.Start(job))

			one[*runtime.CheckpointRejected](t, until(t, p, step(1)))

			require.NoError(t, p.Cancel(false))
			until(t, p, isEnd)
		}
	})
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()

	t.Run("IsAnsweredAtOnce", func(t *testing.T) {
		t.Parallel()

		p := launch(t, withFFmpeg(t, endless))
		require.NoError(t, p.Start(newJob(t, "A calm sea", `{"pace":600}`)))
		require.Empty(t, checkpoint(t, p).Path, "nothing is rendered yet")
		require.NoError(t, p.Cancel(false))
		require.IsType(t, &runtime.Cancelled{}, last(until(t, p, isEnd)))

		require.NoError(t, p.Start(newJob(t, "A calm sea", fast)))
		until(t, p, encoding)
		require.FileExists(t, checkpoint(t, p).Path, "it must be answered while the encoder hangs")
		require.NoError(t, p.Cancel(false))
		require.IsType(t, &runtime.Cancelled{}, last(until(t, p, isEnd)))
	})

	t.Run("LeavesNoPartialFile", func(t *testing.T) {
		t.Parallel()

		p := launch(t)
		job := newJob(t, "A calm sea", slow)
		require.NoError(t, p.Start(job))
		until(t, p, step(4))
		taken := checkpoint(t, p)

		entries, err := os.ReadDir(job.Workdir)

		require.NoError(t, err)
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		require.Equal(t, []string{"preview-000001.jpg", filepath.Base(taken.Path)}, names)
	})
}

// damage flips one bit in the middle of a file.
func damage(t *testing.T, path string) {
	t.Helper()

	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[len(content)/2] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
}
