package fleet_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// scaled returns a stack with a pool, its provider and its scaler.
func scaled(t *testing.T, least, most int) (*jobstest.Stack, *fleet.Scaler, *jobstest.FakeProvider, *capacity.Pool) {
	t.Helper()
	s := jobstest.New(t)
	provider := jobstest.NewFakeProvider()
	scaler := &fleet.Scaler{DB: s.DB, Notifier: s.Notifier, Providers: map[string]fleet.Provider{"fake": provider}}
	return s, scaler, provider, jobstest.AddPool(t, s, least, most)
}

// enrol registers the agents of all running machines.
func enrol(t *testing.T, s *jobstest.Stack, provider *jobstest.FakeProvider, pool *capacity.Pool) []jobs.Principal {
	t.Helper()
	var workers []jobs.Principal
	for _, id := range provider.Running {
		_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
			Provider: "fake", ProviderInstanceID: id, GPUCount: 1, PoolID: pool.ID, Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
		})
		require.NoError(t, err)
		p, err := s.Keys.Authenticate(t.Context(), secret)
		require.NoError(t, err)
		workers = append(workers, p)
	}
	return workers
}

// scalingHistory returns a pool's newest decisions.
func scalingHistory(t *testing.T, s *jobstest.Stack, pool *capacity.Pool, first int) []*capacity.ScalingDecision {
	t.Helper()
	found, err := s.Reads.Fleet.ScalingHistories(t.Context(), []models.PoolID{pool.ID}, first)
	require.NoError(t, err)
	return found[pool.ID]
}

func poolStatus(t *testing.T, s *jobstest.Stack, pool *capacity.Pool) *query.PoolStatus {
	t.Helper()
	status, err := s.Reads.Fleet.Pool(t.Context(), pool.ID)
	require.NoError(t, err)
	return status
}

