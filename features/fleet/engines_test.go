package fleet_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/jsondiff"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// comfy is a pool of two engines that follows the catalogue.
func comfy() capacity.PoolSpec {
	return capacity.PoolSpec{Name: "comfy", Provider: engine.Provider, EngineKind: engine.ComfyUI,
		Engines: []string{"http://gpu-1:8188/", "http://GPU-2:8188"}}
}

// graphs adds models of the runtime comfyui to the catalogue.
func graphs(t *testing.T, s *jobstest.Stack, names ...string) {
	t.Helper()
	entries := lo.Map(names, func(name string, _ int) string {
		return fmt.Sprintf("{name: %s, type: video.generate, runtime: comfyui, "+
			"settings: {graph: {\"1\": {class_type: SaveVideo, inputs: {filename_prefix: video}}}}, gpuTypes: [any], timeoutSeconds: 60, gpuSecondsPerSecond: 1, params: {type: object}}",
			name)
	})
	_, err := s.Registry.Apply(t.Context(), s.Admin, registry.Application{File: "own.yaml", Source: "models: [" + strings.Join(entries, ", ") + "]"})
	require.NoError(t, err)
}

// drive registers the worker of an engine, as its agent does.
func drive(t *testing.T, s *jobstest.Stack, pool, url string) *models.Worker {
	t.Helper()
	w, _, err := s.Registrar.Register(t.Context(), s.Enrolment, engineWorker(pool, url))
	require.NoError(t, err)
	return w
}

func engineWorker(pool, url string) fleet.Registration {
	return fleet.Registration{Provider: engine.Provider, ProviderInstanceID: engine.Instance(url), GPUCount: 1, PoolID: models.PoolID(pool),
		Region: "elsewhere", GPUType: "H100", CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, AgentVersion: "test"}
}

func report(url string, state capacity.EngineState, lacks ...string) capacity.EngineReport {
	return capacity.EngineReport{URL: url, State: state, Version: "0.3.75",
		Lacks: lo.Map(lacks, func(m string, _ int) capacity.EngineLack { return capacity.EngineLack{Model: m, Missing: "the node X"} })}
}

func syncEngines(t *testing.T, s *jobstest.Stack, reports ...capacity.EngineReport) *fleet.EnginesWanted {
	t.Helper()
	wanted, err := s.Engines.Sync(t.Context(), s.Enrolment, fleet.EngineSync{Pool: "comfy", Reports: reports})
	require.NoError(t, err)
	return wanted
}

func nowOf(t *testing.T, s *jobstest.Stack, id models.WorkerID) *models.Worker {
	t.Helper()
	w, err := jobs.GetWorker(t.Context(), s.DB, id)
	require.NoError(t, err)
	return w
}

// enginesOf returns the engines of a pool by their addresses.
func enginesOf(t *testing.T, s *jobstest.Stack, pool *capacity.Pool) map[string]*query.PoolEngine {
	t.Helper()
	return lo.KeyBy(poolStatus(t, s, pool).Engines, func(e *query.PoolEngine) string { return e.URL })
}

