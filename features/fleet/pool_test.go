package fleet_test

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// spec is a pool that is valid.
func spec() capacity.PoolSpec {
	return capacity.PoolSpec{
		Name: "l4-spot", Provider: "fake", Region: "here", GPUType: "L4", CapacityClass: models.CapacitySpot,
		Models: []string{"testcard"}, MaxWorkers: 4, BootLimitSeconds: 600,
	}
}

func TestPools(t *testing.T) {
	t.Parallel()

	t.Run("AreCreatedChangedPausedAndDeleted", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		wanted := spec()
		wanted.Zones, wanted.ActiveHours, wanted.PricePerHourUSD = []string{"here-a", "here-b"}, "0 2 * * * for 6h Europe/Berlin", 0.28

		pool, err := s.Pools.Create(t.Context(), s.Admin, wanted)
		require.NoError(t, err)
		_, err = s.Pools.Create(t.Context(), s.Admin, wanted)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		wanted.MaxWorkers, wanted.Zones = 7, nil
		_, err = s.Pools.Update(t.Context(), s.Admin, pool.ID, wanted)
		require.NoError(t, err)
		for range 2 {
			_, err = s.Pools.Pause(t.Context(), s.Admin, pool.ID)
			require.NoError(t, err)
		}
		status := poolStatus(t, s, pool)

		require.True(t, status.Paused())
		require.Equal(t, "test ADMIN", *status.PausedBy)
		require.Equal(t, 7, status.MaxWorkers)
		require.Empty(t, status.Zones)
		require.InDelta(t, 0.28, status.PricePerHourUSD, 0)
		resumed, err := s.Pools.Resume(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)
		require.Zero(t, resumed.PausedAt)
		require.Nil(t, poolStatus(t, s, pool).PausedBy)
		require.NoError(t, s.Pools.Delete(t.Context(), s.Admin, pool.ID))
		jobstest.RequireCode(t, s.Pools.Delete(t.Context(), s.Admin, pool.ID), apierror.CodeNotFound)
		_, err = s.Reads.Fleet.Pool(t.Context(), pool.ID)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		_, err = s.Pools.Create(t.Context(), s.Admin, wanted)
		require.NoError(t, err, "the name is free again")
	})

	t.Run("RecordTheirPriceWithEachChange", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		wanted := spec()
		wanted.PricePerHourUSD = 2
		pool, err := s.Pools.Create(t.Context(), s.Admin, wanted)
		require.NoError(t, err)
		wanted.MaxWorkers = 7
		_, err = s.Pools.Update(t.Context(), s.Admin, pool.ID, wanted)
		require.NoError(t, err)
		for _, usd := range []float64{3, 2} {
			wanted.PricePerHourUSD = usd
			_, err = s.Pools.Update(t.Context(), s.Admin, pool.ID, wanted)
			require.NoError(t, err)
		}
		require.NoError(t, capacity.RecordPrices(t.Context(), s.DB))
		wanted.PricePerHourUSD = -1
		_, err = s.Pools.Update(t.Context(), s.Admin, pool.ID, wanted)
		jobstest.RequireCode(t, err, apierror.CodeInvalidInput)

		var recorded []float64
		require.NoError(t, s.DB.NewRaw("SELECT usd FROM pool_prices WHERE pool_id = ? ORDER BY since", pool.ID).Scan(t.Context(), &recorded))
		require.Equal(t, []float64{2, 3, 2}, recorded)
	})

	t.Run("RefuseBadFieldsWhole", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		good, err := s.Pools.Create(t.Context(), s.Admin, spec())
		require.NoError(t, err)
		before := s.Dump(t)

		for field, bad := range map[string][]func(*capacity.PoolSpec){
			"name": {
				func(p *capacity.PoolSpec) { p.Name = "" }, func(p *capacity.PoolSpec) { p.Name = "L4" }, func(p *capacity.PoolSpec) { p.Name = "a/b" },
				func(p *capacity.PoolSpec) { p.Name = "a-" }, func(p *capacity.PoolSpec) { p.Name = strings.Repeat("a", 41) },
			},
			"provider": {func(p *capacity.PoolSpec) { p.Provider = "" }, func(p *capacity.PoolSpec) { p.Provider = "nonesuch" }},
			"region":   {func(p *capacity.PoolSpec) { p.Region = "" }, func(p *capacity.PoolSpec) { p.Region = "a\nb" }},
			"gpuType":  {func(p *capacity.PoolSpec) { p.GPUType = "" }},
			"zones": {func(p *capacity.PoolSpec) { p.Zones = []string{"a", "a"} },
				func(p *capacity.PoolSpec) { p.Zones = make([]string, 51) }},
			"capacityClass": {func(p *capacity.PoolSpec) { p.CapacityClass = "CHEAP" }},
			"models": {
				func(p *capacity.PoolSpec) { p.Models = nil }, func(p *capacity.PoolSpec) { p.Models = []string{"nonesuch"} },
			},
			"tiers": {func(p *capacity.PoolSpec) { p.Tiers = []models.Tier{"GOLD"} },
				func(p *capacity.PoolSpec) { p.Tiers = []models.Tier{"PRO", "PRO"} }},
			"maxWorkers":               {func(p *capacity.PoolSpec) { p.MaxWorkers = -1 }, func(p *capacity.PoolSpec) { p.MaxWorkers = 10_001 }},
			"minWorkers":               {func(p *capacity.PoolSpec) { p.MinWorkers = 5 }, func(p *capacity.PoolSpec) { p.MinWorkers = -1 }},
			"warmWorkers":              {func(p *capacity.PoolSpec) { p.WarmWorkers = 5 }},
			"scaleDownCooldownSeconds": {func(p *capacity.PoolSpec) { p.IdleSeconds = new(-1) }},
			"bootLimitSeconds":         {func(p *capacity.PoolSpec) { p.BootLimitSeconds = -1 }},
			"pricePerHourUsd": {
				func(p *capacity.PoolSpec) { p.PricePerHourUSD = -1 }, func(p *capacity.PoolSpec) { p.PricePerHourUSD = math.NaN() },
				func(p *capacity.PoolSpec) { p.PricePerHourUSD = math.Inf(1) },
			},
			"maxPricePerHourUsd": {
				func(p *capacity.PoolSpec) { p.MaxPricePerHourUSD = -1 }, func(p *capacity.PoolSpec) { p.MaxPricePerHourUSD = math.NaN() },
			},
			"accounts": {
				func(p *capacity.PoolSpec) { p.Accounts = []models.AccountID{"acme"} },
				func(p *capacity.PoolSpec) { p.Accounts = []models.AccountID{s.Client.AccountID, s.Client.AccountID} },
				func(p *capacity.PoolSpec) { p.Accounts = make([]models.AccountID, 101) },
			},
			"yieldingTiers": {
				func(p *capacity.PoolSpec) { p.YieldingTiers = []models.Tier{"LOW"} },
				func(p *capacity.PoolSpec) { p.YieldingTiers = []models.Tier{"FREE", "FREE"} },
			},
			"workersPerMachine": {func(p *capacity.PoolSpec) { p.WorkersPerMachine = -1 }, func(p *capacity.PoolSpec) { p.WorkersPerMachine = 65 }},
			"gpusPerWorker":     {func(p *capacity.PoolSpec) { p.GPUsPerWorker = -1 }, func(p *capacity.PoolSpec) { p.GPUsPerWorker = 65 }},
			"activeHours":       {func(p *capacity.PoolSpec) { p.ActiveHours = "at night" }},
			"settings":          {func(p *capacity.PoolSpec) { p.Provider, p.Settings = "local", []byte(`{"image": "x"}`) }},
		} {
			for _, change := range bad {
				wrong := spec()
				change(&wrong)
				_, err := s.Pools.Create(t.Context(), s.Admin, wrong)
				jobstest.RequireInvalid(t, err, field)
				_, err = s.Pools.Update(t.Context(), s.Admin, good.ID, wrong)
				jobstest.RequireInvalid(t, err, field)
			}
		}
		renamed := spec()
		renamed.Name = "other"
		_, err = s.Pools.Update(t.Context(), s.Admin, good.ID, renamed)
		jobstest.RequireInvalid(t, err, "name")

		require.Equal(t, before, s.Dump(t))
	})

	t.Run("AreForOperators", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool, err := s.Pools.Create(t.Context(), s.Admin, spec())
		require.NoError(t, err)
		before := s.Dump(t)

		for _, p := range []jobs.Principal{s.Client, s.Enrolment} {
			_, created := s.Pools.Create(t.Context(), p, spec())
			_, updated := s.Pools.Update(t.Context(), p, pool.ID, spec())
			_, paused := s.Pools.Pause(t.Context(), p, pool.ID)
			_, resumed := s.Pools.Resume(t.Context(), p, pool.ID)
			_, applied := s.Pools.Apply(t.Context(), p, fleet.PoolFile{File: "pools.yaml", Source: "pools: []"})
			for _, err := range []error{created, updated, paused, resumed, applied, s.Pools.Delete(t.Context(), p, pool.ID)} {
				jobstest.RequireCode(t, err, apierror.CodeForbidden)
			}
		}
		_, err = s.Pools.Pause(t.Context(), s.Admin, "pol_1")
		jobstest.RequireCode(t, err, apierror.CodeNotFound)

		require.Equal(t, before, s.Dump(t))
	})

	t.Run("TakeNoWorkersWhilePausedAndKeepTheirOwnUntilTheirJobsEnd", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 2, 4)
		require.NoError(t, scaler.Scale(t.Context()))
		workers := enrol(t, s, provider, pool)
		s.Submit(t)
		s.Lease(t, workers[0])

		_, err := s.Pools.Pause(t.Context(), s.Admin, pool.ID)
		require.NoError(t, err)
		deleted := s.Pools.Delete(t.Context(), s.Admin, pool.ID)
		_, _, joined := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
			Provider: "fake", ProviderInstanceID: "late", GPUCount: 1, PoolID: pool.ID, Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
		})
		s.Submit(t)
		require.NoError(t, scaler.Scale(t.Context()))

		jobstest.RequireCode(t, deleted, apierror.CodeConflict)
		require.ErrorContains(t, deleted, "has 2 workers. Pause it, and delete it after they have ended")
		jobstest.RequireCode(t, joined, apierror.CodeUnavailable)
		status := poolStatus(t, s, pool)
		require.Equal(t, []int{0, 0, 0, 2}, []int{status.Booting, status.Idle, status.Busy, status.Draining})
		require.Equal(t, 2, provider.Started)
		require.Equal(t, 1, s.Count(t, "job_attempts"), "the job goes on")
	})
}

