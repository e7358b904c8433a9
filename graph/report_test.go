package graph_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestReports(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	completed(t, a)
	worker := a.Worker(t, "two")
	failed := a.Submit(t)
	_, fence := a.Lease(t, worker)
	_, err := a.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no"})
	require.NoError(t, err)
	waits := a.Submit(t)
	const reports = `query ($days: Int!) { reports(days: $days) { deadLetters { type failureClass count } moreDeadLetters
		waiting { job { id waitingFor { message } } seconds reasons { message } } retries { type completed retried mean }
		flakiness { by name attempts completed cancelled attemptsPerVideo failureRate } retention { kind rows exact oldestAt keptSeconds goesAt } } }`

	data := a.as(t, access.RoleOperator, reports, map[string]any{"days": 7})

	require.Equal(t, []any{map[string]any{"type": failed.Type, "failureClass": "INVALID_INPUT", "count": 1.0}}, at[[]any](t, data, "reports", "deadLetters"))
	waiting := at[[]any](t, data, "reports", "waiting")
	require.Len(t, waiting, 1)
	first := waiting[0].(map[string]any)
	require.EqualValues(t, waits.ID, at[string](t, first, "job", "id"))
	require.Equal(t, at[[]any](t, first, "job", "waitingFor"), first["reasons"], "one computation")
	require.Equal(t, []any{map[string]any{"type": waits.Type, "completed": 1.0, "retried": 0.0, "mean": 0.0}}, at[[]any](t, data, "reports", "retries"))
	require.Contains(t, at[[]any](t, data, "reports", "flakiness"),
		map[string]any{"by": "POOL", "name": "dear", "attempts": 1.0, "completed": 1.0, "cancelled": 0.0, "attemptsPerVideo": 1.0, "failureRate": 0.0})
	kept := at[[]any](t, data, "reports", "retention")
	require.Equal(t, "JOBS", kept[0].(map[string]any)["kind"])
	require.InDelta(t, 180*86400, kept[0].(map[string]any)["keptSeconds"], 0)
	require.NotNil(t, kept[0].(map[string]any)["goesAt"])

	require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, a.Secrets[access.RoleClient], reports, map[string]any{"days": 7}).codes())
	for _, days := range []int{0, -1, 91} {
		require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, a.Secrets[access.RoleOperator], reports, map[string]any{"days": days}).codes())
	}
}

func TestStatement(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	job := completed(t, a)
	const statement = `query ($month: String!, $account: ID) { statement(month: $month, account: $account) {
		accountId accountName month from to timeZone complete total { chargedUsd costUsd completed } parts { by rows { key chargedUsd } } } }`
	month := time.Now().UTC().Format("2006-01")

	data := a.client(t, statement, map[string]any{"month": month})

	require.EqualValues(t, a.Account.ID, at[string](t, data, "statement", "accountId"))
	require.Equal(t, "UTC", at[string](t, data, "statement", "timeZone"))
	require.InDelta(t, 3, at[float64](t, data, "statement", "total", "chargedUsd"), 0.1)
	require.Nil(t, at[map[string]any](t, data, "statement", "total")["costUsd"])
	parts := at[[]any](t, data, "statement", "parts")
	require.Len(t, parts, 4)
	require.Equal(t, job.Model, at[[]any](t, parts[1].(map[string]any), "rows")[0].(map[string]any)["key"])
	require.Equal(t, data, a.as(t, access.RoleOperator, statement, map[string]any{"month": month, "account": a.Account.ID}))

	for code, wrong := range map[string]map[string]any{
		"INVALID_INPUT": {"month": "2999-01"}, "NOT_FOUND": {"month": "x", "account": "acc_00000000-0000-0000-0000-000000000000"},
	} {
		require.Equal(t, []string{code}, ask(t, a.url, a.Secrets[access.RoleClient], statement, wrong).codes())
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	job := completed(t, a)
	worker := a.Worker(t, "two")
	a.Submit(t)
	_, fence := a.Lease(t, worker)
	_, err := a.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no"})
	require.NoError(t, err)
	const usage = `query ($from: Time!, $to: Time!) { usage(from: $from, to: $to) { jobs completed failed gpuSeconds costUsd unpriced byModel { model jobs costUsd } } }`
	days := map[string]any{"from": time.Now().AddDate(0, 0, -1), "to": time.Now().AddDate(0, 0, 1)}

	data := a.client(t, usage, days)

	require.Equal(t, []float64{2, 1, 1}, []float64{at[float64](t, data, "usage", "jobs"), at[float64](t, data, "usage", "completed"),
		at[float64](t, data, "usage", "failed")})
	require.InDelta(t, 3, at[float64](t, data, "usage", "costUsd"), 0.1)
	model := at[[]any](t, data, "usage", "byModel")[0].(map[string]any)
	require.Equal(t, job.Model, model["model"])
	require.EqualValues(t, 2, model["jobs"])
	require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, a.Secrets[access.RoleClient], usage, map[string]any{"from": time.Now(), "to": time.Now().AddDate(0, 0, -3)}).codes())

	var first string
	require.NoError(t, a.DB.NewRaw("SELECT 'wrk_' || worker_id FROM job_attempts WHERE job_id = ?", job.ID).Scan(t.Context(), &first))
	cost := a.as(t, access.RoleOperator, `query ($id: ID!) { worker(id: $id) { costUsd } }`, map[string]any{"id": first})
	require.InDelta(t, 3, at[float64](t, cost, "worker", "costUsd"), 0.1)
}

func TestProviderTasks(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	job := completed(t, a)
	a.Exec(t, `INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, type, model, pool, provider, region, gpu_type, completed, useful_seconds,
			wasted_seconds, useful_usd, wasted_usd, charged_usd, provider_key, provider_ref)
		SELECT 'FEE', at, attempt_id, job_id, run, account_id, type, model, pool, 'veo', region, gpu_type, false, 0, 0, 2, 1, 2, gen_random_uuid(), 'task-1'
		FROM ledger WHERE job_id = ?`, job.ID)
	const tasks = `query ($from: Time!, $to: Time!, $after: Int64!, $first: Int! = 200) { providerTasks(from: $from, to: $to, after: $after, first: $first) { entry jobId task pool costUsd } }`
	span := map[string]any{"from": time.Now().Add(-time.Hour), "to": time.Now().Add(time.Hour), "after": 0}

	found := at[[]any](t, a.as(t, access.RoleOperator, tasks, span), "providerTasks")

	require.Len(t, found, 1)
	require.Equal(t, "task-1", found[0].(map[string]any)["task"])
	require.InDelta(t, 3, found[0].(map[string]any)["costUsd"], 0.1)
	span["after"] = found[0].(map[string]any)["entry"]
	require.Empty(t, at[[]any](t, a.as(t, access.RoleOperator, tasks, span), "providerTasks"))
	require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, a.Secrets[access.RoleClient], tasks, span).codes())
	for _, wrong := range []map[string]any{{"from": span["to"], "to": span["from"], "after": 0}, {"from": time.Now().AddDate(0, 0, -2), "to": time.Now(), "after": 0},
		{"from": span["from"], "to": span["to"], "after": -1}, {"from": span["from"], "to": span["to"], "after": 0, "first": 201}} {
		require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, a.Secrets[access.RoleOperator], tasks, wrong).codes())
	}
}
