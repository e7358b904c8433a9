package lease_test

import (
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// spotPool makes a pool of SPOT capacity for the testcard.
func spotPool(t *testing.T, s *jobstest.Stack) *capacity.Pool {
	t.Helper()
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
		Name: "spot", Provider: "static", Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MaxWorkers: 4,
	}}
	require.NoError(t, capacity.UpsertPool(t.Context(), s.DB, pool))
	return pool
}

// poolWorker registers a worker of a pool.
func poolWorker(t *testing.T, s *jobstest.Stack, pool *capacity.Pool, instance string) jobs.Principal {
	t.Helper()
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: "static", ProviderInstanceID: instance, GPUCount: 1, Region: "local", GPUType: "any", PoolID: pool.ID,
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, AgentVersion: "test",
	})
	require.NoError(t, err)
	p, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p
}

// learn sets all times back and leases by another hour, so that the pass, which leaves out the last
// 2 s, sees all that has happened. It returns the plan that follows.
func learn(t *testing.T, s *jobstest.Stack) *checkpoints.Plan {
	t.Helper()
	s.Exec(t, "UPDATE job_events SET created_at = created_at - interval '3 seconds'")
	s.Exec(t, "UPDATE job_attempts SET leased_at = leased_at - interval '1 hour', ended_at = ended_at - interval '3 seconds'")
	s.Exec(t, "UPDATE learning SET until = until - interval '3 seconds'")
	_, err := s.Learner.Learn(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Checkpoints.Pass(t.Context()))
	all := s.Checkpoints.All()
	require.Len(t, all, 1)
	return all[0].Plan
}

func TestCheckpointPlan(t *testing.T) {
	t.Parallel()

	t.Run("LossesShortenTheInterval", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		pool := spotPool(t, s)
		jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.MaxAttempts = new(9) })
		worker := poolWorker(t, s, pool, "one")
		lease, fence := s.Lease(t, worker)
		require.Equal(t, checkpoints.Unmeasured, lease.CheckpointEvery, "nothing is known")
		for i := range 6 {
			state := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte{byte(i)})
			_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Object: state, Step: i, Percent: 1,
				DurationSeconds: new(3.0)})
			require.NoError(t, err)
		}

		measured := learn(t, s)
		require.Equal(t, 6, measured.Saves)
		require.Equal(t, 294.0, measured.IntervalSeconds)
		_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		preempted := learn(t, s)

		require.InDelta(t, 1, preempted.Losses, 0.01)
		require.InDelta(t, 2, preempted.BusyHours, 0.01, "two passes set the lease back by an hour each")
		require.InDelta(t, 3, preempted.HoursBetweenLosses, 0.01)
		require.Equal(t, 255.0, preempted.IntervalSeconds, "√(2 · 3 s · 3 h)")
		lose(t, s, poolWorker(t, s, pool, "two"))
		lost := learn(t, s)
		require.InDelta(t, 2, lost.Losses, 0.01)
		require.Less(t, lost.IntervalSeconds, preempted.IntervalSeconds)
		terminated := poolWorker(t, s, pool, "terminated")
		s.Lease(t, terminated)
		_, err = s.Fleet.TerminateWorker(t.Context(), s.Admin, terminated.WorkerID)
		require.NoError(t, err)
		drained := poolWorker(t, s, pool, "drained")
		_, fence = s.Lease(t, drained)
		_, err = s.Fleet.DrainWorker(t.Context(), s.Admin, drained.WorkerID, 0)
		require.NoError(t, err)
		_, err = s.Attempts.Release(t.Context(), drained, fence, models.FailPreempted)
		require.NoError(t, err)
		again := learn(t, s)
		require.InDelta(t, lost.Losses, again.Losses, 0.01, "a loss counts once, and what operators do does not")
		require.Equal(t, 6, again.Saves)

		next, _ := s.Lease(t, poolWorker(t, s, pool, "three"))
		require.Equal(t, again.IntervalSeconds, next.CheckpointEvery.Seconds())
	})

	t.Run("OfAWorkerWithoutAPoolIsThePrior", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		require.NoError(t, s.Checkpoints.Pass(t.Context()))

		lease, _ := s.Lease(t, s.Worker(t, "one"))

		require.Equal(t, checkpoints.Unmeasured, lease.CheckpointEvery)
	})
}
