package rest_test

import (
	"net/http"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestHalts(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	const path = "/api/v1/halts"
	operator := as(a.Secrets[access.RoleOperator])
	ask := func(method, path, body string) answer { return a.ask(t, method, path, body, operator) }

	halted := ask(http.MethodPost, path, `{"what": ["leases"], "reason": "the storage is moved"}`)
	also := ask(http.MethodPost, path, `{"what": ["schedules"], "reason": "quiet"}`)
	left := ask(http.MethodDelete, path+"/leases", "")

	require.Equal(t, http.StatusOK, halted.status, halted.raw)
	require.Len(t, also.body["halts"], 2)
	require.Len(t, left.body["halts"], 1)
	shown := ask(http.MethodGet, path, "").body["halts"].([]any)[0].(map[string]any)
	require.Equal(t, "schedules", shown["what"])
	require.Equal(t, "quiet", shown["reason"])
	require.Equal(t, "test OPERATOR", shown["halted_by"])
	for _, body := range []string{
		`{}`, `{"what": ["leases"]}`, `{"what": ["leases"], "reason": ""}`, `{"what": ["leases"], "reason": 7}`, `{"what": [], "reason": "x"}`,
		`{"what": ["everything"], "reason": "x"}`, `{"what": null, "reason": "x"}`, `{"what": ["leases"], "reason": "x", "more": 1}`, `[`,
	} {
		require.GreaterOrEqual(t, ask(http.MethodPost, path, body).status, 400, body)
		require.Len(t, ask(http.MethodGet, path, "").body["halts"], 1)
	}
	require.Equal(t, http.StatusUnprocessableEntity, ask(http.MethodDelete, path+"/everything", "").status)
	require.Equal(t, http.StatusForbidden, a.get(t, path).status)
}
