package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

// clocked is a stack whose PostgreSQL has a clock that a test can set.
type clocked struct {
	*jobstest.Stack
	clock *modelstest.Clock
}

func newClocked(t *testing.T) clocked {
	t.Helper()
	clock := modelstest.NewClock(t, modelstest.DSN(t))
	db, done, err := models.Open(t.Context(), clock.DSN, 8)
	require.NoError(t, err)
	t.Cleanup(done)
	s := clocked{jobstest.Over(t, db), clock}
	s.Exec(t, "UPDATE presence SET seen_at = clock_timestamp()")
	return s
}

// set sets PostgreSQL's clock ahead of this machine's.
func (s clocked) set(t *testing.T, ahead time.Duration) {
	t.Helper()
	s.clock.Set(t, ahead)
	now, err := models.Now(t.Context(), s.DB)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(ahead), now, time.Minute)
}

// present records control and api as present.
func (s clocked) present(t *testing.T) {
	t.Helper()
	for _, kind := range []models.ProcessKind{models.ProcessAPI, models.ProcessControl} {
		require.NoError(t, (&jobs.Presence{DB: s.DB, Kind: kind}).Pass(t.Context()))
	}
}

func (s clocked) reap(t *testing.T) int {
	t.Helper()
	n, err := s.Reaper.Reap(t.Context())
	require.NoError(t, err)
	return n
}

// complete lets a worker complete its job.
func (s clocked) complete(t *testing.T, worker jobs.Principal, f jobs.Fence) {
	t.Helper()
	video := s.Upload(t, worker, f, models.ArtifactFinalVideo, []byte("a video"))
	_, err := s.Holder.Complete(t.Context(), worker, f, jobs.Completion{Video: &video})
	require.NoError(t, err)
}

// TestClock covers clocks that disagree. Only PostgreSQL's counts, so the others make no
// difference. When PostgreSQL's clock jumps, no job is lost or done twice.
func TestClock(t *testing.T) {
	t.Parallel()

	for _, ahead := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		t.Run(fmt.Sprintf("OfOursMayBeMinutesOff/%s", ahead), func(t *testing.T) {
			t.Parallel()
			s := newClocked(t)
			s.set(t, ahead)
			s.present(t)
			s.Exec(t, "UPDATE presence SET gap_began_at = NULL, gap_ended_at = NULL")
			job, one, two := s.Submit(t), s.Worker(t, "one"), s.Worker(t, "two")

			_, first := s.Lease(t, one)
			_, err := s.Holder.Heartbeat(t.Context(), one, first, nil)
			require.NoError(t, err)
			require.Zero(t, s.reap(t), "a lease that is held")
			s.ExpireLease(t, first.AttemptID)
			require.Equal(t, 1, s.reap(t), "a lease that ran out")
			_, second := s.Lease(t, two)
			_, err = s.Holder.Heartbeat(t.Context(), one, first, nil)
			jobstest.RequireCode(t, err, apierror.CodeLeaseLost)
			s.complete(t, two, second)

			ended := s.Reload(t, job.ID)
			require.Equal(t, models.JobCompleted, ended.Status)
			require.WithinDuration(t, time.Now().Add(ahead), ended.CompletedAt, time.Minute)
			s.RequireInvariants(t)
		})

		t.Run(fmt.Sprintf("OfPostgreSQLMayJump/%s", ahead), func(t *testing.T) {
			t.Parallel()
			s := newClocked(t)
			job, worker := s.Submit(t), s.Worker(t, "one")
			_, fence := s.Lease(t, worker)

			s.set(t, ahead)
			require.Zero(t, s.reap(t), "it looks as if we had been away: the worker has a lease's time to come back")
			s.present(t)
			require.Zero(t, s.reap(t))
			answer, err := s.Holder.Heartbeat(t.Context(), worker, fence, nil)
			require.NoError(t, err)
			require.False(t, answer.LeaseExpiresAt.Before(time.Now().Add(ahead)), "no lease gets shorter by being renewed")
			s.complete(t, worker, fence)

			require.Equal(t, models.JobCompleted, s.Reload(t, job.ID).Status)
			require.GreaterOrEqual(t, s.attempt(t, fence).GPUSeconds, 0.0, "nobody is paid for going back in time")
			s.RequireInvariants(t)
		})

		t.Run(fmt.Sprintf("OfPostgreSQLMayJumpBetweenAttempts/%s", ahead), func(t *testing.T) {
			t.Parallel()
			s := newClocked(t)
			job, one, two := s.Submit(t), s.Worker(t, "one"), s.Worker(t, "two")
			_, first := s.Lease(t, one)
			_, err := s.Holder.Release(t.Context(), one, first, models.FailPreempted)
			require.NoError(t, err)

			s.set(t, ahead)
			_, second := s.Lease(t, two)
			_, err = s.Holder.Heartbeat(t.Context(), one, first, nil)
			jobstest.RequireCode(t, err, apierror.CodeLeaseLost)
			s.complete(t, two, second)

			require.Equal(t, models.JobCompleted, s.Reload(t, job.ID).Status)
		})
	}
}

func (s clocked) attempt(t *testing.T, f jobs.Fence) *models.Attempt {
	t.Helper()
	attempt, err := models.GetAttempt(t.Context(), s.DB, f.AttemptID)
	require.NoError(t, err)
	return attempt
}
