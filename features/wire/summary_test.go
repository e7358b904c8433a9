package wire_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// summary returns a job's current summary as clients read it.
func summary(t *testing.T, s *jobstest.Stack, id models.JobID) map[string]any {
	t.Helper()
	all, err := wire.New(s.Reads).OfJobs(t.Context(), jobs.Host, []*models.Job{s.Reload(t, id)}, s.Base, time.Hour)
	require.NoError(t, err)
	raw, err := json.Marshal(all[0])
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(raw, &fields))
	return fields
}

func fetched(t *testing.T, link any) string {
	t.Helper()
	require.IsType(t, "", link)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link.(string), nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

func TestSummarize(t *testing.T) {
	t.Parallel()

	t.Run("HasNullForUnknownValues", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)

		got := summary(t, s, job.ID)

		created, err := time.Parse(time.RFC3339Nano, got["created_at"].(string))
		require.NoError(t, err)
		require.True(t, job.CreatedAt.Equal(created))
		delete(got, "created_at")
		require.NotContains(t, got, "time", "it has not ended")
		require.Equal(t, map[string]any{
			"waited_seconds": 0.0, "ran_seconds": 0.0,
			"job_id": string(job.ID), "model": "testcard", "status": "queued", "progress_pct": 0.0, "phase": "waiting", "progress_message": nil,
			"eta_seconds": nil, "estimated_wait_seconds": nil, "attempt_no": 0.0, "max_attempts": 5.0,
			"result_url": nil, "thumbnail_url": nil, "preview_url": nil, "duration_sec": 1.0, "processing_time_ms": nil, "cost_usd": 0.0, "estimated_cost_usd": nil,
			"failure_reason": nil, "started_at": nil, "completed_at": nil,
			"user_id": nil, "metadata": nil,
		}, got)
	})

	t.Run("LinksToTheVideoAndItsStill", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		s.Upload(t, worker, fence, models.ArtifactThumbnail, []byte("a still that nobody named"))
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		video.Metadata = json.RawMessage(`{"durationSeconds": 0.96}`)
		still := s.Upload(t, worker, fence, models.ArtifactThumbnail, []byte("its still"))
		_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video, Thumbnail: &still})
		require.NoError(t, err)
		s.Exec(t, "UPDATE jobs SET started_at = completed_at - interval '1.5 seconds' WHERE id = ?", job.ID)

		got := summary(t, s, job.ID)

		require.Equal(t, "completed", got["status"])
		require.Equal(t, "done", got["phase"])
		require.InDelta(t, 100, got["progress_pct"], 0)
		require.InDelta(t, 0.96, got["duration_sec"], 0)
		require.InDelta(t, 1500, got["processing_time_ms"], 0)
		require.NotNil(t, got["completed_at"])
		require.Equal(t, "a video", fetched(t, got["result_url"]))
		require.Equal(t, "its still", fetched(t, got["thumbnail_url"]))
	})

	t.Run("SaysWhyAJobFailed", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: "not this video"})
		require.NoError(t, err)

		got := summary(t, s, job.ID)

		require.Equal(t, "failed", got["status"])
		require.Contains(t, got["failure_reason"], "not this video")
		require.Nil(t, got["result_url"])
	})

	t.Run("TakesTheSameStatementsForManyJobs", func(t *testing.T) {
		t.Parallel()

		s, first := jobstest.Completed(t)
		worker := s.Worker(t, "two")
		rows := []*models.Job{first}
		for range 9 {
			s.Submit(t)
			_, fence := s.Lease(t, worker)
			video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
			end, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
			require.NoError(t, err)
			rows = append(rows, end.Job)
		}
		count := &jobstest.QueryCount{}
		s.ReadOver(s.DB.WithQueryHook(count))

		all, err := wire.New(s.Reads).OfJobs(t.Context(), jobs.Host, rows, s.Base, time.Hour)

		require.NoError(t, err)
		require.Equal(t, int64(2), count.N.Load(), "their files, and their costs")
		for i, s := range all {
			require.Equal(t, rows[i].ID, s.JobID)
			require.NotNil(t, s.ResultURL)
		}
	})
}
