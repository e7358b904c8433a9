package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestWorkflows(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	const path = "/api/v1/workflows"
	job := func(model string, payload map[string]any) map[string]any {
		return map[string]any{"model": model, "payload": payload}
	}
	request := func(change map[string]any) map[string]any {
		asked := map[string]any{"name": "film", "output": "film", "idempotency_key": "one", "jobs": []map[string]any{
			{"key": "s1", "job": job("testcard", map[string]any{"prompt": "a harbour", "durationSeconds": 1})},
			{"key": "film", "on_parent_failure": "retry_parent", "job": job("video.stitch", map[string]any{"clips": []string{"{{s1.video}}"}})},
		}}
		for name, value := range change {
			asked[name] = value
		}
		return asked
	}

	made := a.post(t, path, request(nil))
	require.Equal(t, http.StatusCreated, made.status, made.raw)
	id, _ := made.body["workflow_id"].(string)
	require.True(t, models.WorkflowID(id).Valid(), made.raw)
	require.Equal(t, "running", made.body["status"])
	require.True(t, strings.HasSuffix(made.header.Get("Location"), path+"/"+id))
	require.Equal(t, id, a.post(t, path, request(nil)).body["workflow_id"], "the same key")
	nodes, _ := a.get(t, path+"/"+id).body["nodes"].([]any)
	require.Len(t, nodes, 2)
	film, _ := nodes[1].(map[string]any)
	require.Equal(t, "blocked", film["status"])
	require.Equal(t, []any{"s1"}, film["after"])
	require.NotEmpty(t, film["waiting_for"])
	padded := `{"name": "large", "jobs": [{"key": "a", "job": {"model": "testcard", "payload": {"prompt": "x"}}}]` +
		strings.Repeat(" ", 3<<20) + "}"
	large := a.ask(t, http.MethodPost, path, padded, nil)
	require.Equal(t, http.StatusCreated, large.status, large.raw)
	require.Equal(t, "NOT_FOUND key", a.post(t, path+"/"+id+"/nodes/a%00/skip", nil).code())
	require.Equal(t, "INVALID_INPUT name", a.get(t, path+"?name=%00").code())
	listed := a.get(t, path+"?name=film&status=running")
	require.Len(t, listed.body["workflows"], 1, listed.raw)
	require.Empty(t, a.get(t, path+"?status=failed").body["workflows"])

	other := map[string]any{"idempotency_key": "two"}
	for code, change := range map[string]map[string]any{
		"IDEMPOTENCY_CONFLICT idempotency_key": {"name": "another"},
		"INVALID_INPUT jobs": {"output": "a",
			"jobs": []map[string]any{{"key": "a", "after": []string{"b"}, "job": job("testcard", map[string]any{"prompt": "x"})},
				{"key": "b", "after": []string{"a"}, "job": job("testcard", map[string]any{"prompt": "x"})}}},
		"INVALID_INPUT jobs.a.job.payload.durationSeconds": {"output": "a",
			"jobs": []map[string]any{{"key": "a", "job": job("testcard", map[string]any{"prompt": "x", "durationSeconds": 1000})}}},
		"INVALID_INPUT output": {"output": "none"},
		"NOT_FOUND reuse":      {"reuse": "wfl_x"},
	} {
		if !strings.HasPrefix(code, "IDEMPOTENCY") {
			change["idempotency_key"] = other["idempotency_key"]
		}
		refused := a.post(t, path, request(change))
		require.Equal(t, code, refused.code(), refused.raw)
	}
	require.Equal(t, http.StatusUnprocessableEntity, a.post(t, path, request(map[string]any{"runAt": "x"})).status, "an unknown field")

	require.Equal(t, http.StatusConflict, a.post(t, path+"/"+id+"/retry", nil).status)
	require.Equal(t, "cancelled", a.ask(t, http.MethodDelete, path+"/"+id+"?reason=rain", "", nil).body["status"])
	again := a.post(t, path+"/"+id+"/retry", nil)
	require.Equal(t, "running", again.body["status"], again.raw)
	require.Equal(t, http.StatusNotFound, a.get(t, path+"/wfl_x").status)
}

