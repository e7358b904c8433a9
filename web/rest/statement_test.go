package rest_test

import (
	"encoding/csv"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	operator := as(a.Secrets[access.RoleOperator])
	other := a.NewAccount(t, "stranger", models.TierPro).ID
	// Each amount is a third of a cent: rows that are rounded alone do not add up.
	a.Exec(t, "UPDATE ledger_closing SET until = '2026-02-01Z'")
	a.Exec(t, `INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed,
			useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd)
		SELECT 'ATTEMPT', '2026-02-28T23:59:59.999999Z'::timestamptz - make_interval(days => n % 28), gen_random_uuid(), gen_random_uuid(), 1, id,
			CASE n % 3 WHEN 0 THEN '=cmd|x' WHEN 1 THEN '<script>' END, 'video.generate', 'm' || n % 5, 'spot', 'cloud', 'mars', 'h100', true, 30, 10,
			0.0033333333, 0.5, 0.0033333333 FROM accounts, generate_series(1, 100) n WHERE id = ?`, a.Account.ID)
	a.Exec(t, `INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, type, model, pool, provider, region, gpu_type, completed,
			useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd)
		SELECT 'ATTEMPT', at, gen_random_uuid(), gen_random_uuid(), 1, account, 'video.generate', 'm', 'spot', 'cloud', 'mars', 'h100', true, 30, 10, 9, 9, 9
		FROM (VALUES ('2026-03-01Z'::timestamptz, ?0::uuid), ('2026-01-31T23:59:59Z', ?0), ('2026-02-10Z', ?1)) AS x (at, account)`, a.Account.ID, other)

	got := a.get(t, "/api/v1/statements/2026-02")
	require.Equal(t, http.StatusOK, got.status, got.raw)
	require.Equal(t, "UTC", got.body["time_zone"])
	require.Equal(t, true, got.body["complete"])
	total := got.body["total"].(map[string]any)
	require.InDelta(t, 0.33333333, total["charged_usd"], 1e-12)
	require.Nil(t, total["cost_usd"], "the account sees what it pays")
	require.EqualValues(t, 100, total["completed"])
	require.Len(t, got.body["parts"], 4)
	require.JSONEq(t, got.raw, a.ask(t, "GET", "/api/v1/statements/2026-02?account="+string(a.Account.ID), "", operator).raw)
	a.Exec(t, "UPDATE ledger_closing SET until = '2026-04-01Z'")
	a.Exec(t, "UPDATE accounts SET time_zone = 'Asia/Tokyo' WHERE id = ?", a.Account.ID) // nine hours ahead, also of the closed days
	tokyo := a.get(t, "/api/v1/statements/2026-02")
	require.Equal(t, "Asia/Tokyo", tokyo.body["time_zone"])
	require.Equal(t, "2026-02-01T00:00:00+09:00", tokyo.body["from"])
	require.InDelta(t, 97*0.0033333333+9, tokyo.body["total"].(map[string]any)["charged_usd"], 1e-9, "three of the last day are March's, and one of January is February's")
	require.Equal(t, "2026-02-01", tokyo.body["parts"].([]any)[0].(map[string]any)["rows"].([]any)[0].(map[string]any)["key"])
	a.Exec(t, "UPDATE accounts SET time_zone = 'UTC'")
	a.Exec(t, "UPDATE ledger_closing SET until = '2026-02-01Z'")
	current := a.get(t, "/api/v1/statements/"+time.Now().UTC().Format("2006-01"))
	require.Equal(t, false, current.body["complete"])

	file := a.request(t, "GET", "/api/v1/statements/2026-02.csv", "", http.Header{"Accept": {"text/csv"}})
	defer file.Body.Close()
	require.Equal(t, "text/csv; charset=utf-8", file.Header.Get("Content-Type"))
	rows, err := csv.NewReader(file.Body).ReadAll()
	require.NoError(t, err)
	sums := map[string]decimal.Decimal{}
	for _, row := range rows[1:] {
		sums[row[3]] = sums[row[3]].Add(decimal.RequireFromString(row[8]))
		require.NotContains(t, "=+-@", row[4][:min(1, len(row[4]))]+" ")
	}
	for _, part := range []string{"day", "model", "user", "type", "total"} {
		require.Equal(t, "0.33333333", sums[part].String(), part)
	}

	page := a.request(t, "GET", "/api/v1/statements/2026-02.html", "", http.Header{"Accept": {"text/html"}})
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
	require.Contains(t, page.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Contains(t, string(text), "<title>Statement of client, February 2026 (UTC)</title>")
	require.Contains(t, string(text), "@page { size: A4")
	require.NotContains(t, string(text), "<script")
	require.Contains(t, string(text), "&lt;script&gt;")
	// In each table, the cents add up to those of the total.
	for _, table := range strings.Split(string(text), "<table>")[1:] {
		sum := decimal.Zero
		body, foot, _ := strings.Cut(table, "<tfoot>")
		for _, cell := range strings.Split(body, `<td class="num">$`)[1:] {
			amount, _, _ := strings.Cut(cell, "<")
			sum = sum.Add(decimal.RequireFromString(amount))
		}
		require.Equal(t, "0.33", sum.StringFixed(2))
		require.Contains(t, foot, "$0.33")
	}

	for _, wrong := range []string{"2026-13", "2026-2", "2099-01", "1999-01", "yesterday", "2026-02.pdf", "2026-02.csv.html", "%00"} {
		require.Equal(t, http.StatusUnprocessableEntity, a.get(t, "/api/v1/statements/"+wrong).status, wrong)
	}
	for _, foreign := range []string{string(other), "acc_1", "acc_00000000-0000-0000-0000-000000000000"} {
		require.Equal(t, http.StatusNotFound, a.get(t, "/api/v1/statements/2026-02?account="+foreign).status, foreign)
	}
	require.Equal(t, http.StatusNotFound, a.get(t, "/api/v1/statements/yesterday?account="+string(other)).status, "before what else is wrong")
	require.Equal(t, http.StatusNotFound, a.ask(t, "GET", "/api/v1/statements/2026-02?account=acc_00000000-0000-0000-0000-000000000000", "", operator).status)
	require.Equal(t, http.StatusOK, a.ask(t, "GET", "/api/v1/statements/2026-02", "", operator).status, "the account of its key")
}