const poolsFile = `pools:
  - name: l4-spot
    provider: fake
    region: here
    zones: [here-a]
    gpuType: L4
    models: [testcard]
    maxWorkers: 4
    scaleDownCooldownSeconds: 0
    settings: {image: worker-7, disk: {gb: 50}}
  - name: l4-safe
    provider: fake
    region: here
    gpuType: L4
    capacityClass: ON_DEMAND
    models: [testcard]
    maxWorkers: 2
`

func apply(t *testing.T, s *jobstest.Stack, source string, dryRun bool) ([]*fleet.PoolChange, error) {
	t.Helper()
	return s.Pools.Apply(t.Context(), s.Admin, fleet.PoolFile{File: "pools.yaml", Source: source, DryRun: dryRun})
}

func TestApplyPools(t *testing.T) {
	t.Parallel()

	t.Run("AddsChangesAndRepeatsNothing", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		kinds := func(changes []*fleet.PoolChange) (all []catalogue.ChangeKind) {
			for _, c := range changes {
				all = append(all, c.Kind)
			}
			return all
		}

		planned, err := apply(t, s, poolsFile, true)
		require.NoError(t, err)
		require.Zero(t, s.Count(t, "pools"))
		added, err := apply(t, s, poolsFile, false)
		require.NoError(t, err)
		again, err := apply(t, s, poolsFile, false)
		require.NoError(t, err)
		changed, err := apply(t, s, strings.Replace(poolsFile, "maxWorkers: 4", "maxWorkers: 9\n    warmWorkers: 1", 1), false)
		require.NoError(t, err)

		require.Equal(t, []catalogue.ChangeKind{catalogue.Added, catalogue.Added}, kinds(planned))
		require.Equal(t, []catalogue.ChangeKind{catalogue.Added, catalogue.Added}, kinds(added))
		require.Equal(t, []catalogue.ChangeKind{catalogue.Unchanged, catalogue.Unchanged}, kinds(again))
		require.Equal(t, []catalogue.ChangeKind{catalogue.Changed, catalogue.Unchanged}, kinds(changed))
		require.Len(t, changed[0].Differences, 2)
		require.Equal(t, "maxWorkers", changed[0].Differences[0].Path)
		require.Equal(t, "9", string(changed[0].Differences[0].After))
		pools, err := s.Reads.Fleet.Pools(t.Context())
		require.NoError(t, err)
		require.Equal(t, []*int{nil, new(0)}, []*int{pools[0].IdleSeconds, pools[1].IdleSeconds})
		require.JSONEq(t, `{"image": "worker-7", "disk": {"gb": 50}}`, string(pools[1].Settings))
	})

	t.Run("AppliesTheFileOfTheDocumentation", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		page, err := os.ReadFile("../../docs/operators/pools.md")
		require.NoError(t, err)
		_, file, _ := strings.Cut(string(page), "```yaml\n")
		file, _, _ = strings.Cut(file, "```")

		changes, err := apply(t, s, file, false)

		require.NoError(t, err)
		require.Len(t, changes, 2)
	})

	t.Run("RefusesABadFileWholeAndNamesTheLine", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)

		for says, change := range map[string][2]string{
			"pools.yaml:8: unknown field \"maxworkers\"":                                   {"maxWorkers: 4", "maxworkers: 4"},
			"pools.yaml:8: maxWorkers must be from 0":                                      {"maxWorkers: 4", "maxWorkers: -4"},
			"pools.yaml:18: minWorkers must be from 0 to maxWorkers":                       {"maxWorkers: 2", "maxWorkers: 2\n    minWorkers: 3"},
			"pools.yaml:11: the file has two pools with the name":                          {"l4-safe", "l4-spot"},
			"pools.yaml:3: There is no provider \"cloud\". The provide":                    {"provider: fake", "provider: cloud"},
			"pools.yaml:1: the file must have 1 to 200 pools":                              {poolsFile, "pools: []"},
			"the file is empty: it must have pools":                                        {poolsFile, ""},
			"pools.yaml:5":                                                                 {"zones: [here-a]", "zones: &z [here-a]"},
			"pools.yaml:10":                                                                {"settings: {image: worker-7,", "settings: [1,"},
			`pools.yaml:8: maxWorkers must be a whole number; it is "two"`:                 {"maxWorkers: 4", "maxWorkers: two"},
			`pools.yaml:8: maxWorkers must be a whole number; it is "1.5"`:                 {"maxWorkers: 4", "maxWorkers: 1.5"},
			`pools.yaml:8: maxWorkers must be a whole number; it is a list`:                {"maxWorkers: 4", "maxWorkers: [4]"},
			`pools.yaml:8: maxWorkers must be a whole number; it is "9999999999999999999"`: {"maxWorkers: 4", "maxWorkers: 9999999999999999999"},
			`pools.yaml:8: holdOnFailure must be true or false; it is "yes"`:               {"maxWorkers: 4", "holdOnFailure: yes"},
			"pools.yaml:2: maxWorkers is missing: write how many workers":                  {"    maxWorkers: 4\n", ""},
			"pools.yaml:11: maxWorkers is missing: write how many":                         {"maxWorkers: 2", "maxWorkers:"},
			"pools.yaml:2: maxWorkers is missing":                                          {"maxWorkers: 4", "maxWorkers: ~"},
			`pools.yaml:5: zones must be a list; it is "here-a"`:                           {"zones: [here-a]", "zones: here-a"},
			`pools.yaml:5: zones[0] must be a text; it is a map of keys and values`:        {"zones: [here-a]", "zones: [{a: b}]"},
		} {
			_, err := apply(t, s, strings.Replace(poolsFile, change[0], change[1], 1), false)

			var wrong *apierror.Error
			require.True(t, errors.As(err, &wrong), says)
			require.Equal(t, apierror.CodeInvalidInput, wrong.Code)
			require.Contains(t, wrong.Message, strings.TrimPrefix(says, "pools.yaml:1: "))
			require.Zero(t, s.Count(t, "pools"), "nothing is written")
		}
	})

	t.Run("KeepsTheProviderOfAPoolWithWorkers", func(t *testing.T) {
		t.Parallel()
		s, scaler, _, _ := scaled(t, 1, 1)
		require.NoError(t, scaler.Scale(t.Context()))

		_, err := apply(t, s, "pools: [{name: fakes, provider: local, region: local, gpuType: any, models: [testcard], maxWorkers: 1}]", false)

		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.ErrorContains(t, err, "provider of the pool fakes can change when it has no workers or machines; it has 1")
	})

	t.Run("LooksForMachinesWhereTheyAre", func(t *testing.T) {
		t.Parallel()
		s, scaler, provider, pool := scaled(t, 1, 1)
		change := func(edit func(*capacity.PoolSpec)) error {
			spec := pool.PoolSpec
			edit(&spec)
			_, err := s.Pools.Update(t.Context(), s.Admin, pool.ID, spec)
			return err
		}
		moves := map[string]func(*capacity.PoolSpec){
			"region":           func(spec *capacity.PoolSpec) { spec.Region = "elsewhere" },
			"settings.project": func(spec *capacity.PoolSpec) { spec.Settings = []byte(`{"project": "other"}`) },
			"settings.program": func(spec *capacity.PoolSpec) { spec.Settings = []byte(`{"program": "other"}`) },
		}
		require.NoError(t, scaler.Scale(t.Context()))
		enrol(t, s, provider, pool)
		s.Exec(t, "UPDATE workers SET status = 'TERMINATED', ended_at = clock_timestamp(), token_hash = NULL, idle_since = NULL")

		for field, edit := range moves {
			err := change(edit)
			jobstest.RequireCode(t, err, apierror.CodeConflict)
			require.ErrorContains(t, err, "The "+field+" of the pool fakes can change when")
		}
		require.NoError(t, change(func(spec *capacity.PoolSpec) { spec.Settings = []byte(`{"image": "other"}`) }))
		s.Exec(t, "UPDATE machines SET gone_at = clock_timestamp(), billed_until = clock_timestamp()")
		require.NoError(t, change(moves["region"]))
	})
}
