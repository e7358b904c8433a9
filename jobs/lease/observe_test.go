package lease_test

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestObserveAttempts(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	seen := &jobstest.Tally{}
	s.Notifier.Observer = seen
	s.Submit(t)
	worker := s.Worker(t, "one")
	release := func() {
		_, fence := s.Lease(t, worker)
		_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
	}

	release()
	s.Exec(t, "UPDATE workers SET drain_reason = ?", models.LeavesFewer)
	release()
	s.Exec(t, "UPDATE workers SET drain_reason = ?", models.LeavesIdle)
	release()
	s.Exec(t, "UPDATE workers SET drain_reason = NULL")
	_, fence := s.Lease(t, worker)
	saved := jobs.Checkpoint{Object: s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("state")), Step: 1, Percent: 1,
		DurationSeconds: new(2.5)}
	for range 2 {
		_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, saved)
		require.NoError(t, err)
	}
	s.ExpireLease(t, fence.AttemptID)
	_, err := s.Reaper.Reap(t.Context())
	require.NoError(t, err)

	require.Len(t, seen.Ends, 4)
	taken, left, idle, expired := seen.Ends[0], seen.Ends[1], seen.Ends[2], seen.Ends[3]
	require.True(t, taken.Preempted)
	require.False(t, left.Preempted || idle.Preempted, "Reelay or the worker's agent wanted it to leave")
	require.False(t, taken.Expired || left.Expired)
	require.True(t, expired.Expired)
	require.Equal(t, fence.AttemptID, expired.Attempt.ID)
	require.Equal(t, worker.WorkerID, expired.Worker.ID)
	require.Equal(t, []*float64{new(2.5)}, seen.Checkpoints, "one that is saved again counts once")
}
