package jobs_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestReportProgress(t *testing.T) {
	t.Parallel()

	t.Run("KeepsTheNewestAndTellsOfItNowAndThen", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := leased(t)
		full := models.Progress{
			Percent: 10, Phase: models.PhaseRendering, Message: "frame 3 of 30", Step: new(1), TotalSteps: new(2), Frame: new(3), TotalFrames: new(30), ETASeconds: new(4.5),
		}
		_, err := s.Holder.ReportProgress(t.Context(), worker, fence, jobs.ProgressReport{Progress: full})
		require.NoError(t, err)
		after := s.Reload(t, job.ID)
		require.WithinDuration(t, time.Now(), after.Progress.UpdatedAt, time.Minute)
		full.UpdatedAt = after.Progress.UpdatedAt
		require.Equal(t, full, after.Progress)
		require.Equal(t, models.JobRunning, after.Status, "it is the first sign of work")

		for _, step := range []struct {
			percent float64
			told    int
		}{{10.9, 1}, {11.1, 2}, {12, 2}, {12.1, 3}, {3, 4}, {2.1, 4}} {
			require.NoError(t, reporting(t, s, worker, fence, step.percent)())
			require.Equal(t, step.percent, s.Reload(t, job.ID).Progress.Percent)
			require.Len(t, eventTypes(t, s, job.ID), 3+step.told, step)
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

	t.Run("OfOneBatchKeepsTheLastOfEachJobBesideTheHeartbeats", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := leased(t)
		require.NoError(t, reporting(t, s, worker, fence, 1)())
		s.Submit(t)
		other := s.Worker(t, "two")
		lease, theirs := s.Lease(t, other)
		require.NoError(t, reporting(t, s, other, theirs, 1)())

		errs := inOneBatch(t, s, nil,
			reporting(t, s, worker, fence, 20),
			func() error {
				_, err := s.Holder.Heartbeat(t.Context(), worker, fence, []jobs.GPUSample{{Utilization: 0.5}})
				return err
			},
			reporting(t, s, other, theirs, 50),
			reporting(t, s, worker, fence, 40),
			reporting(t, s, worker, jobs.Fence{AttemptID: fence.AttemptID, Token: models.NewFencingToken()}, 60))

		for _, err := range errs[:4] {
			require.NoError(t, err)
		}
		require.ErrorIs(t, errs[4], jobs.ErrLeaseLost)
		require.Equal(t, 40.0, s.Reload(t, job.ID).Progress.Percent)
		require.Equal(t, 50.0, s.Reload(t, lease.Job.ID).Progress.Percent)
		events, err := models.ListJobEvents(t.Context(), s.DB, job.ID, 4, 1000)
		require.NoError(t, err)
		require.Len(t, events, 1)
		var told struct{ Percent float64 }
		require.NoError(t, json.Unmarshal(events[0].Payload, &told))
		require.Equal(t, 40.0, told.Percent)
		held, err := s.Reader.Worker(t.Context(), worker.WorkerID)
		require.NoError(t, err)
		require.Equal(t, []float64{0.5}, held.GPUUtilization, "a report has no samples, and takes none away")
		s.RequireInvariants(t)
	})

	t.Run("IsKeptWhileTheFilmIsUploaded", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := leased(t)
		_, err := s.Holder.ReportProgress(t.Context(), worker, fence, jobs.ProgressReport{Progress: models.Progress{Phase: models.PhaseUploading, Percent: 98}})
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
}
