package rest_test

import (
	"net/http"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestListChanges(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	_, err := a.Operator.PauseQueue(t.Context(), a.Admin, models.TierPro, "", "ticket 4711")
	require.NoError(t, err)
	_, err = a.Operator.Halt(t.Context(), a.Admin, []models.HaltTarget{models.HaltLeases}, "storage")
	require.NoError(t, err)
	const path = "/api/v1/changes"
	viewer := as(a.Secrets[access.RoleViewer])

	got := a.ask(t, http.MethodGet, path+"?kind=queue", "", viewer)
	require.Equal(t, http.StatusOK, got.status, got.raw)
	changes := got.body["changes"].([]any)
	require.Len(t, changes, 1)
	change := changes[0].(map[string]any)
	require.Equal(t, "queue", change["kind"])
	require.Equal(t, "Pro lane paused", change["title"])
	require.Contains(t, change["details"], "reason: ticket 4711")

	first := a.ask(t, http.MethodGet, path+"?limit=1", "", viewer)
	require.NotNil(t, first.body["next"])
	require.Equal(t, http.StatusForbidden, a.get(t, path).status)
	for _, wrong := range []string{"?kind=coffee", "?since=yesterday", "?limit=0", "?after=x"} {
		require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, a.ask(t, http.MethodGet, path+wrong, "", viewer).status,
			wrong)
	}
}
