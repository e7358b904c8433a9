package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChangesCommand(t *testing.T) {
	t.Parallel()

	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"data":{"changes":{"edges":[{"node":{"id":"aud_1","at":"2026-11-27T01:02:03Z","kind":"POOL","action":"updatePool","actor":"ana@example.com (operator)",
			"target":"pol_1","title":"Pool l4 changed","details":["maxWorkers: 3 → 5"]}}],"pageInfo":{"hasNextPage":false}}}}`))
	}
	t.Run("ShowsATableAndJSON", func(t *testing.T) {
		t.Parallel()

		var asked struct {
			Variables struct {
				Kinds []string
				Since string
			}
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Variables.Kinds == nil {
				_ = json.NewDecoder(r.Body).Decode(&asked)
			}
			answer(w, r)
		}))
		t.Cleanup(server.Close)
		url := server.URL
		status, out, errs := call(t, t.Context(), "changes", "--kind", "pool", "--since", "24h", "--endpoint", url, "--key", "rl_x")
		require.Equal(t, 0, status, errs)
		require.Regexp(t, `27 Nov 01:02:03 UTC +pool +Pool l4 changed +ana@example.com`, out)
		require.Equal(t, []string{"POOL"}, asked.Variables.Kinds)
		require.NotEmpty(t, asked.Variables.Since)

		status, out, errs = call(t, t.Context(), "changes", "--json", "--endpoint", url, "--key", "rl_x")
		require.Equal(t, 0, status, errs)
		require.True(t, json.Valid([]byte(out)))
		require.Contains(t, out, "maxWorkers: 3 → 5")
	})

	t.Run("RefusesWrongFlags", func(t *testing.T) {
		t.Parallel()

		for flag, wrong := range map[string]string{"--kind": "coffee", "--since": "yesterday", "--until": "-3h"} {
			status, _, errs := call(t, t.Context(), "changes", flag, wrong, "--endpoint", "http://127.0.0.1:1", "--key", "rl_x")
			require.Equal(t, 2, status, flag)
			require.Contains(t, errs, flag)
		}
	})
}

// TestAudit tests that the audit log names what actions were about, and says in words what they did.
func TestAudit(t *testing.T) {
	t.Parallel()
	url, _ := answering(t, `{"auditLog": {"edges": [{"node": {"at": "2026-11-27T01:02:03Z", "actor": "ana@example.com (admin)", "action": "updatePool", "target": "pol_1", "targetName": "l4-spot",
		"payload": {"before": {"maxWorkers": 3}, "after": {"maxWorkers": 5}}, "details": ["maxWorkers: 3 → 5", "models: wan"]}}], "pageInfo": {"hasNextPage": false}}}`)

	status, out, errs := call(t, t.Context(), "audit", "--endpoint", url, "--key", "rl_x")

	require.Zero(t, status, errs)
	require.Regexp(t, `ana@example.com \(admin\) +updatePool +l4-spot +maxWorkers: 3 → 5; models: wan`, out)
	_, out, _ = call(t, t.Context(), "audit", "--output", "wide", "--endpoint", url, "--key", "rl_x")
	require.Contains(t, out, "pol_1")
	_, out, _ = call(t, t.Context(), "audit", "--jq", ".items[0].payload.after.maxWorkers", "--endpoint", url, "--key", "rl_x")
	require.Equal(t, "5\n", out)
}
