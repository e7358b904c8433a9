package pricebook_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/features/pricebook"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const veo = `
currency: USD
prices:
  - provider: veo
    model: veo-3
    since: 2026-01-01
    rules:
      - perSecondUsd: 0.40
      - {audio: true, perSecondUsd: 0.7500000001, perCallUsd: 0.01}
      - {resolution: 4K, perSecondUsd: "1"}
`

func TestImport(t *testing.T) {
	t.Parallel()

	start := func(t *testing.T) (*jobstest.Stack, *pricebook.Prices) {
		s := jobstest.New(t)
		return s, &pricebook.Prices{DB: s.DB, Catalogue: s.Registry.Catalogue}
	}
	file := func(source string) pricebook.File { return pricebook.File{File: "dir/prices.yaml", Source: source} }

	t.Run("AddsVersionsOnceAndKeepsThem", func(t *testing.T) {
		t.Parallel()
		s, prices := start(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, registry.Application{File: "models.yaml", Source: `models: [
			{name: film, runtime: veo, settings: {model: veo-3}, type: video.generate, description: Veo, gpuTypes: [any], timeoutSeconds: 600,
				gpuSecondsPerSecond: 1, params: {type: object, properties: {}}},
			{name: own, runtime: runpod, type: video.generate, description: RunPod, gpuTypes: [any], timeoutSeconds: 600,
				gpuSecondsPerSecond: 1, params: {type: object, properties: {}}}]`})
		require.NoError(t, err)
		dry := file(veo)
		dry.DryRun = true
		changes, err := prices.Import(t.Context(), s.Admin, dry)
		require.NoError(t, err)
		require.True(t, changes[0].Added)
		require.Zero(t, s.Count(t, "provider_prices"))

		_, err = prices.Import(t.Context(), s.Admin, file(veo))
		require.NoError(t, err)
		changes, err = prices.Import(t.Context(), s.Admin, file(veo+`
  - {provider: veo, model: veo-3, since: "2999-01-01T00:00:00+01:00", rules: [{perCallUsd: 1}]}`))
		require.ErrorContains(t, err, "prices.yaml:12: since must be")
		require.Nil(t, changes)
		changes, err = prices.Import(t.Context(), s.Admin, file(veo+`
  - {provider: veo, model: veo-3, since: "2099-01-01T00:00:00.0000019+01:00", rules: [{perCallUsd: 1}]}
  - {provider: kling, model: nobodys, since: 2026-01-01, rules: [{perCallUsd: 0}]}`))
		require.NoError(t, err)
		require.Equal(t, []bool{false, true, true}, []bool{changes[0].Added, changes[1].Added, changes[2].Added})
		require.Empty(t, changes[0].Warning)
		require.Equal(t, `No model of the catalogue has the provider kling and its model "nobodys".`, changes[2].Warning)
		require.Empty(t, changes[0].Notes)
		require.Empty(t, changes[1].Notes, "it begins in the future, and none follows")
		require.Equal(t, []string{"It begins in the past: fees that were entered do not change."}, changes[2].Notes)

		book, err := prices.Book(t.Context(), s.Admin)
		require.NoError(t, err)
		require.Len(t, book.Prices, 3)
		require.Len(t, book.Models, 2)
		require.Equal(t, []string{"own", "runpod", "own"}, []string{book.Models[0].Name, book.Models[0].Provider,
			book.Models[0].ProviderModel})
		require.Nil(t, book.Models[0].Price)
		require.Contains(t, book.Models[0].Problem(), "unknown")
		require.Equal(t, "film", book.Models[1].Name)
		require.Len(t, book.Models[1].Price.Rules, 3)
		require.Equal(t, "0.7500000001", book.Models[1].Price.Rules[1].PerSecondUSD.String())
		require.Equal(t, "4k", book.Models[1].Price.Rules[2].Resolution)
		require.Empty(t, book.Models[1].Problem())
		var entries []access.AuditEntry
		require.NoError(t, s.DB.NewSelect().Model(&entries).Where("action = 'importProviderPrices'").Scan(t.Context()))
		require.Len(t, entries, 2)
	})

	t.Run("SaysWhatAPriceOfThePastDoesNotChange", func(t *testing.T) {
		t.Parallel()
		s, prices := start(t)
		job := s.Submit(t)
		_, err := s.Registry.Apply(t.Context(), s.Admin, registry.Application{File: "models.yaml", Source: `models: [
			{name: film, runtime: veo, settings: {model: veo-3}, type: video.generate, description: Veo, gpuTypes: [any], timeoutSeconds: 600,
				gpuSecondsPerSecond: 1, params: {type: object, properties: {}}}]`})
		require.NoError(t, err)
		s.Exec(t, `INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, type, model, pool, provider, region, gpu_type, completed,
				useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd, provider_key)
			SELECT 'FEE', '2026-03-01', gen_random_uuid(), id, 1, account_id, type, 'film', 'p', 'veo', 'mars', 'any', false, 0, 0, NULL, 0, NULL, gen_random_uuid()
			FROM jobs, generate_series(1, 2) WHERE id = ?`, job.ID)
		_, err = prices.Import(t.Context(), s.Admin, file(strings.Replace(veo, "2026-01-01", "2026-06-01", 1)))
		require.NoError(t, err)
		earlier := file(veo)
		earlier.DryRun = true

		changes, err := prices.Import(t.Context(), s.Admin, earlier)

		require.NoError(t, err)
		require.Equal(t, []string{"It holds until 2026-06-01T00:00:00Z, when the next version begins.",
			"It begins in the past: fees that were entered do not change. 2 fees of its models since then are without an amount, and stay so."},
			changes[0].Notes)
	})

	t.Run("RefusesAnotherPriceOfTheSameTime", func(t *testing.T) {
		t.Parallel()
		s, prices := start(t)
		var both sync.WaitGroup
		errs := make([]error, 2)
		for i, source := range []string{veo, strings.Replace(veo, "0.40", "0.41", 1)} {
			both.Go(func() { _, errs[i] = prices.Import(t.Context(), s.Admin, file(source)) })
		}
		both.Wait()
		if errs[0] != nil {
			errs[0], errs[1] = errs[1], errs[0]
		}
		require.NoError(t, errs[0])
		jobstest.RequireCode(t, errs[1], apierror.CodeConflict)
		require.ErrorContains(t, errs[1], "later since")
		require.Equal(t, 3, s.Count(t, "provider_prices"))
	})

	t.Run("RefusesBadInputWithItsLine", func(t *testing.T) {
		t.Parallel()
		s, prices := start(t)
		one := func(rest string) string {
			return "prices:\n- {provider: veo, model: m, since: 2026-01-01, " + rest + "}\n"
		}
		for source, want := range map[string]string{
			"":             "the file is empty",
			"prices: []":   "must have 1 to 500 prices",
			"prices: [{}]": "there is no provider",
			"models: []":   "models",
			"currency: EUR\n" + veo[len("\ncurrency: USD\n"):]: "prices are in USD",
			one(`rules: []`):                                                                                      "must have 1 to 50 rules",
			one(`rules: [{}]`):                                                                                    "the rule has no price",
			one(`rules: [{perSecondUsd: -1}]`):                                                                    "prices.yaml:2: perSecondUsd is -1: a price must be a number",
			one(`rules: [{perSecondUsd: .nan}]`):                                                                  "must be a number",
			one(`rules: [{perSecondUsd: NaN}]`):                                                                   "must be a number",
			one(`rules: [{perCallUsd: .inf}]`):                                                                    "must be a number",
			one(`rules: [{perCallUsd: 1e9}]`):                                                                     "must be a number",
			one(`rules: [{perCallUsd: 1e-999999999}]`):                                                            "must be a number",
			one(`rules: [{perCallUsd: "0,40"}]`):                                                                  "must be a number",
			one(`rules: [{perCallUsd: "=1"}]`):                                                                    "must be a number",
			one(`rules: [{perCallUsd: 1000000.01}]`):                                                              "from 0 to 1,000,000",
			one(`rules: [{perCallUsd: 0.000000000000000000000000000001}]`):                                        "10 digits after the point",
			one(`rules: [{perCallUsd: 0.12345678901}]`):                                                           "10 digits after the point",
			one(`rules: [{perCallUsd: 0.` + strings.Repeat("1", 500) + `}]`):                                      "must be a number",
			one(`rules: [{perCallUsd: 1}, {perCallUsd: 2}]`):                                                      "same resolution and audio",
			one(`rules: [{resolution: 4k, perCallUsd: 1}, {resolution: 4K, perCallUsd: 1}]`):                      "same resolution and audio",
			one(`rules: [{audio: true, perCallUsd: 1}, {audio: true, perSecondUsd: 1}]`):                          "same resolution and audio",
			one(`rules: [{resolution: "a b", perCallUsd: 1}]`):                                                    "resolution must be",
			one(`rules: [{audio: loud, perCallUsd: 1}]`):                                                          "audio",
			one(`rules: [{perHourUsd: 1}]`):                                                                       "perHourUsd",
			one(`rules: [` + strings.Repeat("{perCallUsd: 1},", 51) + `]`):                                        "1 to 50 rules",
			"prices: [{provider: veo, model: m, since: soon, rules: [{perCallUsd: 1}]}]":                          "since must be",
			"prices: [{provider: veo, model: m, rules: [{perCallUsd: 1}]}]":                                       "since must be",
			"prices: [{provider: veo, model: m, since: 1999-12-31, rules: [{perCallUsd: 1}]}]":                    "since must be",
			"prices: [{provider: veo, model: 'a b', since: 2026-01-01, rules: [{perCallUsd: 1}]}]":                "model must be",
			"prices: [{provider: openai, model: m, since: 2026-01-01, rules: [{perCallUsd: 1}]}]":                 `there is no provider "openai"`,
			veo + "  - {provider: veo, model: veo-3, since: 2026-01-01T01:00:00+01:00, rules: [{perCallUsd: 1}]}": "from the same time",
			"prices: [" + strings.Repeat("{provider: veo},", 501) + "]":                                           "1 to 500 prices",
			strings.Repeat("#", 300<<10):                                                                          "bytes",
		} {
			_, err := prices.Import(t.Context(), s.Admin, file(source))
			jobstest.RequireInvalid(t, err, "source")
			require.ErrorContains(t, err, want, fmt.Sprintf("%.200s", source))
		}
		_, err := prices.Import(t.Context(), s.Admin, pricebook.File{File: "a\nb", Source: veo})
		jobstest.RequireInvalid(t, err, "file")
		require.Zero(t, s.Count(t, "provider_prices"))
	})

	t.Run("IsForOperators", func(t *testing.T) {
		t.Parallel()
		s, prices := start(t)
		viewer := s.NewKey(t, s.NewAccount(t, "viewers", "PRO"), access.RoleViewer)
		for _, p := range []jobs.Principal{s.Client, viewer} {
			_, err := prices.Import(t.Context(), p, file("nonsense"))
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
		}
		_, err := prices.Book(t.Context(), viewer)
		require.NoError(t, err)
		_, err = prices.Book(t.Context(), s.Client)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
	})
}