func TestScale(t *testing.T) {
	t.Parallel()

	t.Run("BootsThePoolToItsMinimumOnce", func(t *testing.T) {
		t.Parallel()

		s, scaler, provider, pool := scaled(t, 2, 4)

		for range 3 {
			require.NoError(t, scaler.Scale(t.Context()))
		}

		require.Equal(t, 2, provider.Started)
		require.Equal(t, 2, poolStatus(t, s, pool).Booting)
		history := scalingHistory(t, s, pool, 10)
		require.Len(t, history, 1)
		require.Equal(t, "No jobs wait or run; pool minimum is 2.", history[0].Reason)
		enrol(t, s, provider, pool)
		status := poolStatus(t, s, pool)
		require.Equal(t, []int{0, 2}, []int{status.Booting, status.Idle}, "an agent takes the row that waits for it")
		require.Equal(t, 2, status.Desired)
	})

	t.Run("NotesWhenThePoolsHoursBegin", func(t *testing.T) {
		t.Parallel()

		s, scaler, _, pool := scaled(t, 0, 4)
		job := s.Submit(t)
		opens := time.Now().UTC().Add(2 * time.Hour).Truncate(time.Minute)
		s.Exec(t, "UPDATE pools SET active_hours = ?", fmt.Sprintf("%d %d * * * for 1m UTC", opens.Minute(), opens.Hour()))

		require.NoError(t, scaler.Scale(t.Context()))

		why, err := s.WaitingFor(t, job.ID)
		require.NoError(t, err)
		require.Contains(t, why[job.ID][0].Message, "its pools have workers at certain hours only, again from ")
		require.WithinDuration(t, opens, why[job.ID][0].Until, 0)
		s.Exec(t, "UPDATE pools SET active_hours = ''")
		require.NoError(t, scaler.Scale(t.Context()))
		now, err := capacity.GetPools(t.Context(), s.DB, []models.PoolID{pool.ID})
		require.NoError(t, err)
		require.Zero(t, now[0].ClosedUntil)
	})

	t.Run("GrowsDuringABurst", func(t *testing.T) {
		t.Parallel()

		s, scaler, provider, pool := scaled(t, 1, 4)
		for range 9 {
			jobstest.SubmitAs(t, s, s.Admin, nil) // CRITICAL: each needs a worker at once
		}

		require.NoError(t, scaler.Scale(t.Context()))

		require.Equal(t, 4, provider.Started)
		history := scalingHistory(t, s, pool, 1)
		require.Equal(t, []int{0, 4}, []int{history[0].From, history[0].To})
		require.Equal(t, "9 waiting jobs need 9 workers; pool maximum is 4.", history[0].Reason)
		require.JSONEq(t, `{"min": 1, "max": 4, "booting": 0, "idle": 0, "busy": 0, "startSeconds": 180, "queues": [{"lane": "CRITICAL", "depth": 9, "gpuSeconds": 9, "late": 9}]}`,
			string(history[0].Inputs))
	})

	t.Run("UsesTheRenderTimesOfItsGPUs", func(t *testing.T) {
		t.Parallel()

		s, scaler, provider, _ := scaled(t, 0, 9)
		s.Exec(t, "UPDATE accounts SET tier = 'FREE'")
		for range 9 {
			s.Submit(t) // a second by the catalogue, and FREE jobs may wait 600
		}
		s.Exec(t, `INSERT INTO render_times (model, time_class, gpu_type, ratio, variance, samples)
			VALUES ('testcard', 'any', 'another', 100, 0, 9), ('testcard', 'any', 'any', 140, 0, 1)`)

		require.NoError(t, scaler.Scale(t.Context()))

		require.Equal(t, 3, provider.Started, "9 jobs of 140 s within 600 s, of which a boot takes 180")
	})

	t.Run("DrainsTheLongestIdleWorkerAndNoBusyOne", func(t *testing.T) {
		t.Parallel()

		s, scaler, provider, pool := scaled(t, 4, 4)
		require.NoError(t, scaler.Scale(t.Context()))
		workers := enrol(t, s, provider, pool)
		s.Exec(t, "UPDATE pools SET min_workers = 1")
		s.Submit(t)
		require.NotNil(t, jobstest.LeaseNext(t, s, workers[0]))
		require.NoError(t, scaler.Scale(t.Context()))
		require.Equal(t, 3, poolStatus(t, s, pool).Idle, "they were not idle for long")
		s.Exec(t, "UPDATE workers SET idle_since = clock_timestamp() - interval '61 seconds' WHERE id IN (?, ?)", workers[0].WorkerID,
			workers[2].WorkerID)

		require.NoError(t, scaler.Scale(t.Context()))

		status := poolStatus(t, s, pool)
		require.Equal(t, []int{2, 1, 1}, []int{status.Idle, status.Busy, status.Draining})
		require.Equal(t, models.WorkerDraining, jobstest.WorkerStatus(t, s, workers[2].WorkerID))
	})

	t.Run("TerminatesWorkersWhoseMachineIsGone", func(t *testing.T) {
		t.Parallel()

		s, scaler, provider, pool := scaled(t, 1, 1)
		require.NoError(t, scaler.Scale(t.Context()))
		worker := enrol(t, s, provider, pool)[0]
		job := s.Submit(t)
		jobstest.LeaseNext(t, s, worker)
		provider.Running = nil

		require.NoError(t, scaler.Scale(t.Context()))

		require.Equal(t, models.WorkerTerminated, jobstest.WorkerStatus(t, s, worker.WorkerID))
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		require.Equal(t, 2, provider.Started, "another one boots in its place")
		s.RequireInvariants(t)
	})

	t.Run("RemovesWorkersThatDidNotBoot", func(t *testing.T) {
		t.Parallel()

		s, scaler, provider, pool := scaled(t, 2, 2)
		provider.Refuse = fleet.Refuse(fleet.Stockout, "there is no such machine in this zone")

		err := scaler.Scale(t.Context())

		require.ErrorIs(t, err, provider.Refuse)
		require.Equal(t, fleet.Stockout, fleet.ClassOf(err))
		require.Zero(t, poolStatus(t, s, pool).Booting)
		history := scalingHistory(t, s, pool, 1)
		require.Contains(t, history[0].Error, "there is no such machine in this zone")
	})

	t.Run("BootsEachWorkerOnceInManyProcesses", func(t *testing.T) {
		t.Parallel()

		s, scaler, provider, pool := scaled(t, 3, 3)

		errs := make([]error, 6)
		var passes sync.WaitGroup
		for i := range errs {
			passes.Go(func() { errs[i] = scaler.Scale(t.Context()) })
		}
		passes.Wait()

		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, 3, provider.Started)
		require.Equal(t, 3, poolStatus(t, s, pool).Booting)
	})

	t.Run("CountsAJobForOneOfItsPools", func(t *testing.T) {
		t.Parallel()

		s, scaler, provider, pool := scaled(t, 0, 2)
		other := *pool
		other.ID, other.Name = models.NewPoolID(), "others"
		require.NoError(t, capacity.UpsertPool(t.Context(), s.DB, &other))
		for range 3 {
			jobstest.SubmitAs(t, s, s.Admin, nil)
		}

		for range 2 {
			require.NoError(t, scaler.Scale(t.Context()))
		}

		require.Equal(t, 3, provider.Started)
		require.Equal(t, 2, poolStatus(t, s, pool).Booting)
		require.Equal(t, 1, poolStatus(t, s, &other).Booting)
	})

	t.Run("LeavesPoolsOfOtherProvidersAlone", func(t *testing.T) {
		t.Parallel()

		s, scaler, _, pool := scaled(t, 3, 3)
		scaler.Providers = map[string]fleet.Provider{}

		require.NoError(t, scaler.Scale(t.Context()))

		require.Zero(t, poolStatus(t, s, pool).Booting)
	})
}
