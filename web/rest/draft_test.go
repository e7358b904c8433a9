package rest_test

import (
	"net/http"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestDraftUsage(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	first, _ := a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "x"},
		"draft": map[string]any{"steps": 6}}).body["job_id"].(string)
	a.post(t, work, map[string]any{"payload": map[string]any{"prompt": "x"}, "draft": map[string]any{"steps": 6}})
	require.Equal(t, http.StatusOK, a.ask(t, http.MethodDelete, work+"/"+first, "", nil).status)
	a.Exec(t, "UPDATE jobs SET handle = 'remote-1' WHERE id = ?", models.JobID(first))

	got := a.get(t, "/api/v1/drafts/usage")

	require.Equal(t, http.StatusOK, got.status, got.raw)
	require.Equal(t, map[string]any{
		"undecided": map[string]any{"drafts": 1.0, "gpu_seconds": 0.0},
		"continued": map[string]any{"drafts": 0.0, "gpu_seconds": 0.0},
		"discarded": map[string]any{"drafts": 1.0, "gpu_seconds": 0.0},
	}, got.body)
	require.Equal(t, true, a.get(t, work+"/"+first).body["has_handle"])
	for _, days := range []string{"0", "91", "x"} {
		require.Equal(t, http.StatusUnprocessableEntity, a.get(t, "/api/v1/drafts/usage?days="+days).status, days)
	}
}
