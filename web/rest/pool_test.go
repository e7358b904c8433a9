package rest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestOverview(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.Submit(t)
	const path = "/api/v1/overview"

	got := a.ask(t, http.MethodGet, path, "", as(a.Secrets[access.RoleViewer]))

	require.Equal(t, http.StatusOK, got.status, got.raw)
	require.Equal(t, 1.0, got.body["queued"])
	require.Contains(t, got.body, "estimated_drain_seconds")
	require.Nil(t, got.body["estimated_drain_seconds"], "there are no workers")
	require.Equal(t, http.StatusForbidden, a.get(t, path).status)
}

func TestDesiredWorkers(t *testing.T) {
	t.Parallel()

	t.Run("TellAnAutoscalerHowManyWorkersToStart", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		jobstest.AddPool(t, a.Stack, 0, 5)
		a.Exec(t, "UPDATE pools SET provider = 'static'")
		a.Submit(t)
		const path = "/api/v1/pools/fakes/desired"

		got := a.ask(t, http.MethodGet, path, "", as(a.Secrets[access.RoleOperator]))
		unknown := a.ask(t, http.MethodGet, "/api/v1/pools/nonesuch/desired", "", as(a.Secrets[access.RoleOperator]))
		client := a.get(t, path)

		require.Equal(t, http.StatusOK, got.status, got.raw)
		require.Equal(t, map[string]any{
			"pool": "fakes", "desired": 1.0, "workers": 0.0, "reason": "1 waiting job needs 1 worker.",
		}, got.body)
		require.Equal(t, http.StatusNotFound, unknown.status)
		require.Equal(t, http.StatusForbidden, client.status)
	})
}

func TestMachines(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	pool := jobstest.AddPool(t, a.Stack, 0, 5)
	a.Exec(t, "UPDATE pools SET price_per_hour_usd = 3")
	a.Exec(t, `INSERT INTO machines (pool_id, provider, instance_id, workers, asked_at, created_at, told_at, gone_at, billed_until) VALUES
		(?0, 'fake', 'vm-1', 2, '2026-01-31 12:00:00Z', '2026-01-31 12:00:00Z', '2026-01-31 12:50:00Z', '2026-01-31 13:09:00Z', '2026-01-31 13:00:00Z'),
		(?0, 'fake', 'vm-2', 1, '2026-01-31 12:00:01Z', NULL, NULL, NULL, NULL)`, pool.ID)
	const path = "/api/v1/machines"
	operator := as(a.Secrets[access.RoleOperator])

	t.Run("ShowTheLedger", func(t *testing.T) {
		t.Parallel()

		first := a.ask(t, http.MethodGet, path+"?limit=1", "", as(a.Secrets[access.RoleViewer]))
		require.Equal(t, http.StatusOK, first.status, first.raw)
		require.Equal(t, "asked", first.body["machines"].([]any)[0].(map[string]any)["state"])
		got := a.ask(t, http.MethodGet, path+"?limit=1&after="+first.body["next"].(string), "", operator)

		require.Equal(t, http.StatusOK, got.status, got.raw)
		require.Nil(t, got.body["next"])
		row := got.body["machines"].([]any)[0].(map[string]any)
		require.InDelta(t, 6, row["cost_usd"], 0.001)
		delete(row, "id")
		delete(row, "cost_usd")
		require.Equal(t, map[string]any{
			"pool_id": string(pool.ID), "pool": "fakes", "provider": "fake", "instance_id": "vm-1", "workers": 2.0, "state": "gone",
			"asked_at": "2026-01-31T12:00:00Z", "created_at": "2026-01-31T12:00:00Z", "registered_at": nil,
			"deletion_asked_at": "2026-01-31T12:50:00Z", "deleted_at": nil, "listed_at": nil, "missing_at": nil, "silent_since": nil,
			"gone_at": "2026-01-31T13:09:00Z", "billed_until": "2026-01-31T13:00:00Z", "paid_seconds": 7200.0, "worker_ids": []any{},
		}, row)
		for query, want := range map[string]string{
			"?pool=fakes&state=GONE,ending": "vm-1", "?pool=" + string(pool.ID) + "&state=asked": "vm-2", "?instance_id=vm-2": "vm-2",
		} {
			got := a.ask(t, http.MethodGet, path+query, "", operator)
			require.Equal(t, http.StatusOK, got.status, got.raw)
			require.Len(t, got.body["machines"], 1, query)
			require.Equal(t, want, got.body["machines"].([]any)[0].(map[string]any)["instance_id"], query)
		}
	})

	t.Run("RefuseBadInput", func(t *testing.T) {
		t.Parallel()

		next := a.ask(t, http.MethodGet, path+"?limit=1", "", operator).body["next"].(string)
		for query, want := range map[string]string{
			"?pool=nonesuch":                      "404 NOT_FOUND",
			"?pool=" + string(models.NewPoolID()): "404 NOT_FOUND",
			"?pool=%00":                           "404 NOT_FOUND",
			"?state=lost":                         "422 INVALID_INPUT state",
			"?instance_id=%00":                    "422 INVALID_INPUT instance_id",
			"?limit=201":                          "422 INVALID_INPUT limit",
			"?limit=0":                            "422 INVALID_INPUT limit",
			"?after=nonsense":                     "422 INVALID_INPUT after",
			"?state=asked&after=" + next:          "422 INVALID_INPUT after",
			"?name=x":                             "422 INVALID_INPUT name",
		} {
			got := a.ask(t, http.MethodGet, path+query, "", operator)
			require.Equal(t, want, strings.TrimSpace(fmt.Sprint(got.status, " ", got.code())), "%s: %s", query, got.raw)
		}
		require.Equal(t, http.StatusForbidden, a.get(t, path).status)
	})
}
