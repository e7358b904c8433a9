package jobs_test

import (
	"math"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// reportLoad reports how long a worker loaded the model of its job.
func reportLoad(t *testing.T, s *jobstest.Stack, worker jobs.Principal, fence jobs.Fence, load jobs.ModelLoad) error {
	t.Helper()
	_, err := s.Holder.ReportProgress(t.Context(), worker, fence, jobs.ProgressReport{
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
		for i, load := range []jobs.ModelLoad{{LoadSeconds: 40, FetchSeconds: 200}, {LoadSeconds: 44}, {LoadSeconds: 42}} {
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

		shown, err := s.Reader.Pool(t.Context(), pool.ID)

		require.NoError(t, err)
		require.Equal(t, []estimate.LoadTime{
			{PoolID: pool.ID, GPUType: "any", Model: "testcard", LoadSeconds: 42, FetchSeconds: 200, Fetches: 1, Seconds: 44, Loads: 3},
		}, shown.ModelLoads)
		require.Equal(t, 242.0, shown.ModelLoads[0].ColdSeconds())
	})

	t.Run("OfWorkersWithoutAPoolAreLearntByGPUType", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		require.NoError(t, reportLoad(t, s, worker, fence, jobs.ModelLoad{LoadSeconds: 5}))
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

	t.Run("ThatAreImpossibleAreRefused", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		for _, bad := range []float64{-1, math.NaN(), math.Inf(1), 86_401} {
			for field, load := range map[string]jobs.ModelLoad{"load.loadSeconds": {LoadSeconds: bad}, "load.fetchSeconds": {FetchSeconds: bad}} {
				err := reportLoad(t, s, worker, fence, load)

				jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
				require.ErrorContains(t, err, field+" must be from 0 to 86400")
			}
		}
		require.Zero(t, countEvents(t, s, job.ID, models.EventLoaded))
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
