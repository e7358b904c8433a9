package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// file is a file with one model of that name.
func file(name string, timeout int) registry.Application {
	return registry.Application{File: "own.yaml", Source: fmt.Sprintf(
		"models: [{name: %s, type: video.generate, gpuTypes: [any], timeoutSeconds: %d, gpuSecondsPerSecond: 1, params: {type: object}}]", name,
		timeout)}
}

func open(t *testing.T) *jobstest.Stack {
	s := jobstest.New(t)
	s.SeedCatalogue(t)
	return s
}

func code(t *testing.T, err error) apierror.Code {
	t.Helper()
	var refused *apierror.Error
	require.ErrorAs(t, err, &refused)
	return refused.Code
}

func TestApply(t *testing.T) {
	t.Parallel()

	t.Run("KeepsTheVersionOfAJob", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, file("own", 100))
		require.NoError(t, err)
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "own"})
		require.NoError(t, err)

		changes, err := s.Registry.Apply(t.Context(), s.Admin, file("own", 200))
		require.NoError(t, err)
		second, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "own"})
		require.NoError(t, err)

		require.Equal(t, catalogue.Changed, changes[0].Kind)
		require.Equal(t, []int{1, 100}, []int{s.Reload(t, first.ID).ModelVersion, first.TimeoutSeconds})
		require.Equal(t, []int{2, 200}, []int{s.Reload(t, second.ID).ModelVersion, second.TimeoutSeconds})
		require.Equal(t, 100.0, s.Registry.Catalogue.Current().At("own", 1).TimeoutSeconds)
		entries, err := access.ListAudit(t.Context(), s.DB, "", "", 10)
		require.NoError(t, err)
		require.Equal(t, "applyModels", entries[0].Action)
		require.Equal(t, "own 2", entries[0].Target)
	})

	t.Run("WritesNothingOfAFileWithAnError", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		bad := file("own", 100)
		bad.Source += "\naliases: [{name: fast, models: {other: 1}}]"

		_, err := s.Registry.Apply(t.Context(), s.Admin, bad)

		require.Equal(t, apierror.CodeInvalidInput, code(t, err))
		require.ErrorContains(t, err, "own.yaml:2: the alias fast names other")
		_, err = s.Registry.Catalogue.Current().Model("own")
		require.Error(t, err)
		require.NoError(t, s.Registry.Pass(t.Context()))
		_, err = s.Registry.Catalogue.Current().Model("own")
		require.Error(t, err)
	})

	t.Run("OnlySaysWhatADryRunWouldChange", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		before := s.Dump(t)
		dry := file("own", 100)
		dry.DryRun = true

		changes, err := s.Registry.Apply(t.Context(), s.Admin, dry)

		require.NoError(t, err)
		require.Equal(t, catalogue.Added, changes[0].Kind)
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("GivesConcurrentChangesDifferentVersions", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		var group errgroup.Group
		for i := range 8 {
			group.Go(func() error {
				_, err := (&registry.Registry{DB: s.DB, Catalogue: catalogue.Of(catalogue.New())}).Apply(t.Context(), s.Admin, file("own", 100+i))
				return err
			})
		}
		require.NoError(t, group.Wait())

		require.NoError(t, s.Registry.Pass(t.Context()))
		newest, err := s.Registry.Catalogue.Current().Model("own")
		require.NoError(t, err)
		require.Equal(t, 8, newest.Version)
	})

	t.Run("IsForAdmins", func(t *testing.T) {
		t.Parallel()
		s := open(t)

		_, err := s.Registry.Apply(t.Context(), s.Client, file("own", 100))

		require.Equal(t, apierror.CodeForbidden, code(t, err))
		require.Equal(t, apierror.CodeForbidden, code(t, s.Registry.Remove(t.Context(), s.Client, "drill", false)))
	})
}

func TestPass(t *testing.T) {
	t.Parallel()

	t.Run("FollowsTheChangesOfOtherProcesses", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		other := &registry.Registry{DB: s.DB, Catalogue: catalogue.Of(catalogue.New())}
		require.NoError(t, other.Pass(t.Context()))
		_, err := s.Registry.Apply(t.Context(), s.Admin, file("own", 100))
		require.NoError(t, err)

		require.NoError(t, other.Pass(t.Context()))
		_, err = other.Catalogue.Current().Model("own")
		require.NoError(t, err)

		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "own", false))
		require.NoError(t, other.Pass(t.Context()))
		_, err = other.Catalogue.Current().Model("own")
		require.ErrorContains(t, err, "There is no model of that name. The names are: testcard, ")
	})
}

