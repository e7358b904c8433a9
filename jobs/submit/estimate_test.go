package submit_test

import (
	"math"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestEstimateJobs(t *testing.T) {
	t.Parallel()
	const slack = 30 // seconds that the test itself may take

	t.Run("ForecastsStartAndCompletionOfEachJob", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		var rows []*models.Job
		for range 3 {
			job, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "89"))
			require.NoError(t, err)
			rows = append(rows, job)
		}
		none, err := s.EdgesOf(t, rows...).Estimates(t.Context())
		require.NoError(t, err)
		require.Empty(t, none, "nothing is known")
		s.Lease(t, worker)
		rows[0] = s.Reload(t, rows[0].ID)
		require.NoError(t, s.Estimates.Refresh(t.Context()))

		found, err := s.EdgesOf(t, rows...).Estimates(t.Context())

		require.NoError(t, err)
		for i, wait := range []float64{0, 90, 180} {
			guess := found[rows[i].ID]
			if i == 0 {
				require.Nil(t, guess.WaitSeconds, "it waits no more")
			} else {
				require.InDelta(t, wait, *guess.WaitSeconds, slack)
				require.InDelta(t, math.Round(10**guess.WaitSeconds)/10, *guess.WaitSeconds, 0, "to tenths")
			}
			require.WithinDuration(t, time.Now().Add(time.Duration(wait+90)*time.Second), guess.CompletionAt, slack*time.Second)
			require.Zero(t, guess.CompletionAt.Nanosecond())
		}
		estimate, err := s.Submitter.Estimate(t.Context(), s.Client, submission("", "89"))
		require.NoError(t, err)
		require.InDelta(t, 270, *estimate.WaitSeconds, slack)
		require.Equal(t, 3, estimate.Position)
		require.InDelta(t, 90, *estimate.RenderSeconds, 0.1)
		drains, err := s.Reads.Queues.Drains(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 180, *drains.Of(models.TierEnterprise, "testcard").Seconds, 0.1)
	})

	t.Run("CountsTheTimeUntilAJobIsDue", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.Worker(t, "one")
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		in := submission("", "10")
		in.RunAt = new(time.Now().Add(time.Hour))

		estimate, err := s.Submitter.Estimate(t.Context(), s.Client, in)

		require.NoError(t, err)
		require.InDelta(t, 3600, *estimate.WaitSeconds, 60)
		require.InDelta(t, 3600, *estimate.WaitSecondsP90, 60)
	})

	t.Run("RefusesTheTimesThatSubmitRefuses", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		for field, in := range map[string]submit.Submission{
			"runAt":     {Model: "testcard", Prompt: "x", RunAt: new(time.Now().AddDate(9, 0, 0))},
			"expiresAt": {Model: "testcard", Prompt: "x", ExpiresAt: new(time.Now().Add(-time.Hour))},
		} {
			_, err := s.Submitter.Estimate(t.Context(), s.Client, in)
			jobstest.RequireInvalid(t, err, field)
		}
	})

	t.Run("KnowsThatAnAccountHasJustReachedItsLimit", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_running = 1 WHERE id = ?", s.Account.ID)
		worker, _ := s.Worker(t, "one"), s.Worker(t, "two")
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		var rows []*models.Job
		for range 3 {
			job, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "89"))
			require.NoError(t, err)
			rows = append(rows, job)
		}
		s.Lease(t, worker)

		wait := func(i int) float64 {
			found, err := s.EdgesOf(t, rows...).Estimates(t.Context())
			require.NoError(t, err)
			return *found[rows[i].ID].WaitSeconds
		}
		testrun.Eventually(t, "the forecast is learnt", func() bool { return math.Abs(wait(1)-90) < slack && math.Abs(wait(2)-180) < slack })
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		require.InDelta(t, 90, wait(1), slack, "it says the same")
		require.InDelta(t, 180, wait(2), slack)
	})

	t.Run("CountsAJobThatStartedAfterItsAccountWasRead", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_running = 1 WHERE id = ?", s.Account.ID)
		worker, _ := s.Worker(t, "one"), s.Worker(t, "two")
		_, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "89"))
		require.NoError(t, err)
		s.Lease(t, worker)
		require.NoError(t, s.Estimates.Refresh(t.Context()))

		next, _, err := s.Submitter.Submit(t.Context(), s.Client, submission("", "89"))

		require.NoError(t, err)
		require.InDelta(t, 90, *next.PredictedWaitSeconds, slack)
	})

	t.Run("LearnsHowLongRendersTake", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job := s.Submit(t)
		_, fence := s.Lease(t, worker)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("video"))
		_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
		s.Exec(t, "UPDATE job_attempts SET gpu_seconds = 3 WHERE job_id = ?", job.ID)
		s.Exec(t, "UPDATE learning SET began_at = began_at - interval '1 minute', until = until - interval '1 minute'")
		s.Exec(t, "UPDATE jobs SET completed_at = completed_at - interval '3 seconds' WHERE id = ?", job.ID)

		n, err := s.Learner.Learn(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		n, err = s.Learner.Learn(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "each job teaches once")

		require.NoError(t, s.Estimates.Refresh(t.Context()))
		estimate, err := s.Submitter.Estimate(t.Context(), s.Client, submission("", "0"))
		require.NoError(t, err)
		require.InDelta(t, 3, *estimate.RenderSeconds, 0.01, "three times what the catalogue says")
	})
}
