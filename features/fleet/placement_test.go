package fleet_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

// TestPlacements compares the place that explanations prefer with what the scaler boots and what claims choose.
func TestPlacements(t *testing.T) {
	t.Parallel()

	// pools adds two pools: slow costs less per hour, but its machines boot for ten minutes.
	pools := func(t *testing.T, s *jobstest.Stack) (slow, quick *capacity.Pool) {
		add := func(name string, price float64, boot time.Duration) *capacity.Pool {
			pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{Name: name, Provider: "fake", Region: "local",
				GPUType: "any", CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MaxWorkers: 4, PricePerHourUSD: price}}
			require.NoError(t, capacity.UpsertPool(t.Context(), s.DB, pool))
			w := register(t, s, pool, name+"-1")
			_, err := s.Registrar.Deregister(t.Context(), w, w.WorkerID)
			require.NoError(t, err)
			s.Exec(t, "UPDATE workers SET created_at = registered_at - make_interval(secs => ?) WHERE id = ?", boot.Seconds(), w.WorkerID)
			return pool
		}
		return add("slow", 1, 10*time.Minute), add("quick", 2, time.Minute)
	}
	places := func(t *testing.T, s *jobstest.Stack, id models.JobID) []*query.Placement {
		found := placementsFor(t, s, s.Admin, id)
		for _, p := range found {
			require.InDelta(t, p.PricePerHourUSD*(p.BootSeconds+p.LoadSeconds+p.RenderSeconds)/3600, p.USD(), 1e-9)
		}
		return found
	}
	names := func(found []*query.Placement) []string {
		return lo.Map(found, func(p *query.Placement, _ int) string { return p.PoolName() })
	}

	t.Run("PreferThePoolThatTheScalerBoots", func(t *testing.T) {
		t.Parallel()
		for tier, preferred := range map[models.Tier]string{models.TierEnterprise: "quick", models.TierBatch: "slow"} {
			s := jobstest.New(t)
			slow, quick := pools(t, s)
			job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = tier })

			found := places(t, s, job.ID)

			require.Equal(t, preferred, found[0].PoolName())
			require.True(t, found[0].Preferred)
			require.False(t, found[1].Preferred)
			for _, pool := range []*capacity.Pool{slow, quick} {
				e, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)
				require.NoError(t, err)
				require.Equal(t, lo.Ternary(pool.Name == preferred, 1, 0), e.Boot, "%s: %s", pool.Name, e.Reason)
			}
			require.InDelta(t, 600, lo.Must(lo.Find(found, func(p *query.Placement) bool { return p.Pool.ID == slow.ID })).BootSeconds, 1)
		}
	})

	t.Run("PreferTheIdleWorkerOnWhichItCostsLeast", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		slow, quick := pools(t, s)
		cheap, dear := register(t, s, slow, "slow-2"), register(t, s, quick, "quick-2")
		s.Exec(t, "UPDATE workers SET warm_models = '{testcard}' WHERE id = ?", dear.WorkerID)
		s.Exec(t, "INSERT INTO model_loads (pool_id, gpu_type, model, load_seconds, fetch_seconds, loads) VALUES (?, 'any', 'testcard', '{300}', '{60}', 1)", slow.ID)
		require.NoError(t, s.Estimates.Refresh(t.Context()))
		job := s.Submit(t)

		found := places(t, s, job.ID)

		require.Equal(t, []string{"quick", "slow"}, names(found), "a load of six minutes costs more than the price")
		require.Equal(t, []int{1, 1}, []int{found[0].Idle, found[1].Idle})
		require.Zero(t, found[0].LoadSeconds)
		require.InDelta(t, 360, found[1].LoadSeconds, 0.1)
		model, err := s.Submitter.Catalogue.Current().Model("testcard")
		require.NoError(t, err)
		claims := func(p jobs.Principal) estimate.StartCost {
			w, err := jobs.GetWorker(t.Context(), s.DB, p.WorkerID)
			require.NoError(t, err)
			return s.Estimates.StartCost(model, w)
		}
		require.Negative(t, claims(dear).Compare(claims(cheap)), "claims agree")
		granted, _, err := s.Leaser.Lease(t.Context(), dear, lease.LeaseCall{WorkerID: dear.WorkerID})
		require.NoError(t, err)
		require.Equal(t, job.ID, granted.Job.ID)
		here := lo.Filter(places(t, s, job.ID), func(p *query.Placement, _ int) bool { return p.Here })
		require.Equal(t, []string{"quick"}, names(here))
	})

	t.Run("NameWhatIsInTheWay", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		slow, quick := pools(t, s)
		job := s.Submit(t)
		s.Exec(t, "UPDATE pools SET backoff_until = '2099-01-01T00:00:00Z' WHERE id = ?", quick.ID)
		require.Equal(t, []string{"slow", "quick"}, names(places(t, s, job.ID)))
		require.Equal(t, "refused until 1 Jan 2099 00:00:00 UTC", places(t, s, job.ID)[1].Obstacle)
		s.Exec(t, "UPDATE pools SET paused_at = now() WHERE id = ?", slow.ID)
		found := places(t, s, job.ID)
		require.False(t, found[0].Preferred || found[1].Preferred, "none gets it now")
		require.Empty(t, placementsFor(t, s, s.Client, job.ID), "pools and prices are for operators")
	})
}

func placementsFor(t *testing.T, s *jobstest.Stack, p jobs.Principal, id models.JobID) []*query.Placement {
	t.Helper()
	edges, err := s.Reads.Jobs.Of(p, s.Reload(t, id))
	require.NoError(t, err)
	found, err := edges.Placements(t.Context())
	require.NoError(t, err)
	return found[id]
}