func TestNodesOfWorkflows(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	w := a.SubmitWorkflow(t, a.Client, "film", "a", "b", "c", "d")
	path := "/api/v1/workflows/" + string(w.ID) + "/nodes/"
	a.NewKey(t, a.Account, access.RoleViewer)
	worker := a.Worker(t, "one")
	_, fence := a.Lease(t, worker)
	_, stranger, err := a.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: a.NewAccount(t, "other", models.TierPro).ID,
		Role: access.RoleClient, Name: "stranger"})
	require.NoError(t, err)
	entries := a.Count(t, "audit_log")

	for ask, c := range map[string]struct {
		key, code, says string
	}{
		path + "b/skip":                        {stranger, "NOT_FOUND", "no such workflow"},
		path + "c/skip":                        {a.Secrets[access.RoleViewer], "FORBIDDEN", "role VIEWER"},
		path + "d/skip":                        {a.Secrets[access.RoleWorker], "FORBIDDEN", ""},
		path + "b/override?parent=a":           {stranger, "NOT_FOUND", "no such workflow"},
		path + "a/skip":                        {"", "CONFLICT", "The node a is running: cancel its job first."},
		path + "x/skip":                        {"", "NOT_FOUND key", "no such node"},
		path + "%27%3B--/skip":                 {"", "NOT_FOUND key", "no such node"},
		path + "b/override?parent=x":           {"", "NOT_FOUND parent", "no such parent"},
		path + "x/override?parent=a":           {"", "NOT_FOUND key", "no such node"},
		path + "d/override?parent=a":           {"", "NOT_FOUND parent", "no such parent"},
		path + "b/override":                    {"", "INVALID_INPUT parent", "missing"},
		"/api/v1/workflows/wfl_x/nodes/a/skip": {"", "NOT_FOUND", "no such workflow"},
		"/api/v1/workflows/wfl_00000000-0000-7000-8000-000000000000/nodes/a/skip": {"", "NOT_FOUND", "no such workflow"},
	} {
		header := as(a.Secrets[access.RoleClient])
		if c.key != "" {
			header = as(c.key)
		}
		refused := a.ask(t, http.MethodPost, ask, "", header)
		require.Equal(t, c.code, refused.code(), "%s: %s", ask, refused.raw)
		require.Contains(t, refused.raw, c.says)
	}
	require.Equal(t, entries, a.Count(t, "audit_log"), "refusals")

	operator := as(a.Secrets[access.RoleOperator])
	skipped := a.ask(t, http.MethodPost, path+"c/skip", "", operator)
	require.Equal(t, http.StatusOK, skipped.status, skipped.raw)
	again := a.ask(t, http.MethodPost, path+"c/skip", "", operator)
	require.Equal(t, http.StatusOK, again.status, again.raw)
	overridden := a.ask(t, http.MethodPost, path+"b/override?parent=a", "", operator)

	nodes, _ := overridden.body["nodes"].([]any)
	require.Len(t, nodes, 4, overridden.raw)
	b, c, d := nodes[1].(map[string]any), nodes[2].(map[string]any), nodes[3].(map[string]any)
	require.Equal(t, "queued", b["status"])
	require.Equal(t, []any{"a"}, b["overridden"])
	require.Equal(t, true, c["skipped"])
	require.Equal(t, "queued", d["status"])
	require.Equal(t, entries+2, a.Count(t, "audit_log"), "the second skip changed nothing")
	a.finish(t, worker, fence)
	require.Equal(t, "CONFLICT", a.ask(t, http.MethodPost, path+"a/skip", "", operator).code(), "it is completed")
	a.RequireInvariants(t)
}
