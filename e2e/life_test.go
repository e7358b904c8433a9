package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// submit submits a video of the given seconds and pace.
func submit(t *testing.T, c *client.Client, prompt string, seconds, pace float64) string {
	t.Helper()
	params := json.RawMessage(fmt.Sprintf(`{"durationSeconds": %g, "pace": %g, "fps": 12, "seed": 7}`, seconds, pace))
	done, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "testcard", Prompt: &prompt, Params: &params})
	require.NoError(t, err)
	return done.Job.Id
}

// until follows a job until check returns true.
func until(t *testing.T, c *client.Client, id string, check func(*client.Job) bool) *client.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testrun.WaitLimit)
	defer cancel()
	var last *client.Job
	for job, err := range c.WatchJob(ctx, id, 50*time.Millisecond) {
		if err != nil && ctx.Err() == nil && client.ErrorCode(err) == client.CodeUnavailable {
			continue
		}
		if err != nil {
			said, _ := json.Marshal(last)
			require.NoError(t, err, "the job was last %s", said)
		}
		if last = job; check(job) {
			return job
		}
	}
	require.FailNow(t, "the job ended otherwise", "%+v", last)
	return nil
}

func completed(job *client.Job) bool { return job.Status == client.JobStatusCompleted }

// beyond returns a check that a job's render has passed a percentage, on this attempt or a
// later one.
func beyond(percent float64, attempt int) func(*client.Job) bool {
	return func(job *client.Job) bool {
		return job.AttemptNo >= attempt && job.Status == client.JobStatusRunning && job.Progress.Percent >= percent
	}
}

// workerOf returns the worker that holds a job.
func workerOf(t *testing.T, s *stack, job string) client.Worker {
	t.Helper()
	var found client.Worker
	testrun.Eventually(t, "a worker holds the job", func() bool {
		workers, err := s.operator(t).Workers(t.Context(), client.WorkerFilter{}, 100, "")
		require.NoError(t, err)
		for _, edge := range workers.Edges {
			if w := edge.Node; w.CurrentJob != nil && w.CurrentJob.Id == job {
				found = w
				return true
			}
		}
		return false
	})
	return found
}

// agentPID returns the process id of a local worker.
func agentPID(t *testing.T, w client.Worker) int {
	t.Helper()
	out, err := exec.Command("pgrep", "-f", "agent .*"+w.ProviderInstanceId).Output()
	require.NoError(t, err, "the agent of %s does not run", w.ProviderInstanceId)
	pid, err := strconv.Atoi(strings.Fields(string(out))[0])
	require.NoError(t, err)
	return pid
}

// frames returns the SHA-256 of a finished job's decoded frames.
func frames(t *testing.T, c *client.Client, job *client.Job) string {
	t.Helper()
	video := filepath.Join(t.TempDir(), "video.mp4")
	require.NotNil(t, job.Result)
	require.NoError(t, c.Download(t.Context(), job.Result, video, nil))
	raw := exec.Command("ffmpeg", "-v", "error", "-nostdin", "-i", video, "-f", "rawvideo", "-pix_fmt", "yuv420p", "pipe:1")
	out, err := raw.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, raw.Start())
	sum := sha256.New()
	n, err := io.Copy(sum, out)
	require.NoError(t, err)
	require.Positive(t, n)
	require.NoError(t, raw.Wait())
	return hex.EncodeToString(sum.Sum(nil))
}

