package lease_test

import (
	"math"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// reportLoad reports how long a worker loaded the model of its job.
func reportLoad(t *testing.T, s *jobstest.Stack, worker jobs.Principal, fence lease.Fence, load lease.ModelLoad) error {
	t.Helper()
	_, err := s.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{
		Progress: models.Progress{Phase: models.PhaseLoadingModel}, Load: &load,
	})
	return err
}

func TestModelLoads(t *testing.T) {
	t.Parallel()

	t.Run("AreLearntOnceEach", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		pool := spotPool(t, s)
		for i, load := range []lease.ModelLoad{{LoadSeconds: 40, FetchSeconds: 200}, {LoadSeconds: 44}, {LoadSeconds: 42}} {
			job := s.Submit(t)
			worker := poolWorker(t, s, pool, string(rune('a'+i)))
			_, fence := s.Lease(t, worker)
			for range 2 { // the answer to the first report was lost
				require.NoError(t, reportLoad(t, s, worker, fence, load))
			}
			require.Equal(t, 1, countEvents(t, s, job.ID, models.EventLoaded))
		}
		for range 2 {
			learn(t, s)
		}

		shown, err := s.Reads.Fleet.Pool(t.Context(), pool.ID)

		require.NoError(t, err)
		require.Equal(t, []estimate.LoadTime{
			{PoolID: pool.ID, GPUType: "any", Model: "testcard", LoadSeconds: 42, FetchSeconds: 200, Fetches: 1, Seconds: 44, Loads: 3},
		}, shown.ModelLoads)
		require.Equal(t, 242.0, shown.ModelLoads[0].ColdSeconds())
	})

	t.Run("OfWorkersWithoutAPoolAreLearntByGPUType", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		require.NoError(t, reportLoad(t, s, worker, fence, lease.ModelLoad{LoadSeconds: 5}))
		s.Exec(t, "UPDATE job_events SET created_at = created_at - interval '3 seconds'")
		s.Exec(t, "UPDATE learning SET until = until - interval '3 seconds'")
		_, err := s.Learner.Learn(t.Context())
		require.NoError(t, err)

		loads, err := models.ListModelLoads(t.Context(), s.DB)

		require.NoError(t, err)
		require.Len(t, loads, 1)
		require.Empty(t, loads[0].PoolID)
		require.Equal(t, []float64{5}, loads[0].LoadSeconds)
		require.Equal(t, []float64{0}, loads[0].FetchSeconds)
	})

	t.Run("OfDeletedJobsAreLearnt", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		require.NoError(t, reportLoad(t, s, worker, fence, lease.ModelLoad{LoadSeconds: 5}))
		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: "no"})
		require.NoError(t, err)
		_, err = s.Deleter.Delete(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		s.Exec(t, "UPDATE job_events SET created_at = created_at - interval '3 seconds'")
		s.Exec(t, "UPDATE learning SET until = until - interval '3 seconds'")

		_, err = s.Learner.Learn(t.Context())

		require.NoError(t, err)
		loads, err := models.ListModelLoads(t.Context(), s.DB)
		require.NoError(t, err)
		require.Len(t, loads, 1)
		require.Equal(t, job.Model, loads[0].Model)
	})

	t.Run("ThatAreImpossibleAreRefused", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		for _, bad := range []float64{-1, math.NaN(), math.Inf(1), 86_401} {
			for field, load := range map[string]lease.ModelLoad{"load.loadSeconds": {LoadSeconds: bad}, "load.fetchSeconds": {FetchSeconds: bad}} {
				err := reportLoad(t, s, worker, fence, load)

				jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
				require.ErrorContains(t, err, field+" must be from 0 to 86400")
			}
		}
		require.Zero(t, countEvents(t, s, job.ID, models.EventLoaded))
	})
}

// ask is a lease call that does not wait. It returns the id of the job, or "".
func ask(t *testing.T, s *jobstest.Stack, worker jobs.Principal, warm ...string) (models.JobID, lease.Fence) {
	t.Helper()
	granted, _, err := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Warm: warm})
	require.NoError(t, err)
	if granted == nil {
		return "", lease.Fence{}
	}
	return granted.Job.ID, lease.Fence{AttemptID: granted.Attempt.ID, Token: granted.Attempt.FencingToken}
}

