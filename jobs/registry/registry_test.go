package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/registry"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// file is a file with one model of that name.
func file(name string, timeout int) registry.Application {
	return registry.Application{File: "own.yaml", Source: fmt.Sprintf(
		"models: [{name: %s, type: video.generate, gpuTypes: [any], timeoutSeconds: %d, gpuSecondsPerSecond: 1, params: {type: object}}]", name, timeout)}
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
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, jobs.Submission{Model: "own"})
		require.NoError(t, err)

		changes, err := s.Registry.Apply(t.Context(), s.Admin, file("own", 200))
		require.NoError(t, err)
		second, _, err := s.Submitter.Submit(t.Context(), s.Client, jobs.Submission{Model: "own"})
		require.NoError(t, err)

		require.Equal(t, catalogue.Changed, changes[0].Kind)
		require.Equal(t, []int{1, 100}, []int{s.Reload(t, first.ID).ModelVersion, first.TimeoutSeconds})
		require.Equal(t, []int{2, 200}, []int{s.Reload(t, second.ID).ModelVersion, second.TimeoutSeconds})
		require.Equal(t, 100.0, s.Registry.Catalogue.Current().At("own", 1).TimeoutSeconds)
		entries, err := models.ListAudit(t.Context(), s.DB, "", "", 10)
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
		require.Equal(t, apierror.CodeForbidden, code(t, s.Registry.Remove(t.Context(), s.Client, "drill")))
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

		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "own"))
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
		job, _, err := s.Submitter.Submit(t.Context(), s.Client, jobs.Submission{Model: "own"})
		require.NoError(t, err)

		err = s.Registry.Remove(t.Context(), s.Admin, "own")
		require.Equal(t, apierror.CodeConflict, code(t, err))
		require.ErrorContains(t, err, "The model own is in use by jobs that have not ended (1)")

		_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "own"))
		require.Equal(t, apierror.CodeNotFound, code(t, s.Registry.Remove(t.Context(), s.Admin, "own")))
	})

	t.Run("RefusesAModelThatAnAliasNames", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, registry.Application{File: "a.yaml", Source: "aliases: [{name: fast, models: {drill: 1}}]"})
		require.NoError(t, err)

		err = s.Registry.Remove(t.Context(), s.Admin, "drill")
		require.Equal(t, apierror.CodeConflict, code(t, err))

		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "fast"))
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "drill"))
	})

	t.Run("KeepsTheLastModel", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		for _, m := range s.Registry.Catalogue.Current().Models() {
			if m.Name != "testcard" {
				require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, m.Name))
			}
		}

		require.Equal(t, apierror.CodeConflict, code(t, s.Registry.Remove(t.Context(), s.Admin, "testcard")))
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
		require.NoError(t, s.Registry.Remove(t.Context(), s.Admin, "drill"))
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

		require.NoError(t, s.Registry.Seed(t.Context(), source(file("drill", 7)), models.OriginShipped))
		s.Registry.Folder = source(file("own", 100))
		require.NoError(t, s.Registry.Pass(t.Context()))

		drill, err := s.Registry.Catalogue.Current().Model("drill")
		require.NoError(t, err)
		require.Equal(t, []any{2, 7.0}, []any{drill.Version, drill.TimeoutSeconds})
		own, err := s.Registry.Catalogue.Current().Model("own")
		require.NoError(t, err)
		require.Equal(t, models.OriginFolder, own.Origin)
	})
}

func TestAlias(t *testing.T) {
	t.Parallel()
	two := registry.Application{File: "a.yaml", Source: strings.Replace(file("own", 100).Source, "[{", "[{name: other, type: video.generate, gpuTypes: [any], timeoutSeconds: 200, gpuSecondsPerSecond: 1, params: {properties: {n: {maximum: 3, default: 2}}}}, {", 1) +
		"\naliases: [{name: fast, models: {own: 1, other: 1}}]"}

	t.Run("KeepsTheChoiceOnTheJob", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, two)
		require.NoError(t, err)
		chosen := map[string]int{}
		for range 40 {
			job, _, err := s.Submitter.Submit(t.Context(), s.Client, jobs.Submission{Model: "fast"})
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
		first, _, err := s.Submitter.Submit(t.Context(), s.Client, jobs.Submission{Model: "fast", IdempotencyKey: &key})
		require.NoError(t, err)
		for range 20 {
			again, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, jobs.Submission{Model: "fast", IdempotencyKey: &key})
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
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, jobs.Submission{Model: "fast", Params: []byte(`{"n": 4}`)})
			require.Equal(t, apierror.CodeInvalidInput, code(t, err))
		}
	})
}
