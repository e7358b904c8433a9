package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// TestClock covers clocks that disagree. Only PostgreSQL's counts, so the others make no
// difference. When PostgreSQL's clock jumps, no job is lost or done twice.
func TestClock(t *testing.T) {
	t.Parallel()

	for _, ahead := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		t.Run(fmt.Sprintf("OfOursMayBeMinutesOff/%s", ahead), func(t *testing.T) {
			t.Parallel()
			s := jobstest.NewClocked(t)
			s.Set(t, ahead)
			s.Present(t)
			s.Exec(t, "UPDATE presence SET gap_began_at = NULL, gap_ended_at = NULL")
			job, one, two := s.Submit(t), s.Worker(t, "one"), s.Worker(t, "two")

			_, first := s.Lease(t, one)
			_, err := s.Attempts.Heartbeat(t.Context(), one, first, nil)
			require.NoError(t, err)
			require.Zero(t, s.Reap(t), "a lease that is held")
			s.ExpireLease(t, first.AttemptID)
			require.Equal(t, 1, s.Reap(t), "a lease that ran out")
			_, second := s.Lease(t, two)
			_, err = s.Attempts.Heartbeat(t.Context(), one, first, nil)
			jobstest.RequireCode(t, err, apierror.CodeLeaseLost)
			s.Complete(t, two, second)

			ended := s.Reload(t, job.ID)
			require.Equal(t, models.JobCompleted, ended.Status)
			require.WithinDuration(t, time.Now().Add(ahead), ended.CompletedAt, time.Minute)
			s.RequireInvariants(t)
		})

		t.Run(fmt.Sprintf("OfPostgreSQLMayJump/%s", ahead), func(t *testing.T) {
			t.Parallel()
			s := jobstest.NewClocked(t)
			job, worker := s.Submit(t), s.Worker(t, "one")
			_, fence := s.Lease(t, worker)

			s.Set(t, ahead)
			require.Zero(t, s.Reap(t), "it looks as if we had been away: the worker has a lease's time to come back")
			s.Present(t)
			require.Zero(t, s.Reap(t))
			answer, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
			require.NoError(t, err)
			require.False(t, answer.LeaseExpiresAt.Before(time.Now().Add(ahead)), "no lease gets shorter by being renewed")
			s.Complete(t, worker, fence)

			require.Equal(t, models.JobCompleted, s.Reload(t, job.ID).Status)
			require.GreaterOrEqual(t, s.Attempt(t, fence).GPUSeconds, 0.0, "nobody is paid for going back in time")
			s.RequireInvariants(t)
		})

		t.Run(fmt.Sprintf("OfPostgreSQLMayJumpBetweenAttempts/%s", ahead), func(t *testing.T) {
			t.Parallel()
			s := jobstest.NewClocked(t)
			job, one, two := s.Submit(t), s.Worker(t, "one"), s.Worker(t, "two")
			_, first := s.Lease(t, one)
			_, err := s.Attempts.Release(t.Context(), one, first, models.FailPreempted)
			require.NoError(t, err)

			s.Set(t, ahead)
			_, second := s.Lease(t, two)
			_, err = s.Attempts.Heartbeat(t.Context(), one, first, nil)
			jobstest.RequireCode(t, err, apierror.CodeLeaseLost)
			s.Complete(t, two, second)

			require.Equal(t, models.JobCompleted, s.Reload(t, job.ID).Status)
		})
	}
}
