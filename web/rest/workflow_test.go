package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/samber/lo"
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

func TestAnswersToWorkflows(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	w := a.AskApproval(t, a.Client)
	path := "/api/v1/workflows/" + string(w.ID)
	nodeOf := func(of answer) map[string]any {
		nodes, _ := of.body["nodes"].([]any)
		require.Len(t, nodes, 4, of.raw)
		return nodes[2].(map[string]any)
	}
	pick := nodeOf(a.get(t, path))
	asked, _ := pick["approval"].(map[string]any)
	require.Equal(t, "blocked", pick["status"])
	require.Equal(t, "Which fog?", asked["question"])
	require.Equal(t, "reject", asked["on_timeout"])
	require.Contains(t, asked["url"], a.Base+"/approve/job_")
	require.Nil(t, asked["decision"])
	require.Len(t, asked["candidates"], 2)
	require.NotContains(t, a.ask(t, http.MethodGet, path, "", as(a.Secrets[access.RoleViewer])).raw, "/approve/job_", "a viewer changes nothing")
	_, stranger, err := a.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: a.NewAccount(t, "other", models.TierPro).ID,
		Role: access.RoleClient, Name: "stranger"})
	require.NoError(t, err)
	entries := a.Count(t, "audit_log")

	for ask, code := range map[string]string{
		"/nodes/pick/approve?pick=c":                          "INVALID_INPUT pick",
		"/nodes/pick/approve":                                 "INVALID_INPUT pick",
		"/nodes/a/approve":                                    "CONFLICT",
		"/nodes/a/reject":                                     "CONFLICT",
		"/nodes/film/reject":                                  "CONFLICT",
		"/nodes/none/approve":                                 "NOT_FOUND key",
		"/nodes/pick/reject?note=a%00":                        "INVALID_INPUT note",
		"/nodes/pick/reject?note=" + strings.Repeat("x", 201): "INVALID_INPUT note",
	} {
		refused := a.post(t, path+ask, nil)
		require.Equal(t, code, refused.code(), "%s: %s", ask, refused.raw)
	}
	require.Equal(t, "NOT_FOUND", a.ask(t, http.MethodPost, path+"/nodes/pick/approve?pick=a", "", as(stranger)).code())
	require.Equal(t, "FORBIDDEN", a.ask(t, http.MethodPost, path+"/nodes/pick/approve?pick=a", "", as(a.Secrets[access.RoleViewer])).code())
	require.Equal(t, entries, a.Count(t, "audit_log"), "refusals")

	approved := a.post(t, path+"/nodes/pick/approve?pick=b&note=nicer", nil)
	require.Equal(t, http.StatusOK, approved.status, approved.raw)
	asked, _ = nodeOf(approved)["approval"].(map[string]any)
	require.Equal(t, []any{"approved", "b", "nicer", nil}, []any{asked["decision"], asked["picked"], asked["note"], asked["url"]}, approved.raw)
	require.Equal(t, http.StatusOK, a.post(t, path+"/nodes/pick/approve?pick=b", nil).status, "the same answer")
	require.Equal(t, "CONFLICT", a.post(t, path+"/nodes/pick/approve?pick=a", nil).code())
	require.Equal(t, "CONFLICT", a.post(t, path+"/nodes/pick/reject", nil).code())
	require.Equal(t, entries+1, a.Count(t, "audit_log"))
	a.RequireInvariants(t)
}

func TestPicksOfDrafts(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	const path = "/api/v1/workflows"
	job := func(model string, payload map[string]any) map[string]any {
		return map[string]any{"model": model, "payload": lo.Ternary(payload == nil, map[string]any{}, payload)}
	}
	draft := map[string]any{
		"model": "testcard", "payload": map[string]any{"prompt": "fog", "durationSeconds": 1}, "draft": map[string]any{"steps": 6},
	}
	node := func(key string, job map[string]any) map[string]any { return map[string]any{"key": key, "job": job} }
	pick := node("pick", map[string]any{"model": models.TypeApproval, "payload": map[string]any{"candidates": []string{"{{a.draft}}"}}})
	full := func(job map[string]any) map[string]any {
		n := node("full", job)
		n["continues"] = "pick"
		return n
	}
	ask := func(jobs ...map[string]any) answer {
		return a.post(t, path, map[string]any{"name": "picked", "jobs": jobs})
	}

	w := a.AskPick(t, a.Client)
	picked := a.post(t, path+"/"+string(w.ID)+"/nodes/pick/approve?pick=b", nil)
	require.Equal(t, http.StatusOK, picked.status, picked.raw)
	nodes, _ := picked.body["nodes"].([]any)
	continued, _ := nodes[3].(map[string]any)
	require.Equal(t, "queued", continued["status"])

	made := ask(node("a", draft), pick, full(job("testcard", nil)))
	require.Equal(t, http.StatusCreated, made.status, made.raw)
	for code, refused := range map[string]answer{
		"INVALID_INPUT jobs.full.job.payload": ask(node("a", draft), pick, full(job("testcard", map[string]any{"seed": 1}))),
		"INVALID_INPUT jobs.full.continues":   ask(node("a", draft), full(job("testcard", nil))),
		"INVALID_INPUT jobs.full.job.model":   ask(node("a", draft), pick, full(job("video.stitch", nil))),
	} {
		require.Equal(t, code, refused.code(), refused.raw)
	}

	a.RequireInvariants(t)
}
