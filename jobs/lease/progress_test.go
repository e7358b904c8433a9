package lease_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestReportProgress(t *testing.T) {
	t.Parallel()

	t.Run("KeepsTheNewestAndPublishesItPeriodically", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		full := models.Progress{
			Percent: 10, Phase: models.PhaseRendering, Message: "frame 3 of 30", Step: new(1), TotalSteps: new(2), Frame: new(3),
			TotalFrames: new(30), ETASeconds: new(4.5),
		}
		_, err := s.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{Progress: full})
		require.NoError(t, err)
		after := s.Reload(t, job.ID)
		require.WithinDuration(t, time.Now(), after.Progress.UpdatedAt, time.Minute)
		full.UpdatedAt = after.Progress.UpdatedAt
		require.Equal(t, full, after.Progress)
		require.Equal(t, models.JobRunning, after.Status, "it is the first sign of work")

		for _, step := range []struct {
			percent  float64
			notified int
		}{{10.9, 1}, {11.1, 2}, {12, 2}, {12.1, 3}, {3, 4}, {2.1, 4}} {
			require.NoError(t, reporting(t, s, worker, fence, step.percent)())
			require.Equal(t, step.percent, s.Reload(t, job.ID).Progress.Percent)
			require.Len(t, jobstest.EventTypes(t, s, job.ID), 3+step.notified, step)
		}
		s.Exec(t, "UPDATE jobs SET progress_event_at = progress_event_at - interval '5 s' WHERE id = ?", job.ID)
		require.NoError(t, reporting(t, s, worker, fence, 2.1)())

		after = s.Reload(t, job.ID)
		require.Nil(t, after.Progress.Step, "what is not said any more is not kept")
		require.Empty(t, after.Progress.Message)
		events, err := models.ListJobEvents(t.Context(), s.DB, job.ID, 3, 1000)
		require.NoError(t, err)
		require.Len(t, events, 5)
		for i, payload := range []string{
			`{"percent": 10, "phase": "RENDERING", "message": "frame 3 of 30"}`,
			`{"percent": 11.1, "phase": "RENDERING", "message": ""}`,
			`{"percent": 12.1, "phase": "RENDERING", "message": ""}`,
			`{"percent": 3, "phase": "RENDERING", "message": ""}`,
			`{"percent": 2.1, "phase": "RENDERING", "message": ""}`,
		} {
			require.JSONEq(t, payload, string(events[i].Payload))
			require.Equal(t, fence.AttemptID, events[i].AttemptID)
			require.Equal(t, 1, events[i].Run)
		}
		require.Equal(t, after.Progress.UpdatedAt, events[4].CreatedAt)
		s.RequireInvariants(t)
	})

	t.Run("OfOneBatchKeepsEachJobsLastReportAndTheHeartbeats", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		require.NoError(t, reporting(t, s, worker, fence, 1)())
		s.Submit(t)
		other := s.Worker(t, "two")
		granted, theirs := s.Lease(t, other)
		require.NoError(t, reporting(t, s, other, theirs, 1)())

		errs := inOneBatch(t, s, nil,
			reporting(t, s, worker, fence, 20),
			func() error {
				_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, []lease.GPUSample{{Utilization: new(0.5)}})
				return err
			},
			reporting(t, s, other, theirs, 50),
			reporting(t, s, worker, fence, 40),
			reporting(t, s, worker, lease.Fence{AttemptID: fence.AttemptID, Token: models.NewFencingToken()}, 60))

		for _, err := range errs[:4] {
			require.NoError(t, err)
		}
		require.ErrorIs(t, errs[4], apierror.ErrLeaseLost)
		require.Equal(t, 40.0, s.Reload(t, job.ID).Progress.Percent)
		require.Equal(t, 50.0, s.Reload(t, granted.Job.ID).Progress.Percent)
		events, err := models.ListJobEvents(t.Context(), s.DB, job.ID, 4, 1000)
		require.NoError(t, err)
		require.Len(t, events, 1)
		var told struct{ Percent float64 }
		require.NoError(t, json.Unmarshal(events[0].Payload, &told))
		require.Equal(t, 40.0, told.Percent)
		held, err := s.Reads.Fleet.Worker(t.Context(), worker.WorkerID)
		require.NoError(t, err)
		require.Equal(t, []float64{0.5}, held.GPUUtilization, "a report has no samples, and takes none away")
		s.RequireInvariants(t)
	})

	t.Run("IsKeptDuringTheUploadOfTheVideo", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		_, err := s.Attempts.ReportProgress(t.Context(), worker, fence,
			lease.ProgressReport{Progress: models.Progress{Phase: models.PhaseUploading, Percent: 98}})
		require.NoError(t, err)
		after := s.Reload(t, job.ID)
		require.Equal(t, models.JobCompleting, after.Status)
		require.Equal(t, 98.0, after.Progress.Percent)

		require.NoError(t, reporting(t, s, worker, fence, 99)())

		after = s.Reload(t, job.ID)
		require.Equal(t, models.JobCompleting, after.Status)
		require.Equal(t, 99.0, after.Progress.Percent)
		require.Equal(t, models.PhaseRendering, after.Progress.Phase)
	})

	t.Run("ReadsTheJobAgainAfterWaitingForItsLock", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		require.NoError(t, reporting(t, s, worker, fence, 1)())
		var answer *lease.Answer

		err := whileBatched(t, s, []string{
			"INSERT INTO job_events (job_id, seq, run, type, payload) SELECT id, event_seq + 1, run, 'CANCEL_REQUESTED', '{}' FROM jobs WHERE id = ?0",
			"UPDATE jobs SET event_seq = event_seq + 1, crashes = 1, cancel_requested_at = now(), cancel_reason = 'enough' WHERE id = ?0",
		}, job.ID, func() (err error) {
			answer, err = s.Attempts.ReportProgress(t.Context(), worker, fence,
				lease.ProgressReport{Progress: models.Progress{Phase: models.PhaseRendering, Percent: 50}})
			return err
		})

		require.NoError(t, err)
		require.Equal(t, lease.Directive{Action: lease.DirectCancel, Reason: "enough", JobID: job.ID}, answer.Directive)
		after := s.Reload(t, job.ID)
		require.Equal(t, 1, after.Crashes)
		require.Equal(t, 50.0, after.Progress.Percent)
		require.Equal(t, []models.JobEventType{
			models.EventQueued, models.EventLeased, models.EventStarted, models.EventProgress, models.EventCancelRequested, models.EventProgress,
		}, jobstest.EventTypes(t, s, job.ID))
		s.RequireInvariants(t)
	})

	t.Run("WritesNothingForALeaseLostWhileItWaited", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		require.NoError(t, reporting(t, s, worker, fence, 1)())

		err := whileBatched(t, s, []string{
			"SELECT FROM jobs WHERE id = ?0 FOR NO KEY UPDATE",
			"UPDATE job_attempts SET status = 'LOST', failure_class = 'WORKER_LOST', ended_at = now() WHERE job_id = ?0",
		}, job.ID, reporting(t, s, worker, fence, 50))

		require.ErrorIs(t, err, apierror.ErrLeaseLost)
		require.Equal(t, 1.0, s.Reload(t, job.ID).Progress.Percent)
	})

	t.Run("ThatCannotBeWrittenDoesNotAffectHeartbeats", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		require.NoError(t, reporting(t, s, worker, fence, 1)())
		s.Submit(t)
		other := s.Worker(t, "two")
		_, theirs := s.Lease(t, other)
		require.NoError(t, reporting(t, s, other, theirs, 1)())
		s.Exec(t, "INSERT INTO job_events (job_id, seq, run, type, payload) SELECT id, event_seq + 1, run, 'PROGRESS', '{}' FROM jobs WHERE id = ?", job.ID)

		errs := inOneBatch(t, s, nil, reporting(t, s, worker, fence, 50), func() error {
			_, err := s.Attempts.Heartbeat(t.Context(), other, theirs, nil)
			return err
		})

		require.ErrorContains(t, errs[0], "duplicate key")
		require.NoError(t, errs[1])
	})

	t.Run("NotifiesFollowersOfTheJobAndOfAllJobs", func(t *testing.T) {
		t.Parallel()

		const reports = 5
		s, job, worker, fence := jobstest.Leased(t)
		ofJob, ofAll := make(chan bool, 3*reports), make(chan bool, 3*reports)
		news := s.Notifier.Notifications
		defer news.Subscribe(t.Context(), string(job.ID), func() { ofJob <- true })()
		defer news.Subscribe(t.Context(), change.TopicChanges, func() { ofAll <- true })()

		for i := range reports {
			require.NoError(t, reporting(t, s, worker, fence, float64(2*i))())
		}

		for range reports { // two more may come from the lease and the start
			<-ofJob
			<-ofAll
		}
	})
}

// whileBatched makes a call wait for a transaction that runs these statements about a job.
func whileBatched(t *testing.T, s *jobstest.Stack, queries []string, job models.JobID, call func() error) error {
	t.Helper()
	answer := make(chan error, 1)
	require.NoError(t, s.DB.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		for _, query := range queries {
			_, err := tx.NewRaw(query, job).Exec(ctx)
			require.NoError(t, err)
		}
		go func() { answer <- call() }()
		s.WaitForLocks(t, 1)
		return nil
	}))
	return <-answer
}