func TestEnginePools(t *testing.T) {
	t.Parallel()

	t.Run("HaveDefaultsAndFollowTheCatalogue", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.SeedCatalogue(t)
		pool, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		require.Equal(t, []string{"http://gpu-1:8188", "http://gpu-2:8188"}, pool.Engines)
		require.Equal(t, []any{"local", "engine", models.CapacityOnDemand, 2, true, []string{}},
			[]any{pool.Region, pool.GPUType, pool.CapacityClass, pool.MaxWorkers, pool.FollowsCatalogue, pool.Models})
		written := pool.Version()
		w := drive(t, s, "comfy", "http://gpu-1:8188")
		require.Empty(t, w.Models)

		graphs(t, s, "wan", "anime")
		require.Equal(t, []string{"anime", "wan"}, poolStatus(t, s, pool).Models)
		require.Equal(t, []string{"anime", "wan"}, nowOf(t, s, w.ID).Models)
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "wan", false), "no operator listed it")
		require.Equal(t, []string{"anime"}, nowOf(t, s, w.ID).Models)
		_, err = s.Registry.Restore(t.Context(), s.Admin, "wan")
		require.NoError(t, err)

		now := poolStatus(t, s, pool)
		require.Equal(t, []string{"anime", "wan"}, now.Models)
		require.Equal(t, written, now.Version(), "nothing changed of what the operator wrote")
		changes, err := s.Pools.Apply(t.Context(), s.Admin, fleet.PoolFile{File: "p.yaml", DryRun: true,
			Source: "pools: [{name: comfy, provider: engines, engineKind: comfyui, engines: ['http://gpu-1:8188', 'http://gpu-2:8188']}]"})
		require.NoError(t, err)
		require.Equal(t, catalogue.Unchanged, changes[0].Kind, "%v", changes[0].Differences)
	})

	t.Run("AreWrittenInFiles", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.SeedCatalogue(t)
		graphs(t, s, "wan", "anime")
		_, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)

		// The second engine moves to a pool that stands before its present one.
		changes, err := s.Pools.Apply(t.Context(), s.Admin, fleet.PoolFile{File: "p.yaml", Source: `
pools:
  - {name: anime, provider: engines, engineKind: comfyui, engines: ["http://gpu-2:8188"], models: [anime]}
  - {name: comfy, provider: engines, engineKind: comfyui, engines: ["http://gpu-1:8188", "http://gpu-3:8188"]}`})
		require.NoError(t, err)

		require.Equal(t, []catalogue.ChangeKind{catalogue.Added, catalogue.Changed}, []catalogue.ChangeKind{changes[0].Kind, changes[1].Kind})
		require.Equal(t, []string{"engines"}, lo.Map(changes[1].Differences, func(d jsondiff.Difference, _ int) string { return d.Path }))
		pools, err := s.Reads.Fleet.Pools(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"anime"}, pools[0].Models)
		require.Equal(t, "http://gpu-2:8188", pools[0].Engines[0].URL)
		require.Equal(t, []string{"http://gpu-1:8188", "http://gpu-3:8188"},
			lo.Map(pools[1].Engines, func(e *query.PoolEngine, _ int) string { return e.URL }))
	})

	t.Run("RefuseBadFieldsWhole", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		_, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		before := s.Dump(t)
		many := make([]string, 101)
		for i := range many {
			many[i] = fmt.Sprintf("http://gpu:%d", i+1000)
		}
		for i, bad := range []struct {
			field, says string
			change      func(*capacity.PoolSpec)
		}{
			{"engineKind", "it must be comfyui, videos-api, cog", func(p *capacity.PoolSpec) { p.EngineKind = "ollama" }},
			{"engineKind", "a pool of engines has a kind", func(p *capacity.PoolSpec) { p.EngineKind = "" }},
			{"engines", "1 to 100 engines", func(p *capacity.PoolSpec) { p.Engines = nil }},
			{"engines", "this one has 101", func(p *capacity.PoolSpec) { p.Engines = many }},
			{"engines", "engines[0]: the address of an engine must have no user",
				func(p *capacity.PoolSpec) { p.Engines = []string{"http://me:hunter2@gpu-3"} }},
			{"engines", "twice", func(p *capacity.PoolSpec) { p.Engines = []string{"http://gpu-3", "http://GPU-3:80/"} }},
			{"engines", "of the same host, port and path", func(p *capacity.PoolSpec) { p.Engines = []string{"http://gpu-3:443", "https://gpu-3"} }},
			{"maxWorkers", "is the number of its engines, 1", func(p *capacity.PoolSpec) { p.MaxWorkers = 2 }},
			{"minWorkers", "must be 0", func(p *capacity.PoolSpec) { p.MinWorkers = 1 }},
			{"workersPerMachine", "one worker", func(p *capacity.PoolSpec) { p.WorkersPerMachine = 2 }},
			{"engines", "Only pools of the provider engines", func(p *capacity.PoolSpec) { *p = spec(); p.Engines = []string{"http://gpu-3"} }},
			{"engineKind", "Only pools of the provider engines", func(p *capacity.PoolSpec) { *p = spec(); p.EngineKind = engine.Cog }},
			{"models", "1 to 100 models", func(p *capacity.PoolSpec) { *p = spec(); p.Models = nil }},
		} {
			wanted := comfy()
			wanted.Name, wanted.Engines = "other", []string{"http://gpu-3:8188"}
			bad.change(&wanted)
			_, err := s.Pools.Create(t.Context(), s.Admin, wanted)
			var refused *apierror.Error
			require.ErrorAs(t, err, &refused, i)
			require.Equal(t, []any{apierror.CodeInvalidInput, bad.field}, []any{refused.Code, refused.Field}, refused.Message)
			require.Contains(t, refused.Message, bad.says)
			require.NotContains(t, err.Error(), "hunter2")
		}
		taken := comfy()
		taken.Name, taken.Engines = "other", []string{"http://gpu-3:8188", "http://gpu-2:8188"}
		_, err = s.Pools.Create(t.Context(), s.Admin, taken)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.ErrorContains(t, err, "The pool comfy has the engine http://gpu-2:8188 already")
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("GetAnEngineOnceWhenTwoWantIt", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		var mu sync.Mutex
		var made, conflicts int
		var group errgroup.Group
		for i := range 6 {
			group.Go(func() error {
				wanted := comfy()
				wanted.Name = fmt.Sprintf("p%d", i)
				if i%2 > 0 {
					wanted.Engines = []string{"http://gpu-2:8188", "http://gpu-1:8188"}
				}
				_, err := s.Pools.Create(t.Context(), s.Admin, wanted)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					made++
				case apierror.HasCode(err, apierror.CodeConflict):
					conflicts++
				default:
					return err
				}
				return nil
			})
		}
		require.NoError(t, group.Wait())
		require.Equal(t, []int{1, 5}, []int{made, conflicts})
	})

	t.Run("MissNoModelThatIsAddedAtTheSameInstant", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.SeedCatalogue(t)
		for i := range 6 {
			wanted := comfy()
			wanted.Name, wanted.Engines = fmt.Sprintf("p%d", i), []string{fmt.Sprintf("http://gpu-%d", i)}
			var pool *capacity.Pool
			var group errgroup.Group
			group.Go(func() (err error) { pool, err = s.Pools.Create(t.Context(), s.Admin, wanted); return err })
			group.Go(func() error { graphs(t, s, fmt.Sprintf("m%d", i)); return nil })
			require.NoError(t, group.Wait())
			require.Contains(t, poolStatus(t, s, pool).Models, fmt.Sprintf("m%d", i))
		}
	})

	t.Run("DrainTheWorkersOfEnginesThatLeave", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		w, stays := drive(t, s, "comfy", "http://gpu-1:8188"), drive(t, s, "comfy", "http://gpu-2:8188")
		fewer := comfy()
		fewer.Engines = fewer.Engines[1:]
		kind := comfy()
		kind.EngineKind = engine.Cog

		_, err = s.Pools.Update(t.Context(), s.Admin, pool.ID, kind)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		_, err = s.Pools.Update(t.Context(), s.Admin, pool.ID, fewer)
		require.NoError(t, err)

		require.Equal(t, []any{models.WorkerDraining, models.LeavesUnlisted},
			[]any{nowOf(t, s, w.ID).Status, nowOf(t, s, w.ID).DrainReason})
		require.Equal(t, models.WorkerIdle, nowOf(t, s, stays.ID).Status)
		require.Len(t, enginesOf(t, s, pool), 1)
	})
}