func TestRemove(t *testing.T) {
	t.Parallel()

	t.Run("WaitsForTheLastJob", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, file("own", 100))
		require.NoError(t, err)
		job, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "own"})
		require.NoError(t, err)

		err = s.Registry.Remove(t.Context(), s.Admin, "own", false)
		require.Equal(t, apierror.CodeConflict, code(t, err))
		require.ErrorContains(t, err, "The model own is in use by jobs that have not ended (1)")

		_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "own", false))
		require.Equal(t, apierror.CodeNotFound, code(t, s.Registry.Remove(t.Context(), s.Admin, "own", false)))
	})

	t.Run("RefusesAModelThatAnAliasNames", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, registry.Application{File: "a.yaml",
			Source: "aliases: [{name: fast, models: {drill: 1}}]"})
		require.NoError(t, err)

		err = s.Registry.Remove(t.Context(), s.Admin, "drill", false)
		require.Equal(t, apierror.CodeConflict, code(t, err))

		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "fast", false))
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "drill", false))
	})

	t.Run("KeepsTheLastModel", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		for _, m := range s.Registry.Catalogue.Current().Models() {
			if m.Name != "testcard" {
				require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, m.Name, false))
			}
		}

		require.Equal(t, apierror.CodeConflict, code(t, s.Registry.Remove(t.Context(), s.Admin, "testcard", false)))
	})
}

func TestSeed(t *testing.T) {
	t.Parallel()
	source := func(a registry.Application) *catalogue.Source {
		found, err := catalogue.Parse(a.File, []byte(a.Source))
		require.NoError(t, err)
		return found
	}

	t.Run("LeavesWhatAnOperatorChangedOrRemoved", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "drill", false))
		_, err := s.Registry.Apply(t.Context(), s.Admin, file("testcard", 100))
		require.NoError(t, err)

		s.SeedCatalogue(t)

		_, err = s.Registry.Catalogue.Current().Model("drill")
		require.Error(t, err)
		testcard, err := s.Registry.Catalogue.Current().Model("testcard")
		require.NoError(t, err)
		require.Equal(t, 100.0, testcard.TimeoutSeconds)
	})

	t.Run("BringsTheNewEntriesOfARelease", func(t *testing.T) {
		t.Parallel()
		s := open(t)

		require.NoError(t, s.Registry.Seed(t.Context(), source(file("drill", 7)), capacity.OriginShipped))
		s.Registry.Folder = source(file("own", 100))
		require.NoError(t, s.Registry.Pass(t.Context()))

		drill, err := s.Registry.Catalogue.Current().Model("drill")
		require.NoError(t, err)
		require.Equal(t, []any{2, 7.0}, []any{drill.Version, drill.TimeoutSeconds})
		own, err := s.Registry.Catalogue.Current().Model("own")
		require.NoError(t, err)
		require.Equal(t, capacity.OriginFolder, own.Origin)
	})
}

func TestAlias(t *testing.T) {
	t.Parallel()
	two := registry.Application{File: "a.yaml", Source: strings.Replace(file("own", 100).Source, "[{",
		"[{name: other, type: video.generate, gpuTypes: [any], timeoutSeconds: 200, gpuSecondsPerSecond: 1, params: {properties: {n: {maximum: 3, default: 2}}}}, {", 1) +
		"\naliases: [{name: fast, models: {own: 1, other: 1}}]"}

	t.Run("KeepsTheChoiceOnTheJob", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, two)
		require.NoError(t, err)
		chosen := map[string]int{}
		for range 40 {
			job, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "fast"})
			require.NoError(t, err)
			require.Equal(t, "fast", s.Reload(t, job.ID).Alias)
			chosen[job.Model]++
		}
		require.Len(t, chosen, 2, "by chance in all but one of 2³⁹ runs")
	})

	t.Run("GivesARepeatedKeyTheSameJob", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, two)
		require.NoError(t, err)
		key := "once"
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "fast", IdempotencyKey: &key})
		require.NoError(t, err)
		for range 20 {
			again, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "fast", IdempotencyKey: &key})
			require.NoError(t, err)
			require.True(t, deduplicated)
			require.Equal(t, first.ID, again.ID)
		}
	})

	t.Run("RefusesParamsThatOneOfItsModelsRefuses", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, two)
		require.NoError(t, err)
		for range 20 {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "fast", Params: []byte(`{"n": 4}`)})
			require.Equal(t, apierror.CodeInvalidInput, code(t, err))
			require.ErrorContains(t, err, "The model other, which a job of the alias fast can get, refuses it: params.n must be at most 3, not ")
		}
	})
}

// pool writes a pool of testcard and another model.
func pool(t *testing.T, s *jobstest.Stack, names ...string) *capacity.Pool {
	t.Helper()
	s.Pools.Checks["fake"] = nil
	pool, err := s.Pools.Create(t.Context(), s.Admin, capacity.PoolSpec{
		Name: "p" + fmt.Sprint(len(names)), Provider: "fake", Region: "r", GPUType: "L4", CapacityClass: models.CapacitySpot, Models: names,
		MaxWorkers: 1, WorkersPerMachine: 1, GPUsPerWorker: 1, BootLimitSeconds: 60,
	})
	require.NoError(t, err)
	return pool
}

