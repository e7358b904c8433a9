package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/version"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestOverview(t *testing.T) {
	t.Parallel()

	t.Run("SaysHowReelayIs", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Exec(t, "UPDATE learning SET began_at = clock_timestamp() - interval '30 s'")
		a.Submit(t)
		a.Submit(t)
		worker := a.Worker(t, "one")
		_, fence := a.Lease(t, worker)
		o := jobstest.UploadAll(t, a.Stack, worker, fence)
		_, err := a.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &o.Video})
		require.NoError(t, err)

		got := ask(t, a.url, a.Secrets[access.RoleViewer], `{
			overview { at queued running scheduled blocked deadLetters workersIdle workersBusy submittedPerMinute completedPerMinute failureRate
				waitSecondsP50 renderSecondsP95 recoverySecondsP95 costUsdPerHour estimatedDrainSeconds }
			heatMap { region gpuType idle busy depth wastedShare verdict { level cause runbook } }
		}`, nil)

		require.Empty(t, got.codes())
		overview := at[map[string]any](t, got.Data, "overview")
		require.NotEmpty(t, overview["at"])
		for field, want := range map[string]any{"queued": 1.0, "running": 0.0, "deadLetters": 0.0, "workersIdle": 1.0, "workersBusy": 0.0,
			"failureRate": 0.0, "recoverySecondsP95": nil, "costUsdPerHour": nil} {
			require.Equal(t, want, overview[field], field)
		}
		for _, field := range []string{"submittedPerMinute", "completedPerMinute", "waitSecondsP50", "renderSecondsP95",
			"estimatedDrainSeconds"} {
			require.Positive(t, overview[field], field)
		}
		require.Len(t, at[[]any](t, got.Data, "heatMap"), 1)
	})

	t.Run("SaysWhatItRunsOnAndExaminesIt", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Worker(t, "one")

		got := ask(t, a.url, a.Secrets[access.RoleViewer],
			`{ system { version redisVersion outboxLagSeconds stalledJobs processes { kind seenAt version host startedAt }
			database { version startedAt sizeBytes connections maxConnections standbys standbyLagSeconds } agents { version workers } } }`, nil)
		examined := ask(t, a.url, a.Secrets[access.RoleOperator], `{ doctor { check level holds found ids count matters fix } }`, nil)

		require.Empty(t, got.codes())
		system := at[map[string]any](t, got.Data, "system")
		require.Equal(t, version.Current().String(), system["version"])
		require.Nil(t, system["redisVersion"])
		require.Equal(t, 1.0, at[float64](t, got.Data, "system", "agents", 0, "workers"))
		require.Positive(t, at[float64](t, got.Data, "system", "database", "maxConnections"))
		seen := ask(t, a.url, a.Secrets[access.RoleViewer], `{ system { region { region serves primary epoch commitsWaitFor
			standbys { name state lagSeconds behindBytes } promotions { epoch region from by learned }
			peers { address answers region serves epoch answeredAt trouble problem fix } } } }`, nil)
		require.Empty(t, seen.codes())
		report := at[map[string]any](t, seen.Data, "system", "region")
		require.Equal(t, "eu", report["region"])
		require.Equal(t, true, report["serves"])
		require.Equal(t, "us", at[string](t, seen.Data, "system", "region", "promotions", 0, "from"))
		require.Equal(t, "root@db2", at[string](t, seen.Data, "system", "region", "promotions", 0, "by"))
		require.Equal(t, "SILENT", at[string](t, seen.Data, "system", "region", "peers", 0, "trouble"))
		require.NotEmpty(t, at[string](t, seen.Data, "system", "region", "peers", 0, "fix"))
		require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, a.Secrets[access.RoleClient], `{ system { region { region } } }`, nil).codes())
		require.Empty(t, examined.codes())
		require.Equal(t, map[string]any{"check": "rehearsed", "level": "ADVICE", "holds": "It holds.", "found": "", "ids": []any{}, "count": 0.0,
			"matters": "", "fix": ""},
			at[any](t, examined.Data, "doctor", 0))
		require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, a.Secrets[access.RoleViewer], `{ doctor { check } }`, nil).codes())
	})

	t.Run("HasAHistoryOfEveryMetric", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		names := at[[]any](t, ask(t, a.url, a.Secrets[access.RoleOperator], `{ __type(name: "HistoryMetric") { enumValues { name } } }`,
			nil).Data, "__type", "enumValues")
		var all []any
		for _, value := range names {
			all = append(all, value.(map[string]any)["name"])
		}

		got := ask(t, a.url, a.Secrets[access.RoleOperator], `query ($all: [HistoryMetric!]!, $from: Time!) {
			history(metrics: $all, from: $from) { metric unit from stepSeconds values } }`,
			map[string]any{"all": all, "from": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)})

		require.Empty(t, got.codes())
		series := at[[]any](t, got.Data, "history")
		require.Len(t, series, len(all))
		for narrowed, code := range map[string]string{
			`[COST], from: $from, pool: "spot"`: "", `[COST], from: $from, tier: PRO`: "INVALID_INPUT", `[GPU_HOURS], from: $from, model: "m"`: "INVALID_INPUT",
			`[COMPLETED], from: $from, tier: PRO`: "", `[COMPLETED], from: $from, pool: "spot"`: "INVALID_INPUT",
			`[COST_PER_VIDEO], from: $from, region: "mars"`: "INVALID_INPUT",
		} {
			answer := ask(t, a.url, a.Secrets[access.RoleOperator], "query ($from: Time!) { history(metrics: "+narrowed+") { values } }",
				map[string]any{"from": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)})
			require.Equal(t, code, strings.Join(answer.codes(), ""), narrowed)
		}
		require.Equal(t, 60.0, series[0].(map[string]any)["stepSeconds"])
		require.GreaterOrEqual(t, len(series[0].(map[string]any)["values"].([]any)), 60)
	})

	t.Run("IsForOperatorsAndRefusesOddTimes", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)

		for query, want := range map[string]string{
			`{ overview { queued } }`: "FORBIDDEN",
			`{ heatMap { region } }`:  "FORBIDDEN",
			`{ system { version } }`:  "FORBIDDEN",
			`{ doctor { check } }`:    "FORBIDDEN",
			`{ history(metrics: [QUEUED], from: "2026-01-01T00:00:00Z") { values } }`: "FORBIDDEN",
		} {
			require.Equal(t, []string{want}, ask(t, a.url, a.Secrets[access.RoleClient], query, nil).codes(), query)
		}
		for _, query := range []string{
			`{ heatMap(hours: 0) { region } }`,
			`{ history(metrics: [], from: "2026-01-01T00:00:00Z") { values } }`,
			`{ history(metrics: [QUEUED], from: "2026-01-01T00:00:00Z", to: "2025-01-01T00:00:00Z") { values } }`,
			`{ history(metrics: [QUEUED], from: "2025-01-01T00:00:00Z", resolution: MINUTE) { values } }`,
		} {
			require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, a.Secrets[access.RoleOperator], query, nil).codes(), query)
		}
	})
}