func TestEngineWorkers(t *testing.T) {
	t.Parallel()

	t.Run("OfferWhatTheirPoolHasAndTheirEngineDoesNotLack", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.SeedCatalogue(t)
		graphs(t, s, "wan", "anime")
		pool, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		syncEngines(t, s, report("http://gpu-1:8188", capacity.EngineReady, "wan"), report("http://gpu-2:8188", capacity.EngineReady))
		one, two := drive(t, s, "comfy", "http://gpu-1:8188"), drive(t, s, "comfy", "http://gpu-2:8188")
		require.Equal(t, []any{[]string{"anime"}, "local", "engine", models.CapacityOnDemand},
			[]any{one.Models, one.Region, one.GPUType, one.CapacityClass})
		require.Equal(t, []string{"anime", "wan"}, two.Models)

		syncEngines(t, s, report("http://gpu-1:8188", capacity.EngineReady), report("http://gpu-2:8188", capacity.EngineReady, "wan", "nonesuch"))
		require.Equal(t, []string{"anime", "wan"}, nowOf(t, s, one.ID).Models)
		require.Equal(t, []string{"anime"}, nowOf(t, s, two.ID).Models)
		changed := comfy()
		changed.Models, changed.GPUType = []string{"wan", "testcard"}, "L40S"
		_, err = s.Pools.Update(t.Context(), s.Admin, pool.ID, changed)
		require.NoError(t, err)
		require.Equal(t, []any{[]string{"wan", "testcard"}, "L40S"}, []any{nowOf(t, s, one.ID).Models, nowOf(t, s, one.ID).GPUType})
		require.Equal(t, []string{"testcard"}, nowOf(t, s, two.ID).Models)
	})

	t.Run("AreOnlyThoseOfTheirPool", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		_, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		_, err = s.Pools.Create(t.Context(), s.Admin, spec())
		require.NoError(t, err)
		for field, bad := range map[string]func(*fleet.Registration){
			"providerInstanceId": func(in *fleet.Registration) { in.ProviderInstanceID = "gpu-3:8188" },
			"slot":               func(in *fleet.Registration) { in.Slot = 1 },
			"poolId":             func(in *fleet.Registration) { in.PoolID = "" },
		} {
			in := engineWorker("comfy", "http://gpu-1:8188")
			bad(&in)
			_, _, err := s.Registrar.Register(t.Context(), s.Enrolment, in)
			var refused *apierror.Error
			require.ErrorAs(t, err, &refused, field)
			require.Equal(t, field, refused.Field)
		}
		_, _, err = s.Registrar.Register(t.Context(), s.Enrolment, engineWorker("l4-spot", "http://gpu-1:8188"))
		require.ErrorContains(t, err, "names the pool that lists the engine")
		static := engineWorker("comfy", "http://gpu-1:8188")
		static.Provider = "static"
		_, _, err = s.Registrar.Register(t.Context(), s.Enrolment, static)
		require.ErrorContains(t, err, "its workers are those of `reelay agent --pool comfy`")
		static.Models, static.PoolID = nil, ""
		_, _, err = s.Registrar.Register(t.Context(), s.Enrolment, static)
		require.ErrorContains(t, err, "A worker runs 1 to 100 models")
	})

	t.Run("AreQuarantinedEachForItself", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		_, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		one, two := drive(t, s, "comfy", "http://gpu-1:8188"), drive(t, s, "comfy", "http://gpu-2:8188")
		_, err = s.Fleet.QuarantineWorker(t.Context(), s.Admin, one.ID, 5, "it lies")
		require.NoError(t, err)
		again := drive(t, s, "comfy", "http://gpu-1:8188")
		require.False(t, again.QuarantinedUntil.IsZero(), "also after its agent has restarted")
		require.True(t, nowOf(t, s, two.ID).QuarantinedUntil.IsZero())
	})
}