func TestRemoveFromPools(t *testing.T) {
	t.Parallel()

	t.Run("IsAskedFor", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		p := pool(t, s, "testcard", "drill")

		err := s.Registry.Remove(t.Context(), s.Admin, "drill", false)
		require.Equal(t, apierror.CodeConflict, code(t, err))
		require.ErrorContains(t, err, "The model drill is listed by the pool p2. Remove it there first")
		uses, err := s.Registry.Uses(t.Context(), s.Admin, "drill")
		require.NoError(t, err)
		require.Equal(t, &registry.Uses{Pools: []string{"p2"}, Aliases: []string{}}, uses)

		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "drill", true))
		now, err := s.Reads.Fleet.Pool(t.Context(), p.ID)
		require.NoError(t, err)
		require.Equal(t, []string{"testcard"}, now.Models)
	})

	t.Run("LeavesNoPoolWithoutAModel", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		pool(t, s, "drill")

		err := s.Registry.Remove(t.Context(), s.Admin, "drill", true)

		require.ErrorContains(t, err, "The pool p1 would have no models left")
		_, err = s.Registry.Catalogue.Current().Model("drill")
		require.NoError(t, err)
	})

	t.Run("SeesAPoolThatIsSavedAtTheSameInstant", func(t *testing.T) {
		t.Parallel()
		for range 4 {
			s := open(t)
			p := pool(t, s, "testcard")
			s.Pools.Catalogue = catalogue.Of(s.Registry.Catalogue.Current()) // another process, which learns of removals later
			spec := p.PoolSpec
			spec.Models = []string{"testcard", "drill"}
			var group errgroup.Group
			var saved, removed error
			group.Go(func() error { _, saved = s.Pools.Update(t.Context(), s.Admin, p.ID, spec); return nil })
			group.Go(func() error { removed = s.Registry.Remove(t.Context(), s.Admin, "drill", false); return nil })
			require.NoError(t, group.Wait())

			require.True(t, (saved == nil) != (removed == nil), "saved: %v, removed: %v", saved, removed)
			if saved != nil {
				require.ErrorContains(t, saved, "The model drill was removed from the catalogue")
			}
		}
	})
}

func TestRestore(t *testing.T) {
	t.Parallel()

	t.Run("PutsBackWhatAReleaseBrought", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		before, err := s.Registry.Catalogue.Current().Model("drill")
		require.NoError(t, err)
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "drill", false))
		gone := s.Registry.Catalogue.Current().Find("drill", before.Version)
		require.Equal(t, []any{capacity.OriginShipped, string(s.Admin.KeyID)}, []any{gone.Origin, gone.RemovedBy})
		require.False(t, gone.RemovedAt.IsZero())
		require.Equal(t, "drill", s.Registry.Catalogue.Current().Removals()[0].Name)

		restored, err := s.Registry.Restore(t.Context(), s.Admin, "drill")

		require.NoError(t, err)
		require.Equal(t, before.Version, restored.Version)
		after, err := s.Registry.Catalogue.Current().Model("drill")
		require.NoError(t, err)
		require.Equal(t, []any{capacity.OriginShipped, true}, []any{after.Origin, after.RemovedAt.IsZero()})
		require.Empty(t, s.Registry.Catalogue.Current().Removals())
		_, err = s.Registry.Restore(t.Context(), s.Admin, "drill")
		require.Equal(t, apierror.CodeConflict, code(t, err))
		_, err = s.Registry.Restore(t.Context(), s.Admin, "nonesuch")
		require.Equal(t, apierror.CodeNotFound, code(t, err))
		_, err = s.Registry.Restore(t.Context(), s.Client, "drill")
		require.Equal(t, apierror.CodeForbidden, code(t, err))
	})

	t.Run("RefusesAnAliasThatWouldLeadNowhere", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, registry.Application{File: "a.yaml",
			Source: "aliases: [{name: fast, models: {drill: 1}}]"})
		require.NoError(t, err)
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "fast", false))
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "drill", false))

		_, err = s.Registry.Restore(t.Context(), s.Admin, "fast")
		require.ErrorContains(t, err, "The alias fast names drill, which is not in the catalogue: restore that first.")
		source, err := s.Registry.Catalogue.Current().Export([]string{"fast", "drill"})
		require.NoError(t, err)
		require.Contains(t, source, "aliases:\n  - name: fast\n")

		for _, name := range []string{"drill", "fast"} {
			_, err = s.Registry.Restore(t.Context(), s.Admin, name)
			require.NoError(t, err)
		}
		changes, err := s.Registry.Apply(t.Context(), s.Admin, registry.Application{File: "a.yaml", Source: source})
		require.NoError(t, err)
		require.Equal(t, []catalogue.ChangeKind{catalogue.Unchanged, catalogue.Unchanged},
			[]catalogue.ChangeKind{changes[0].Kind, changes[1].Kind})
	})
}
