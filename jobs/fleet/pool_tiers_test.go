package fleet_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/fleet"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestPoolsServeOnlyTheirLanes(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	wanted := spec()
	wanted.Region, wanted.GPUType, wanted.Tiers = "local", "any", []models.Tier{models.TierBatch}
	pool, err := s.Pools.Create(t.Context(), s.Admin, wanted)
	require.NoError(t, err)
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: "fake", ProviderInstanceID: "one", GPUCount: 1, PoolID: pool.ID, Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, AgentVersion: "test",
	})
	require.NoError(t, err)
	worker, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	lease := func() *jobs.Lease {
		got, _, err := s.Leaser.Lease(t.Context(), worker, jobs.LeaseCall{WorkerID: worker.WorkerID})
		require.NoError(t, err)
		return got
	}
	complete := func(got *jobs.Lease) {
		fence := jobstest.FenceOf(got)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err := s.Holder.Complete(t.Context(), worker, fence, jobs.Completion{Video: &video})
		require.NoError(t, err)
	}
	submit := func(tier models.Tier) models.JobID {
		return jobstest.SubmitAs(t, s, s.Client, func(in *jobs.Submission) { in.Tier = tier }).ID
	}
	change := func(tiers ...models.Tier) {
		wanted.Tiers = tiers
		_, err := s.Pools.Update(t.Context(), s.Admin, pool.ID, wanted)
		require.NoError(t, err)
	}
	pro, batch := submit(models.TierPro), submit(models.TierBatch)

	got := lease()
	require.Equal(t, batch, got.Job.ID, "the lane above is another pool's")
	complete(got)
	require.Nil(t, lease())

	change(models.TierEnterprise, models.TierPro)
	got = lease()
	require.Equal(t, pro, got.Job.ID, "a change applies to workers that run")
	complete(got)
	free := submit(models.TierFree)
	require.Nil(t, lease())
	s.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - ?::float8 * interval '1 s' WHERE id = ?", (16 * time.Minute).Seconds(), free)
	_, err = s.Promoter.Promote(t.Context())
	require.NoError(t, err)
	got = lease()
	require.NotNil(t, got, "the lane counts, not the tier")
	require.Equal(t, free, got.Job.ID)
	complete(got)

	change()
	submit(models.TierBatch)
	require.NotNil(t, lease(), "no tiers are all")
	s.RequireInvariants(t)
}
