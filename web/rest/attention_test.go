package rest_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/attention"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

func TestAttention(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	const path = "/api/v1/attention"
	operator := as(a.Secrets[access.RoleOperator])
	calm := a.ask(t, http.MethodGet, path, "", operator)
	_, err := a.Operator.PauseQueue(t.Context(), a.Admin, models.TierPro, "", "ticket 4711")
	require.NoError(t, err)
	_, err = a.Operator.Halt(t.Context(), a.Admin, []models.HaltTarget{models.HaltSchedules}, "the storage is moved")
	require.NoError(t, err)
	a.FireAlert(t)

	got := a.ask(t, http.MethodGet, path, "", operator)

	require.Equal(t, http.StatusOK, calm.status, calm.raw)
	require.Equal(t, []any{}, calm.body["causes"])
	require.Equal(t, http.StatusOK, got.status, got.raw)
	causes := lo.Map(got.body["causes"].([]any), func(c any, _ int) map[string]any { return c.(map[string]any) })
	require.Len(t, causes, 2)
	halt := causes[0]
	require.Equal(t, "halt", halt["kind"])
	require.Equal(t, true, halt["urgent"])
	require.Equal(t, "Schedules are halted", halt["title"])
	require.Contains(t, halt["detail"], "the storage is moved")
	require.Equal(t, "/system", halt["path"])
	require.NotEmpty(t, halt["since"])
	require.Equal(t, "paused_queue", causes[1]["kind"])
	alerts := slices.Concat(halt["alerts"].([]any), causes[1]["alerts"].([]any))
	require.Len(t, alerts, 1, "the alert stands below a cause")
	require.Equal(t, "queue-depth", alerts[0].(map[string]any)["rule"])
	require.Equal(t, http.StatusForbidden, a.get(t, path).status)
	for _, kind := range attention.Kinds {
		require.Contains(t, string(document(t, a)), `"`+strings.ToLower(string(kind))+`"`, "the document lists each kind")
	}
}
