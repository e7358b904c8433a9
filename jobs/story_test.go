package jobs_test

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestJob(t *testing.T) {
	t.Parallel()

	t.Run("GoesFromSubmitToVideo", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		worker := s.Worker(t, "one")
		granted, fence := s.Lease(t, worker)
		_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
		require.NoError(t, err)
		_, err = s.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{
			Progress: models.Progress{Percent: 40, Phase: models.PhaseRendering, Message: "step 4 of 10"},
		})
		require.NoError(t, err)
		checkpoint := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("state at step 4"))
		_, err = s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Object: checkpoint, Step: 4, Percent: 40})
		require.NoError(t, err)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))

		end, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})

		require.NoError(t, err)
		require.Equal(t, job.ID, granted.Job.ID)
		require.Equal(t, models.JobCompleted, end.Job.Status)
		require.Equal(t, 100.0, end.Job.Progress.Percent)
		require.Equal(t, []models.JobEventType{
			models.EventQueued, models.EventLeased, models.EventStarted, models.EventProgress, models.EventCheckpointed, models.EventCompleted,
		}, jobstest.EventTypes(t, s, job.ID))
		account, err := models.GetAccounts(t.Context(), s.DB, []models.AccountID{s.Account.ID})
		require.NoError(t, err)
		require.Zero(t, account[0].Queued)
		require.Zero(t, account[0].Running)
	})
}
