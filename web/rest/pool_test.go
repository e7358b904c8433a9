package rest_test

import (
	"net/http"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
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
