package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestPoolsServeOnlyTheirLanes(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	wanted := spec()
	wanted.Region, wanted.GPUType, wanted.Tiers = "local", "any", []models.Tier{models.TierBatch}
	pool, err := s.Pools.Create(t.Context(), s.Admin, wanted)
	require.NoError(t, err)
	worker := enrolOne(t, s, pool)
	granted := func() *lease.Lease { return jobstest.LeaseNext(t, s, worker) }
	complete := func(got *lease.Lease) { finish(t, s, worker, got) }
	submit := func(tier models.Tier) models.JobID {
		return jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = tier }).ID
	}
	change := func(tiers ...models.Tier) {
		wanted.Tiers = tiers
		_, err := s.Pools.Update(t.Context(), s.Admin, pool.ID, wanted)
		require.NoError(t, err)
	}
	pro, batch := submit(models.TierPro), submit(models.TierBatch)

	got := granted()
	require.Equal(t, batch, got.Job.ID, "the lane above is another pool's")
	complete(got)
	require.Nil(t, granted())

	change(models.TierEnterprise, models.TierPro)
	got = granted()
	require.Equal(t, pro, got.Job.ID, "a change applies to workers that run")
	complete(got)
	free := submit(models.TierFree)
	require.Nil(t, granted())
	s.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - ?::float8 * interval '1 s' WHERE id = ?", (16 * time.Minute).Seconds(), free)
	_, err = s.Promoter.Promote(t.Context())
	require.NoError(t, err)
	got = granted()
	require.NotNil(t, got, "the lane counts, not the tier")
	require.Equal(t, free, got.Job.ID)
	complete(got)

	change()
	submit(models.TierBatch)
	require.NotNil(t, granted(), "no tiers are all")
	s.RequireInvariants(t)
}

func TestPoolsTakeOnlyJobsOfTheirAccounts(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	acme := s.NewAccount(t, "acme", models.TierFree)
	acmeKey := s.NewKey(t, acme, access.RoleClient)
	wanted := spec()
	wanted.Region, wanted.GPUType, wanted.Accounts = "local", "any", []models.AccountID{acme.ID}
	pool, err := s.Pools.Create(t.Context(), s.Admin, wanted)
	require.NoError(t, err)
	worker := enrolOne(t, s, pool)
	other := jobstest.SubmitAs(t, s, s.Client, func(*submit.Submission) {}).ID
	first := jobstest.SubmitAs(t, s, acmeKey, func(*submit.Submission) {}).ID
	second := jobstest.SubmitAs(t, s, acmeKey, func(*submit.Submission) {}).ID

	got := jobstest.LeaseNext(t, s, worker)
	require.Equal(t, first, got.Job.ID, "the jobs of others, of a higher lane, do not block it")
	finish(t, s, worker, got)
	s.Index().Lose()
	got = jobstest.LeaseNext(t, s, worker)
	require.Equal(t, second, got.Job.ID, "PostgreSQL alone decides the same")
	finish(t, s, worker, got)
	require.Nil(t, jobstest.LeaseNext(t, s, worker))

	wanted.Accounts = nil
	_, err = s.Pools.Update(t.Context(), s.Admin, pool.ID, wanted)
	require.NoError(t, err)
	got = jobstest.LeaseNext(t, s, worker)
	require.Equal(t, other, got.Job.ID, "a change applies to workers that run")
	finish(t, s, worker, got)

	wanted.Accounts = []models.AccountID{s.Client.AccountID}
	changes, err := apply(t, s, "pools:\n"+inYAML(wanted), false)
	require.NoError(t, err)
	require.Equal(t, "accounts", changes[0].Differences[0].Path)
	jobstest.SubmitAs(t, s, acmeKey, func(*submit.Submission) {})
	require.Nil(t, jobstest.LeaseNext(t, s, worker), "also a change by a file")
	s.RequireInvariants(t)
}

