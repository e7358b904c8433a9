package graph_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestJobTotals(t *testing.T) {
	t.Parallel()

	const totals = `query ($f: JobFilter!) { jobTotals(filter: $f) { total percent partly estimatedEndAt statuses { status jobs } failures { failureClass jobs } } }`
	a := newAPI(t)
	var inputs []any
	for i := range 5 {
		inputs = append(inputs, map[string]any{"model": "testcard", "prompt": fmt.Sprint("video ", i),
			"metadata": map[string]any{"batch": "autumn"}})
	}
	other := map[string]any{"model": "testcard", "prompt": "other", "metadata": map[string]any{"batch": "winter", "season": "autumn"}}
	a.client(t, `mutation ($i: [SubmitJobInput!]!) { submitJobs(inputs: $i) { accepted } }`, map[string]any{"i": append(inputs, other)})
	batch := map[string]any{"f": map[string]any{"search": "meta:batch=autumn"}}

	before := at[map[string]any](t, a.client(t, totals, batch), "jobTotals")
	a.Exec(t, `
		WITH ranked AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM jobs WHERE metadata ->> 'batch' = 'autumn')
		UPDATE jobs j SET completed_at = CASE WHEN n <= 4 THEN clock_timestamp() END, created_at = clock_timestamp() - interval '100 seconds',
			status = CASE WHEN n = 1 THEN 'COMPLETED' WHEN n <= 4 THEN 'FAILED' ELSE status END, failure_class = CASE WHEN n = 2 THEN 'TIMEOUT' WHEN n <= 4 AND n > 2 THEN 'POISON' END
		FROM ranked WHERE j.id = ranked.id`)
	after := at[map[string]any](t, a.client(t, totals, batch), "jobTotals")

	require.Equal(t, map[string]any{
		"total": 5.0, "percent": 0.0, "partly": false, "estimatedEndAt": nil,
		"statuses": []any{map[string]any{"status": "QUEUED", "jobs": 5.0}}, "failures": []any{},
	}, before)
	ends, err := time.Parse(time.RFC3339Nano, after["estimatedEndAt"].(string))
	require.NoError(t, err)
	require.WithinRange(t, ends, time.Now(), time.Now().Add(time.Hour))
	again := at[map[string]any](t, a.client(t, totals, batch), "jobTotals")
	require.Equal(t, after["estimatedEndAt"], again["estimatedEndAt"], "until another job ends")
	delete(after, "estimatedEndAt")
	require.Equal(t, map[string]any{
		"total": 5.0, "percent": 80.0, "partly": false,
		"statuses": []any{map[string]any{"status": "QUEUED", "jobs": 1.0}, map[string]any{"status": "COMPLETED", "jobs": 1.0},
			map[string]any{"status": "FAILED", "jobs": 3.0}},
		"failures": []any{map[string]any{"failureClass": "POISON", "jobs": 2.0}, map[string]any{"failureClass": "TIMEOUT", "jobs": 1.0}},
	}, after)

	_, stranger, err := a.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: a.NewAccount(t, "stranger", models.TierPro).ID,
		Role: access.RoleClient, Name: "stranger"})
	require.NoError(t, err)
	require.Zero(t, at[float64](t, ask(t, a.url, stranger, totals, batch).Data, "jobTotals", "total"), "another account's jobs do not count")
	require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, a.Secrets[access.RoleClient], totals,
		map[string]any{"f": map[string]any{"search": "meta:batch"}}).codes())
}