func TestSyncEngines(t *testing.T) {
	t.Parallel()

	t.Run("TellsTheStateOfEachEngine", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		e := enginesOf(t, s, pool)["http://gpu-1:8188"]
		require.Equal(t, []any{capacity.EngineUnknown, `No agent drives it: start "reelay agent --pool comfy".`}, []any{e.State, e.Reason})

		said := report("http://gpu-1:8188", capacity.EngineReady)
		said.GPUName, said.GPUMemoryBytes, said.Reason = "NVIDIA L4", new(int64(24<<30)), strings.Repeat("ü", 100_000)+"\x00"
		wanted := syncEngines(t, s, said, report("http://gpu-9:8188", capacity.EngineReady))
		require.Equal(t, []any{"comfy", engine.ComfyUI, 2}, []any{wanted.Pool, wanted.Kind, len(wanted.Engines)})
		first := enginesOf(t, s, pool)["http://gpu-1:8188"]
		require.Equal(t, []any{capacity.EngineReady, "NVIDIA L4", int64(24 << 30)}, []any{first.State, first.GPUName, *first.GPUMemoryBytes})
		require.Less(t, len(first.Reason), 5000)
		require.Equal(t, capacity.EngineUnknown, enginesOf(t, s, pool)["http://gpu-2:8188"].State)

		syncEngines(t, s)
		syncEngines(t, s, said)
		require.Equal(t, first.Since, enginesOf(t, s, pool)["http://gpu-1:8188"].Since, "it is as it was")
		w := drive(t, s, "comfy", "http://gpu-1:8188")
		said.State = capacity.EngineUnreachable
		syncEngines(t, s, said)
		second := enginesOf(t, s, pool)["http://gpu-1:8188"]
		require.True(t, second.Since.After(first.Since))
		require.Equal(t, w.ID, second.WorkerID)

		s.Exec(t, "UPDATE engines SET reported_at = reported_at - interval '61 seconds', since = since - interval '1 hour' WHERE url = ?",
			"http://gpu-1:8188")
		silent := enginesOf(t, s, pool)["http://gpu-1:8188"]
		require.Equal(t, capacity.EngineUnknown, silent.State)
		require.True(t, silent.Since.After(second.Since.Add(-62e9)), "since the last report")
		syncEngines(t, s, said)
		require.True(t, enginesOf(t, s, pool)["http://gpu-1:8188"].Since.After(second.Since), "an agent that is back says it anew")
	})

	t.Run("RefusesBadReportsWhole", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		_, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		_, err = s.Pools.Create(t.Context(), s.Admin, spec())
		require.NoError(t, err)
		before := s.Dump(t)
		good := report("http://gpu-1:8188", capacity.EngineReady)
		many := lo.Times(101, func(i int) string { return fmt.Sprintf("m%d", i) })
		for field, reports := range map[string][]capacity.EngineReport{
			"reports[1].url":            {good, report("http://me:hunter2@gpu-1", capacity.EngineReady)},
			"reports[0].url":            {report("gpu-1", capacity.EngineReady)},
			"reports[2].url":            {good, report("http://gpu-2", capacity.EngineReady), good},
			"reports[0].state":          {report("http://gpu-1:8188", capacity.EngineHeld)},
			"reports[0].lacks":          {report("http://gpu-1:8188", capacity.EngineReady, many...)},
			"reports[1].lacks":          {good, report("http://gpu-2:8188", capacity.EngineReady, "no such/name\n")},
			"reports[0].gpuMemoryBytes": {{URL: "http://gpu-1:8188", State: capacity.EngineReady, GPUMemoryFreeBytes: new(int64(-1))}},
			"reports": lo.Times(101, func(i int) capacity.EngineReport {
				return report(fmt.Sprintf("http://gpu-%d", i), capacity.EngineReady)
			}),
		} {
			_, err := s.Engines.Sync(t.Context(), s.Enrolment, fleet.EngineSync{Pool: "comfy", Reports: reports})
			var refused *apierror.Error
			require.ErrorAs(t, err, &refused, field)
			require.Equal(t, []any{apierror.CodeInvalidInput, field}, []any{refused.Code, refused.Field}, refused.Message)
			require.NotContains(t, err.Error(), "hunter2")
		}
		for pool, code := range map[string]apierror.Code{
			"nonesuch": apierror.CodeUnavailable, "l4-spot": apierror.CodeInvalidInput, "": apierror.CodeInvalidInput, "A\n": apierror.CodeInvalidInput,
		} {
			_, err := s.Engines.Sync(t.Context(), s.Enrolment, fleet.EngineSync{Pool: pool, Reports: []capacity.EngineReport{good}})
			jobstest.RequireCode(t, err, code)
		}
		_, err = s.Engines.Sync(t.Context(), s.Worker(t, "w"), fleet.EngineSync{Pool: "comfy"})
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		s.Exec(t, "DELETE FROM workers")
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("IgnoresTheEnginesOfOtherPools", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		_, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		other := comfy()
		other.Name, other.Engines = "other", []string{"http://gpu-3:8188"}
		pool, err := s.Pools.Create(t.Context(), s.Admin, other)
		require.NoError(t, err)

		syncEngines(t, s, report("http://gpu-3:8188", capacity.EngineFailed))

		require.Equal(t, capacity.EngineUnknown, enginesOf(t, s, pool)["http://gpu-3:8188"].State)
	})

	t.Run("SeesChangesOfThePoolAtTheSameInstant", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.SeedCatalogue(t)
		graphs(t, s, "wan")
		pool, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		var group errgroup.Group
		for i := range 8 {
			group.Go(func() error {
				lacks := []string{"wan"}[:i%2]
				_, err := s.Engines.Sync(t.Context(), s.Enrolment, fleet.EngineSync{Pool: "comfy", Reports: []capacity.EngineReport{
					report("http://gpu-2:8188", capacity.EngineReady, lacks...), report("http://gpu-1:8188", capacity.EngineReady, lacks...)}})
				return err
			})
			group.Go(func() error {
				_, _, err := s.Registrar.Register(t.Context(), s.Enrolment, engineWorker("comfy", "http://gpu-2:8188"))
				if apierror.HasCode(err, apierror.CodeConflict) || apierror.HasCode(err, apierror.CodeInvalidInput) {
					err = nil // another was faster, or the pool has the engine no longer
				}
				return err
			})
			group.Go(func() error {
				changed := comfy()
				changed.Engines = changed.Engines[:1+i%2]
				_, err := s.Pools.Update(t.Context(), s.Admin, pool.ID, changed)
				return err
			})
		}
		require.NoError(t, group.Wait())
		if _, err := s.Pools.Update(t.Context(), s.Admin, pool.ID, comfy()); err != nil {
			require.NoError(t, err)
		}
		for _, e := range enginesOf(t, s, pool) {
			if e.WorkerID == "" {
				continue
			}
			require.Equal(t, len(e.Lacks) == 0, len(nowOf(t, s, e.WorkerID).Models) == 1, "%v", e.Lacks)
		}
	})
}

