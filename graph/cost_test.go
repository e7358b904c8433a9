package graph_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// completed returns a job that a worker of a pool with a price has completed in an hour, at $3 an hour.
func completed(t *testing.T, a *api) *models.Job {
	t.Helper()
	a.Exec(t, `INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, workers_per_machine, price_per_hour_usd)
		VALUES (md5('dear')::uuid, 'dear', 'cloud', 'mars', 'h100', 'SPOT', '{}', 0, 9, 1, 3)`)
	worker := a.Worker(t, "one")
	a.Exec(t, "UPDATE workers SET pool_id = md5('dear')::uuid")
	job := a.Submit(t)
	_, fence := a.Lease(t, worker)
	a.Exec(t, "UPDATE job_attempts SET leased_at = leased_at - interval '1 hour'")
	video := a.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	_, err := a.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
	return job
}

func TestCosts(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	job := completed(t, a)
	_, stranger, err := a.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: a.NewAccount(t, "stranger", models.TierPro).ID,
		Role: access.RoleClient, Name: "stranger"})
	require.NoError(t, err)
	const report = `query ($by: CostGroup!, $from: Time, $to: Time, $account: ID, $first: Int! = 100) { costs(by: $by, from: $from, to: $to, account: $account, first: $first) {
		total { key attempts completed chargedUsd costUsd costPerVideoUsd unpriced } rows { key name chargedUsd costUsd wastedUsd } more machines { class usd } } }`

	t.Run("AreOnTheJobAndItsAttempts", func(t *testing.T) {
		t.Parallel()
		const costs = `query ($id: ID!) { job(id: $id) { costUsd operatorCostUsd attempts { costUsd wastedCostUsd } } }`
		data := a.as(t, access.RoleViewer, costs, map[string]any{"id": job.ID})
		require.InDelta(t, 3, at[float64](t, data, "job", "costUsd"), 0.1)
		require.Zero(t, at[float64](t, data, "job", "operatorCostUsd"))
		attempts := at[[]any](t, data, "job", "attempts")
		require.InDelta(t, 3, at[float64](t, attempts[0].(map[string]any), "costUsd"), 0.1)

		own := a.client(t, costs, map[string]any{"id": job.ID})
		require.InDelta(t, 3, at[float64](t, own, "job", "costUsd"), 0.1)
		require.Nil(t, at[map[string]any](t, own, "job")["operatorCostUsd"], "it is not the account's business")
		require.Equal(t, map[string]any{"costUsd": nil, "wastedCostUsd": nil}, at[[]any](t, own, "job", "attempts")[0])
	})

	t.Run("OfAllAccountsAreForOperators", func(t *testing.T) {
		t.Parallel()
		data := a.as(t, access.RoleOperator, report, map[string]any{"by": "ACCOUNT"})
		require.Equal(t, float64(1), at[float64](t, data, "costs", "total", "completed"))
		require.InDelta(t, 3, at[float64](t, data, "costs", "total", "costUsd"), 0.1)
		row := at[[]any](t, data, "costs", "rows")[0].(map[string]any)
		require.Equal(t, string(a.Account.ID), row["key"])
		require.Equal(t, a.Account.Name, row["name"])
		require.Len(t, at[[]any](t, data, "costs", "machines"), len(models.PaidClasses))
	})

	t.Run("OfAnAccountAreWhatItPays", func(t *testing.T) {
		t.Parallel()
		data := a.client(t, report, map[string]any{"by": "USER"})
		require.InDelta(t, 3, at[float64](t, data, "costs", "total", "chargedUsd"), 0.1)
		require.Nil(t, at[map[string]any](t, data, "costs", "total")["costUsd"])
		require.Nil(t, at[map[string]any](t, data, "costs")["machines"])
		none := ask(t, a.url, stranger, report, map[string]any{"by": "DAY"}).Data
		require.Zero(t, at[float64](t, none, "costs", "total", "attempts"))
		for _, by := range []string{"ACCOUNT", "POOL", "PROVIDER", "REGION", "GPU_TYPE"} {
			require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, stranger, report, map[string]any{"by": by}).codes(), by)
		}
		require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, stranger, report, map[string]any{"by": "DAY", "account": a.Account.ID}).codes())
	})

	t.Run("RefusesDaysThatMakeNoSense", func(t *testing.T) {
		t.Parallel()
		now := time.Now().UTC()
		for name, wrong := range map[string]map[string]any{
			"the other way round": {"from": now, "to": now.AddDate(0, 0, -2)}, "too long": {"from": now.AddDate(-9, 0, 0)},
			"the future": {"from": now.AddDate(0, 0, 5)}, "no id": {"account": "acc_1"}, "too many rows": {"first": 100_000}, "none": {"first": 0}, "negative": {"first": -1},
		} {
			wrong["by"] = "DAY"
			require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, a.Secrets[access.RoleOperator], report, wrong).codes(), name)
		}
	})
}
