package jobs_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// TestTimes covers the reported waiting and running times of a job.
func TestTimes(t *testing.T) {
	t.Parallel()

	// ago moves the start of a job's newest wait and lease into the past. Their durations grow
	// by that, plus a little for the test itself.
	ago := func(t *testing.T, s *jobstest.Stack, id models.JobID, by time.Duration) {
		t.Helper()
		s.Exec(t, "UPDATE jobs SET queued_at = queued_at - make_interval(secs => ?0), leased_at = leased_at - make_interval(secs => ?0) WHERE id = ?1", by.Seconds(), id)
	}
	times := func(t *testing.T, s *jobstest.Stack, id models.JobID) (waited, ran float64) {
		t.Helper()
		require.NoError(t, s.Reads.Jobs.Clock.Pass(t.Context()))
		job, now := s.Reload(t, id), s.Reads.Jobs.Clock.Now()
		require.NotNil(t, job.Waited(now))
		require.NotNil(t, job.Ran(now))
		return *job.Waited(now), *job.Ran(now)
	}
	const slack = 30 // seconds that the test itself may take

	t.Run("SumAllWaitsAndAllAttempts", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job := s.Submit(t)
		ago(t, s, job.ID, 1000*time.Second)
		waited, ran := times(t, s, job.ID)
		require.InDelta(t, 1000, waited, slack, "a wait that goes on counts")
		require.Zero(t, ran)

		_, fence := s.Lease(t, worker)
		ago(t, s, job.ID, 200*time.Second)
		waited, ran = times(t, s, job.ID)
		require.InDelta(t, 1000, waited, slack)
		require.InDelta(t, 200, ran, slack, "an attempt that goes on counts")

		_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		ago(t, s, job.ID, 3000*time.Second)
		_, fence = s.Lease(t, worker)
		ago(t, s, job.ID, 400*time.Second)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err = s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)

		waited, ran = times(t, s, job.ID)
		require.InDelta(t, 4000, waited, slack, "both waits")
		require.InDelta(t, 600, ran, slack, "both attempts")
		ago(t, s, job.ID, time.Hour)
		again, ranAgain := times(t, s, job.ID)
		require.Equal(t, []float64{waited, ran}, []float64{again, ranAgain}, "they stand still once the job is over")
	})

	t.Run("ExcludeTheTimeBeforeRunAtAndBetweenRetries", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		due := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.RunAt = new(time.Now().Add(time.Hour)) })
		s.Exec(t, "UPDATE jobs SET created_at = created_at - interval '1 day', run_at = clock_timestamp() - interval '1 second' WHERE id = ?",
			due.ID)
		waited, _ := times(t, s, due.ID)
		require.Zero(t, waited)
		_, err := s.Releaser.Due(t.Context())
		require.NoError(t, err)
		_, fence := s.Lease(t, worker)
		_, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailTransient})
		require.NoError(t, err)
		require.Equal(t, models.JobScheduled, s.Reload(t, due.ID).Status)
		ago(t, s, due.ID, time.Hour)

		waited, ran := times(t, s, due.ID)

		require.Less(t, waited, float64(slack))
		require.Less(t, ran, float64(slack))
	})

	t.Run("RestartWithANewRun", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		ago(t, s, job.ID, time.Hour)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		waited, _ := times(t, s, job.ID)
		require.InDelta(t, 3600, waited, slack, "a wait counts that ended with the job")

		_, err = s.Retrier.Retry(t.Context(), s.Client, job.ID, false)

		require.NoError(t, err)
		waited, _ = times(t, s, job.ID)
		require.Less(t, waited, float64(slack))
	})

	t.Run("AreUnknownForARunFromBeforeTheyWereCounted", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job := s.Submit(t)
		s.Exec(t, "UPDATE jobs SET queued_seconds = NULL, leased_seconds = NULL WHERE id = ?", job.ID)
		_, fence := s.Lease(t, worker)
		_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)

		old := s.Reload(t, job.ID)

		require.Nil(t, old.Waited(time.Now()))
		require.Nil(t, old.Ran(time.Now()))
	})
}

func TestProcessClock(t *testing.T) {
	t.Parallel()

	t.Run("FollowsPostgreSQLThoughTheProcesssClockIsWrong", func(t *testing.T) {
		t.Parallel()

		s := jobstest.NewClocked(t)
		clock := &jobs.Clock{DB: s.DB}
		require.WithinDuration(t, time.Now(), clock.Now(), time.Minute, "it was never read")

		for _, ahead := range []time.Duration{2 * time.Hour, -2 * time.Hour, 30 * 24 * time.Hour} {
			s.Set(t, ahead)
			require.NoError(t, clock.Pass(t.Context()))

			require.WithinDuration(t, time.Now().Add(ahead), clock.Now(), time.Minute)
		}
	})
}