func TestPreempt(t *testing.T) {
	t.Parallel()

	t.Run("ResumesElsewhereWithinFiveSecondsOfTheNotice", func(t *testing.T) {
		t.Parallel()

		s := start(t, "--agents", "2")
		c := s.client(t)
		id := submit(t, c, "a train through the night", 4, 3)
		until(t, c, id, beyond(30, 1))
		first := workerOf(t, s, id)

		clock := testrun.StartQuietClock()
		_, err := s.operator(t).PreemptWorker(t.Context(), first.Id, 20*time.Second)
		require.NoError(t, err)
		until(t, c, id, func(job *client.Job) bool {
			return job.AttemptNo == 2 && job.Status == client.JobStatusRunning
		})

		require.Less(t, clock.Elapsed(), 5*time.Second)
		done := until(t, c, id, completed)
		history, err := c.JobHistory(t.Context(), done.Id)
		require.NoError(t, err)
		require.Len(t, history.Attempts, 2)
		require.Equal(t, client.AttemptStatusReleased, history.Attempts[0].Status)
		require.NotNil(t, history.Attempts[1].ResumedFromStep)
		require.Positive(t, *history.Attempts[1].ResumedFromStep)
		require.NotEqual(t, history.Attempts[0].Worker.Id, history.Attempts[1].Worker.Id)
	})

	t.Run("ResumesElsewhereWithinFortySecondsOfAKill", func(t *testing.T) {
		t.Parallel()

		s := start(t, "--agents", "2")
		c := s.client(t)
		id := submit(t, c, "a kite in the storm", 4, 3)
		until(t, c, id, beyond(20, 1))

		clock := testrun.StartQuietClock()
		require.NoError(t, syscall.Kill(agentPID(t, workerOf(t, s, id)), syscall.SIGKILL))
		until(t, c, id, func(job *client.Job) bool {
			return job.AttemptNo == 2 && job.Status == client.JobStatusRunning
		})

		require.Less(t, clock.Elapsed(), 40*time.Second)
		until(t, c, id, completed)
	})
}

func TestFrames(t *testing.T) {
	t.Parallel()

	t.Run("AreTheSameAfterThreeInterruptions", func(t *testing.T) {
		t.Parallel()

		s := start(t, "--agents", "2")
		c := s.client(t)
		const prompt = "a lighthouse in the fog"
		undisturbed := until(t, c, submit(t, c, prompt, 4, 0), completed)

		id := submit(t, c, prompt, 4, 4)
		// Preempted with notice: the worker saves the newest state and another resumes it.
		until(t, c, id, beyond(15, 1))
		_, err := s.operator(t).PreemptWorker(t.Context(), workerOf(t, s, id).Id, 20*time.Second)
		require.NoError(t, err)
		// Killed: everything after the last checkpoint is rendered again.
		until(t, c, id, beyond(25, 2))
		require.NoError(t, syscall.Kill(agentPID(t, workerOf(t, s, id)), syscall.SIGKILL))
		// A worker loses its lease while it continues to render: another registers in its
		// place.
		until(t, c, id, beyond(30, 3))
		usurped := workerOf(t, s, id)
		_, err = s.dial(t, s.keys.WorkerKey).RegisterWorker(t.Context(), client.RegisterWorkerInput{
			Provider: usurped.Provider, ProviderInstanceId: usurped.ProviderInstanceId, Region: usurped.Region,
			GpuType: usurped.GpuType, CapacityClass: usurped.CapacityClass, Models: usurped.Models, AgentVersion: "e2e",
		})
		require.NoError(t, err)
		disturbed := until(t, c, id, completed)

		require.GreaterOrEqual(t, disturbed.AttemptNo, 4)
		require.Equal(t, frames(t, c, undisturbed), frames(t, c, disturbed))
	})
}

func TestStaleWorker(t *testing.T) {
	t.Parallel()

	t.Run("ChangesNothing", func(t *testing.T) {
		t.Parallel()

		s := start(t, "--agents", "2")
		c := s.client(t)
		id := submit(t, c, "a clock that stood still", 4, 4)
		until(t, c, id, beyond(20, 1))
		stopped := agentPID(t, workerOf(t, s, id))
		require.NoError(t, syscall.Kill(stopped, syscall.SIGSTOP))
		t.Cleanup(func() { syscall.Kill(stopped, syscall.SIGCONT) })

		done := until(t, c, id, completed)
		before, err := c.JobHistory(t.Context(), id)
		require.NoError(t, err)
		video := frames(t, c, done)
		require.NoError(t, syscall.Kill(stopped, syscall.SIGCONT))
		// It heartbeats again once it has noticed that its lease is lost.
		testrun.Eventually(t, "the stale worker is idle again", func() bool {
			w, err := s.operator(t).Worker(t.Context(), before.Attempts[0].Worker.Id)
			require.NoError(t, err)
			return w.Status == client.WorkerStatusIdle
		})

		after, err := c.JobHistory(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, client.AttemptStatusLost, before.Attempts[0].Status)
		require.Equal(t, before.Attempts, after.Attempts)
		require.Equal(t, before.Events, after.Events)
		require.Equal(t, len(before.Artifacts), len(after.Artifacts))
		require.Equal(t, done.Result.Checksum, after.Result.Checksum)
		require.Equal(t, video, frames(t, c, &after.Job))
	})
}