func TestHoldEngine(t *testing.T) {
	t.Parallel()

	t.Run("DrainsItsWorkerAndKeepsOthersAway", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.SeedCatalogue(t)
		graphs(t, s, "wan")
		pool, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		w := drive(t, s, "comfy", "http://gpu-1:8188")
		syncEngines(t, s, report("http://gpu-1:8188", capacity.EngineReady))

		for range 2 {
			require.NoError(t, s.Engines.Hold(t.Context(), s.Admin, pool.ID, "http://GPU-1:8188/"))
		}
		require.Equal(t, []any{models.WorkerDraining, models.LeavesHeld},
			[]any{nowOf(t, s, w.ID).Status, nowOf(t, s, w.ID).DrainReason})
		e := enginesOf(t, s, pool)["http://gpu-1:8188"]
		require.Equal(t, []any{true, "test ADMIN", capacity.EngineReady}, []any{e.Held(), *e.HeldBy, e.State}, "its worker is still there")
		require.Equal(t, []bool{true, false}, lo.Map(syncEngines(t, s).Engines, func(e *capacity.Engine, _ int) bool { return e.Held() }))
		p, err := s.Fleet.TerminateWorker(t.Context(), s.Admin, w.ID)
		require.NoError(t, err)
		require.Equal(t, models.WorkerTerminated, p.Status)
		require.Equal(t, capacity.EngineHeld, enginesOf(t, s, pool)["http://gpu-1:8188"].State)
		_, _, err = s.Registrar.Register(t.Context(), s.Enrolment, engineWorker("comfy", "http://gpu-1:8188"))
		jobstest.RequireCode(t, err, apierror.CodeUnavailable)
		require.ErrorContains(t, err, "An operator holds the engine http://gpu-1:8188")

		require.NoError(t, s.Engines.Resume(t.Context(), s.Admin, pool.ID, "http://gpu-1:8188"))
		require.Equal(t, capacity.EngineReady, enginesOf(t, s, pool)["http://gpu-1:8188"].State)
		drive(t, s, "comfy", "http://gpu-1:8188")
		acts, err := access.ListAudit(t.Context(), s.DB, "", "", 10)
		require.NoError(t, err)
		require.Equal(t, []string{"resumeEngine", "holdEngine"},
			lo.FilterMap(acts, func(a *access.AuditEntry, _ int) (string, bool) {
				return a.Action, strings.HasSuffix(a.Action, "Engine")
			}))
	})

	t.Run("RefusesOthers", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool, err := s.Pools.Create(t.Context(), s.Admin, comfy())
		require.NoError(t, err)
		for _, p := range []jobs.Principal{s.Client, s.Enrolment} {
			jobstest.RequireCode(t, s.Engines.Hold(t.Context(), p, pool.ID, "http://gpu-1:8188"), apierror.CodeForbidden)
		}
		jobstest.RequireCode(t, s.Engines.Hold(t.Context(), s.Admin, pool.ID, "http://gpu-9:8188"), apierror.CodeNotFound)
		jobstest.RequireCode(t, s.Engines.Hold(t.Context(), s.Admin, "pol_1", "http://gpu-1:8188"), apierror.CodeNotFound)
		err = s.Engines.Resume(t.Context(), s.Admin, pool.ID, "http://me:hunter2@gpu-1")
		jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
		require.NotContains(t, err.Error(), "hunter2")
	})
}