func TestWarmWorkers(t *testing.T) {
	t.Parallel()

	// begin returns a job that waits while one worker, which has its model loaded, runs another
	// job for about remaining seconds. A load takes load seconds elsewhere.
	begin := func(t *testing.T, load, remaining float64) (s *jobstest.Stack, warm, cold jobs.Principal, fence lease.Fence, job *models.Job) {
		t.Helper()
		s = jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET tier = 'FREE' WHERE id = ?", s.Account.ID) // its target is 10 minutes
		s.Submit(t)
		warm, cold = s.Worker(t, "warm"), s.Worker(t, "cold")
		_, fence = ask(t, s, warm, "testcard")
		require.NotEmpty(t, fence.AttemptID)
		s.Exec(t, "UPDATE jobs SET estimated_gpu_seconds = ?", remaining)
		s.Exec(t, "INSERT INTO model_loads (gpu_type, model, load_seconds, fetch_seconds, loads) VALUES ('any', 'testcard', ARRAY[?::float8], '{0}', 1)", load)
		job = s.Submit(t)
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		return s, warm, cold, fence, job
	}

	t.Run("AreWaitedForByTheJobThatTheySuit", func(t *testing.T) {
		t.Parallel()

		s, warm, cold, fence, job := begin(t, 3600, 300)
		for range 2 {
			got, _ := ask(t, s, cold)
			require.Empty(t, got)
		}
		why, err := s.WaitingFor(t, job.ID)
		require.NoError(t, err)
		require.Len(t, why[job.ID], 1)
		require.Regexp(t, `^A busy worker that has the model loaded is expected to be free in [\d mins]+; loading it on another takes about 30 min 00 s\. The job waits for it, at most [\d mins]+\.$`, why[job.ID][0].Message)

		_, err = s.Attempts.Release(t.Context(), warm, fence, models.FailPreempted)
		require.NoError(t, err)
		first, _ := ask(t, s, warm, "testcard")

		require.NotEmpty(t, first)
		s.RequireInvariants(t)
	})

	t.Run("DoNotHoldUpOtherJobs", func(t *testing.T) {
		t.Parallel()

		s, _, cold, _, job := begin(t, 3600, 300)
		s.Exec(t, "UPDATE jobs SET queued_at = queued_at - interval '2 hours' WHERE id = ?", s.Submit(t).ID)

		got, _ := ask(t, s, cold)

		require.NotEmpty(t, got, "the job behind it has waited for longer than a load takes")
		require.NotEqual(t, job.ID, got)
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
	})

	t.Run("AreWaitedForByOneJobEach", func(t *testing.T) {
		t.Parallel()

		s, _, cold, _, job := begin(t, 3600, 300)
		next := s.Submit(t)

		got, _ := ask(t, s, cold)

		require.Equal(t, next.ID, got)
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
	})

	for name, c := range map[string]struct {
		load, remaining float64
		then            string
	}{
		"AreNotWaitedForLongerThanALoadTakes": {60, 30, "UPDATE jobs SET queued_at = queued_at - interval '61 seconds' WHERE status = 'QUEUED'"},
		"AreNotWaitedForPastTheTarget": {3600, 300,
			"UPDATE jobs SET queued_at = queued_at - interval '11 minutes' WHERE status = 'QUEUED'"},
		"AreNotWaitedForIfALoadIsSooner": {60, 600, "SELECT 1"},
		"AreNotWaitedForToSaveAMoment":   {9, 5, "SELECT 1"},
		"AreNotWaitedForWithoutSlack":    {3600, 300, "UPDATE jobs SET needs = 'now' WHERE status = 'QUEUED'"},
		"AreNotWaitedForUntilAJobExpires": {3600, 300,
			"UPDATE jobs SET expires_at = queued_at + interval '1 minute' WHERE status = 'QUEUED'"},
		"AreNotWaitedForWhileSlackEnds": {3600, 300,
			"UPDATE jobs SET finish_by = queued_at + interval '1 hour', slack_until = queued_at + interval '1 minute' WHERE status = 'QUEUED'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s, _, cold, _, job := begin(t, c.load, c.remaining)
			s.Exec(t, c.then)

			got, _ := ask(t, s, cold)

			require.Equal(t, job.ID, got)
			s.RequireInvariants(t)
		})
	}

	t.Run("WakeTheOtherWorkerWhenTheWaitEnds", func(t *testing.T) {
		t.Parallel()

		s, _, cold, _, job := begin(t, 60, 30)
		s.Exec(t, "UPDATE jobs SET queued_at = queued_at - interval '28 seconds' WHERE status = 'QUEUED'")
		s.Exec(t, "UPDATE model_loads SET load_seconds = '{29}'")
		s.Exec(t, "UPDATE jobs SET estimated_gpu_seconds = 0.5 WHERE status <> 'QUEUED'")
		require.NoError(t, s.Estimates.Refresh(t.Context()))

		lease, _, err := s.Leaser.Lease(t.Context(), cold, lease.LeaseCall{WorkerID: cold.WorkerID, Wait: lease.MaxLeaseWait})

		require.NoError(t, err)
		require.NotNil(t, lease)
		require.Equal(t, job.ID, lease.Job.ID)
	})
}

func countEvents(t *testing.T, s *jobstest.Stack, job models.JobID, kind models.JobEventType) (n int) {
	t.Helper()
	for _, e := range jobstest.EventTypes(t, s, job) {
		if e == kind {
			n++
		}
	}
	return n
}