func TestPoolsOfDeletedAccountsServeNobody(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	acme, apex := s.NewAccount(t, "acme", models.TierFree), s.NewAccount(t, "apex", models.TierFree)
	wanted := spec()
	wanted.MinWorkers, wanted.Accounts = 1, []models.AccountID{acme.ID, apex.ID}
	pool, err := s.Pools.Create(t.Context(), s.Admin, wanted)
	require.NoError(t, err)
	decided := func() *fleet.Explanation {
		e, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)
		return e
	}
	state := func() fleet.State {
		found, err := capacity.GetPools(t.Context(), s.DB, []models.PoolID{pool.ID})
		require.NoError(t, err)
		return fleet.StateOf(found[0], time.Now())
	}

	report, err := s.Eraser.Start(t.Context(), s.Admin, acme.ID, "acme")
	require.NoError(t, err)
	require.Equal(t, []capacity.Dedicated{{AccountID: acme.ID, Name: pool.Name}}, report.Pools)
	require.Equal(t, 1, decided().Desired, "the other account may use it")
	require.Equal(t, fleet.StateActive, state())

	report, err = s.Eraser.Start(t.Context(), s.Admin, apex.ID, "apex")
	require.NoError(t, err)
	require.True(t, report.Pools[0].ServesNobody)
	require.Zero(t, decided().Desired)
	require.Contains(t, decided().Reason, "the accounts that the pool is dedicated to are deleted, so it serves nobody")
	require.Equal(t, fleet.StateServesNobody, state())

	wanted.Accounts = []models.AccountID{s.Client.AccountID}
	_, err = s.Pools.Update(t.Context(), s.Admin, pool.ID, wanted)
	require.NoError(t, err)
	require.Equal(t, 1, decided().Desired)
	require.Equal(t, fleet.StateActive, state())
}

func TestPoolsRefuseRegionsThatNoCloudHas(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	for i, region := range []string{"us-east-1", "europe-west4", "aws/us-east-1", "EU-RO-1", "westeurope", "gke_project_zone_name", "admin@cluster:6443"} {
		known := spec()
		known.Name, known.Region = fmt.Sprintf("pool-%d", i), region
		_, err := s.Pools.Create(t.Context(), s.Admin, known)
		require.NoError(t, err, region)
	}
	for _, region := range []string{"EU 1!", "", " eu", "/eu", "eu\n1", "é", strings.Repeat("a", 201)} {
		wrong := spec()
		wrong.Region = region
		_, err := s.Pools.Create(t.Context(), s.Admin, wrong)
		jobstest.RequireInvalid(t, err, "region")
	}
}

func TestPoolsRefuseUnknownAccounts(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	known, err := s.Pools.Create(t.Context(), s.Admin, spec())
	require.NoError(t, err)
	before := s.Dump(t)
	unknown := models.NewAccountID()
	wrong := spec()
	wrong.Accounts = []models.AccountID{s.Client.AccountID, unknown}

	_, created := s.Pools.Create(t.Context(), s.Admin, wrong)
	_, updated := s.Pools.Update(t.Context(), s.Admin, known.ID, wrong)
	_, applied := apply(t, s, strings.Replace(poolsFile, "models: [testcard]", "models: [testcard]\n    accounts: ["+string(unknown)+"]", 1),
		false)

	for _, err := range []error{created, updated} {
		jobstest.RequireInvalid(t, err, "accounts")
		require.ErrorContains(t, err, "There is no account "+string(unknown)+".")
	}
	require.ErrorContains(t, applied, "pools.yaml:8: There is no account "+string(unknown)+".")
	require.Equal(t, before, s.Dump(t))
}

