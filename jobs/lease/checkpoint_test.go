package lease_test

import (
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestCommitCheckpoint(t *testing.T) {
	t.Parallel()

	t.Run("RefusesAnObjectThatDiffersFromTheStore", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		bad := badObjects(t, s, worker, fence, models.ArtifactCheckpoint)
		before := s.Dump(t)

		for name, c := range bad {
			_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Object: c.o, Step: 1, Percent: 1})
			require.Error(t, err, name)
			jobstest.RequireCode(t, err, c.code)
		}
		_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Step: -1})
		jobstest.RequireInvalid(t, err, "step")
		_, err = s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Percent: 100.5})
		jobstest.RequireInvalid(t, err, "percent")
		require.Equal(t, before, s.Dump(t))
		require.Empty(t, s.Reload(t, job.ID).LatestCheckpointID)
	})

	t.Run("CommitsOnce", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		first := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("one"))
		second := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("two"))
		commit := func(o jobs.UploadedObject, step int) {
			_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Object: o, Step: step, Percent: float64(step)})
			require.NoError(t, err)
		}
		commit(first, 1)
		commit(second, 2)
		before := s.Reload(t, job.ID)

		commit(second, 2)
		commit(first, 1)

		after := s.Reload(t, job.ID)
		require.Equal(t, before.LatestCheckpointID, after.LatestCheckpointID, "a late repeat does not turn the job back")
		require.Equal(t, before.EventSeq, after.EventSeq)
		require.Equal(t, 2, s.Count(t, "artifacts"))
	})

	t.Run("GivesTheNextAttemptTheNewestCheckpointsFirst", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		for step := 1; step <= 3; step++ {
			o := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte{byte(step)})
			_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Object: o, Step: step, Percent: float64(step)})
			require.NoError(t, err)
		}
		_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)

		next, nextFence := s.Lease(t, worker)

		require.Len(t, next.Checkpoints, 2)
		require.Equal(t, []int{3, 2}, []int{*next.Checkpoints[0].Step, *next.Checkpoints[1].Step})
		_, err = s.Attempts.RejectCheckpoint(t.Context(), worker, nextFence, next.Checkpoints[0].ID, "it does not open")
		require.NoError(t, err)
		require.Equal(t, next.Checkpoints[1].ID, s.Reload(t, job.ID).LatestCheckpointID)
		_, err = s.Attempts.ReportProgress(t.Context(), worker, nextFence, lease.ProgressReport{
			Progress: models.Progress{Phase: models.PhaseResuming, Percent: 2}, ResumedFrom: next.Checkpoints[1].ID,
		})
		require.NoError(t, err)
		attempt, err := models.GetAttempt(t.Context(), s.DB, nextFence.AttemptID)
		require.NoError(t, err)
		require.Equal(t, 2, *attempt.ResumedFromStep)
		_, err = s.Attempts.RejectCheckpoint(t.Context(), worker, nextFence, models.NewArtifactID(), "")
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		s.RequireInvariants(t)
	})
}