func TestTroubledEngines(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	wanted := comfy()
	wanted.Engines = []string{"http://ready", "http://down", "http://silent", "http://drains", "http://held", "http://new"}
	pool, err := s.Pools.Create(t.Context(), s.Admin, wanted)
	require.NoError(t, err)
	syncEngines(t, s, report("http://ready", capacity.EngineReady), report("http://down", capacity.EngineUnreachable),
		report("http://silent", capacity.EngineReady), report("http://drains", capacity.EngineDraining), report("http://held", capacity.EngineReady))
	require.NoError(t, s.Engines.Hold(t.Context(), s.Admin, pool.ID, "http://held"))
	expect := func(down, drained int, urls ...string) {
		t.Helper()
		found, err := capacity.ListTroubledEngines(t.Context(), s.DB)
		require.NoError(t, err)
		require.Equal(t, append([]string{}, urls...), lo.Map(found, func(e *capacity.Engine, _ int) string { return e.URL }))
		health, err := alerts.ReadHealth(t.Context(), s.DB, time.Minute, 10)
		require.NoError(t, err)
		require.Equal(t, []int{down, drained}, []int{health.EnginesDown, health.EnginesDrained})
	}
	expect(0, 0)

	s.Exec(t, "UPDATE engines SET since = since - interval '4 minutes', held_at = held_at - interval '4 minutes' WHERE url <> 'http://new'")
	s.Exec(t, "UPDATE engines SET reported_at = reported_at - interval '4 minutes' WHERE url = 'http://silent'")
	expect(2, 0, "http://down", "http://silent")
	s.Exec(t, "UPDATE engines SET since = since - interval '30 minutes', held_at = held_at - interval '30 minutes' WHERE url <> 'http://new'")
	expect(2, 2, "http://down", "http://drains", "http://held", "http://silent")

	_, err = s.Pools.Pause(t.Context(), s.Admin, pool.ID)
	require.NoError(t, err)
	expect(0, 0)
}

func TestJobsOfEngines(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	s.SeedCatalogue(t)
	graphs(t, s, "wan")
	pool, err := s.Pools.Create(t.Context(), s.Admin, comfy())
	require.NoError(t, err)
	job, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "wan"})
	require.NoError(t, err)
	down := report("http://gpu-1:8188", capacity.EngineUnreachable)
	down.Reason = "connection refused"
	syncEngines(t, s, down, report("http://gpu-2:8188", capacity.EngineUnreachable))
	require.NoError(t, s.Engines.Hold(t.Context(), s.Admin, pool.ID, "http://gpu-2:8188"))

	why, err := s.WaitingFor(t, job.ID)
	require.NoError(t, err)
	require.Equal(t, "No engine that can run it works: 1 engine cannot be reached, and 1 engine is drained or held.", why[job.ID][0].Message)
	require.Contains(t, why[job.ID][0].Whole(), "It says: http://gpu-1:8188: connection refused")
}