// What the scaler counts for an account is exact where that is known, and nobody's jobs count twice.
func TestDemandsOfAccounts(t *testing.T) {
	t.Parallel()

	s, scaler, _, open := scaled(t, 0, 9)
	acme := s.NewAccount(t, "acme", models.TierPro)
	acmeKey := s.NewKey(t, acme, access.RoleClient)
	wanted := spec()
	wanted.Accounts = []models.AccountID{acme.ID}
	own, err := s.Pools.Create(t.Context(), s.Admin, wanted)
	require.NoError(t, err)
	for range 3 {
		jobstest.SubmitAs(t, s, acmeKey, func(in *submit.Submission) { in.Tier = models.TierBatch })
		jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierBatch })
	}
	jobstest.SubmitAs(t, s, s.Client, func(*submit.Submission) {})

	require.NoError(t, scaler.Scale(t.Context()))

	mine, err := s.Pools.Explain(t.Context(), s.Admin, own.ID)
	require.NoError(t, err)
	require.Equal(t, "3 waiting jobs need 1 worker.", mine.Reason)
	others, err := s.Pools.Explain(t.Context(), s.Admin, open.ID)
	require.NoError(t, err)
	require.Equal(t, "4 waiting jobs need 2 workers.", others.Reason)
}

// Jobs count for the pools that their constraints allow.
func TestDemandsOfNeeds(t *testing.T) {
	t.Parallel()

	s, _, _, spot := scaled(t, 0, 9)
	s.Exec(t, "UPDATE pools SET price_per_hour_usd = 1")
	safe := *spot
	safe.ID, safe.Name, safe.CapacityClass, safe.PricePerHourUSD, safe.PoolSpec.Region = models.NewPoolID(), "safe", models.CapacityOnDemand,
		3, "elsewhere"
	require.NoError(t, capacity.UpsertPool(t.Context(), s.DB, &safe))
	for _, constrained := range []func(*submit.Submission){
		func(*submit.Submission) {},
		func(in *submit.Submission) { in.MaxPreemptions = new(0) },
		func(in *submit.Submission) { in.MaxPreemptions = new(0) },
		func(in *submit.Submission) { in.MaxPricePerHour = new(1.5) },
		func(in *submit.Submission) { in.MaxPreemptions, in.MaxPricePerHour = new(0), new(1.5) },
		func(in *submit.Submission) { in.Region = "elsewhere" }, // a preference
		func(in *submit.Submission) { in.Region, in.RequireRegion = "elsewhere", true },
		func(in *submit.Submission) { in.MaxPreemptions, in.Region, in.RequireRegion = new(0), "local", true },
	} {
		jobstest.SubmitAs(t, s, s.Admin, constrained) // CRITICAL: each needs a worker at once
	}

	for pool, waiting := range map[models.PoolID]int{spot.ID: 3, safe.ID: 3} {
		explained, err := s.Pools.Explain(t.Context(), s.Admin, pool)
		require.NoError(t, err)
		require.Equal(t, waiting, explained.Desired, explained.Reason)
	}
}

// enrolOne registers a worker of a pool.
func enrolOne(t *testing.T, s *jobstest.Stack, pool *capacity.Pool) jobs.Principal {
	t.Helper()
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: "fake", ProviderInstanceID: "one", GPUCount: 1, PoolID: pool.ID, Region: pool.Region, GPUType: pool.GPUType,
		CapacityClass: models.CapacitySpot, Models: pool.Models, AgentVersion: "test",
	})
	require.NoError(t, err)
	worker, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return worker
}

// finish completes a job.
func finish(t *testing.T, s *jobstest.Stack, worker jobs.Principal, got *lease.Lease) {
	t.Helper()
	fence := jobstest.FenceOf(got)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
}

// inYAML is a pool as a file has it.
func inYAML(spec capacity.PoolSpec) string {
	return fmt.Sprintf("  - {name: %s, provider: %s, region: %s, gpuType: %s, models: %s, maxWorkers: %d, accounts: %s}\n",
		spec.Name, spec.Provider, spec.Region, spec.GPUType, spec.Models, spec.MaxWorkers, spec.Accounts)
}
