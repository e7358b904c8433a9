package rest_test

import (
	"encoding/csv"
	"net/http"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestReports(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	id, _ := a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "x"}}).body["job_id"].(string)
	operator := as(a.Secrets[access.RoleOperator])
	a.Exec(t, `INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed, cancelled,
			useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd)
		SELECT 'ATTEMPT', now(), gen_random_uuid(), id, 1, account_id, user_id, type, model, '=cmd', 'cloud', 'mars', 'h100', n = 1, n = 5, 30, 10, 1, 0.5, 0
		FROM jobs, generate_series(1, 5) n`)

	got := a.ask(t, "GET", "/api/v1/reports", "", operator)
	require.Equal(t, http.StatusOK, got.status, got.raw)
	waiting := got.body["waiting"].([]any)[0].(map[string]any)
	require.Equal(t, id, waiting["job_id"])
	require.NotEmpty(t, waiting["reasons"])
	flaky := got.body["flakiness"].([]any)
	require.Len(t, flaky, 3)
	require.Equal(t, map[string]any{"by": "pool", "name": "=cmd", "attempts": 5.0, "completed": 1.0, "cancelled": 1.0, "attempts_per_video": 5.0,
		"failure_rate": 0.75, "wasted_seconds": 50.0}, flaky[2])
	require.Len(t, got.body["retention"], 11)
	require.Empty(t, got.body["dead_letters"])

	for report, header := range map[string]string{"dead-letters": "type", "waiting": "job", "retries": "type", "flakiness": "by", "retention": "kind"} {
		file := a.request(t, "GET", "/api/v1/reports.csv?report="+report, "", operator)
		rows, err := csv.NewReader(file.Body).ReadAll()
		_ = file.Body.Close()
		require.NoError(t, err, report)
		require.Equal(t, header, rows[0][0])
		if report == "flakiness" {
			require.Equal(t, []string{"pool", "'=cmd", "5", "1", "1", "5.000", "0.750", "50.000"}, rows[3])
		}
	}

	for _, wrong := range []string{"?days=0", "?days=91", "?days=x", ".csv", ".csv?report=x", ".csv?report=waiting&days=-1"} {
		require.Equal(t, http.StatusUnprocessableEntity, a.ask(t, "GET", "/api/v1/reports"+wrong, "", operator).status, wrong)
	}
	require.Equal(t, http.StatusForbidden, a.get(t, "/api/v1/reports").status)
	require.Equal(t, http.StatusForbidden, a.get(t, "/api/v1/reports.csv?report=waiting").status)
}
