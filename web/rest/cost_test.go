package rest_test

import (
	"encoding/csv"
	"net/http"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	job, _ := a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "x"}, "user_id": "=1+1"}).body["job_id"].(string)
	a.Exec(t, `INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed,
			useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd)
		SELECT 'ATTEMPT', now(), gen_random_uuid(), id, 1, account_id, user_id, type, model, 'spot', 'cloud', 'mars', 'h100', true, 30, 10,
			1.0000000001, 0.5, 1.0000000001 FROM jobs`)
	a.Exec(t, "UPDATE jobs SET attempt_no = 1")
	a.Exec(t, `INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed,
			useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd)
		SELECT 'ATTEMPT', now(), gen_random_uuid(), gen_random_uuid(), 1, account_id, 'bob', type, model, 'spot', 'cloud', 'mars', 'h100', true, 30, 10,
			0.5, 0, 0.5 FROM jobs`)

	require.InDelta(t, 1.0000000001, a.get(t, work+"/"+job).body["cost_usd"], 1e-12)
	got := a.get(t, "/api/v1/costs?by=User")
	require.Equal(t, http.StatusOK, got.status, got.raw)
	row := got.body["rows"].([]any)[0].(map[string]any)
	require.Equal(t, "=1+1", row["key"])
	require.InDelta(t, 1.0000000001, row["charged_usd"], 1e-12)
	require.Nil(t, row["cost_usd"], "the account sees what it pays")
	require.Nil(t, got.body["machines"])
	all := a.ask(t, "GET", "/api/v1/costs?by=pool", "", as(a.Secrets[access.RoleOperator]))
	require.InDelta(t, 2, all.body["total"].(map[string]any)["cost_usd"], 1e-9)
	require.NotEmpty(t, all.body["machines"])

	file := a.request(t, "GET", "/api/v1/costs.csv?by=user", "", as(a.Secrets[access.RoleOperator]))
	defer file.Body.Close()
	require.Equal(t, "text/csv; charset=utf-8", file.Header.Get("Content-Type"))
	rows, err := csv.NewReader(file.Body).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"'=1+1", "'=1+1", "1", "1", "1", "30.000", "10.000", "1.0000000001", "1.5000000001", "0.5", "1.5000000001", "0"}, rows[1])
	require.Equal(t, "bob", rows[2][0])
	require.Equal(t, []string{"", "(total)"}, rows[3][:2])

	first := a.get(t, "/api/v1/costs?by=user&limit=1")
	require.Equal(t, true, first.body["more"])
	require.Len(t, first.body["rows"], 1)
	cut := a.request(t, "GET", "/api/v1/costs.csv?by=user&limit=1", "", as(a.Secrets[access.RoleOperator]))
	rows, err = csv.NewReader(cut.Body).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"", "(all others)", "1", "1", "1", "30.000", "10.000", "0.5", "0.5", "0", "0.5", "0"}, rows[2], "nothing is cut off silently")

	for _, wrong := range []string{"by=coffee", "from=yesterday", "from=2027-02-31", "from=2020-01-02&to=2020-01-01", "limit=0"} {
		require.Equal(t, http.StatusUnprocessableEntity, a.get(t, "/api/v1/costs?"+wrong).status, wrong)
	}
	require.Equal(t, http.StatusUnprocessableEntity, a.ask(t, "GET", "/api/v1/costs?account=x", "", as(a.Secrets[access.RoleOperator])).status)
	require.Equal(t, http.StatusForbidden, a.get(t, "/api/v1/costs?account=x").status)
	require.Equal(t, http.StatusForbidden, a.get(t, "/api/v1/costs?by=pool").status)
	require.Equal(t, http.StatusForbidden, a.get(t, "/api/v1/costs.csv?by=account").status)
}
