package graph_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestEngines(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	data := a.as(t, access.RoleOperator, `mutation { createPool(input: {name: "comfy", provider: "engines", engineKind: "videos-api",
		engines: ["http://gpu-1:8000", "http://gpu-2:8000"], maxWorkers: 0}) { id region gpuType capacityClass models followsCatalogue engineKind maxWorkers } }`, nil)
	id := at[string](t, data, "createPool", "id")
	require.Equal(t, map[string]any{"id": id, "region": "local", "gpuType": "engine", "capacityClass": "ON_DEMAND", "models": []any{},
		"followsCatalogue": true, "engineKind": "videos-api", "maxWorkers": 2.0}, data["createPool"])
	const sync = `mutation ($r: [EngineReport!]!, $p: String! = "comfy") { syncEngines(input: {pool: $p, reports: $r}) { pool kind engines { url held } } }`
	report := map[string]any{"url": "http://gpu-1:8000", "state": "READY", "version": "1", "gpuMemoryBytes": 24 << 30,
		"lacks": []any{map[string]any{"model": "wan", "missing": "a file"}}}

	data = a.as(t, access.RoleWorker, sync, map[string]any{"r": []any{report}})
	require.Equal(t, map[string]any{"pool": "comfy", "kind": "videos-api", "engines": []any{
		map[string]any{"url": "http://gpu-1:8000", "held": false}, map[string]any{"url": "http://gpu-2:8000", "held": false},
	}}, data["syncEngines"])
	data = a.as(t, access.RoleWorker, `mutation { registerWorker(input: {provider: "engines", providerInstanceId: "gpu-1:8000", poolId: "comfy",
		region: "x", gpuType: "y", models: [], agentVersion: "test"}) { worker { id models gpuType } } }`, nil)
	worker := at[string](t, data, "registerWorker", "worker", "id")
	data = a.as(t, access.RoleOperator, `mutation ($id: ID!) { holdEngine(pool: $id, url: "http://gpu-1:8000") { held heldBy state worker { id status } } }`,
		map[string]any{"id": id})
	require.Equal(t, map[string]any{"held": true, "heldBy": "test OPERATOR", "state": "READY", "worker": map[string]any{"id": worker,
		"status": "DRAINING"}}, data["holdEngine"])
	data = a.as(t, access.RoleOperator, `{ pools { engines { url kind state reason since version gpuName gpuMemoryBytes lacks { model missing } held
		worker { id currentJob { id } } } } }`, nil)
	require.Equal(t, "wan", at[string](t, data, "pools", 0, "engines", 0, "lacks", 0, "model"))
	require.Equal(t, "UNKNOWN", at[string](t, data, "pools", 0, "engines", 1, "state"))

	for name, c := range map[string]struct {
		role   access.Role
		query  string
		values map[string]any
		code   string
	}{
		"a client reports":         {access.RoleClient, sync, map[string]any{"r": []any{report}}, "FORBIDDEN"},
		"a worker key holds":       {access.RoleWorker, `mutation ($id: ID!) { holdEngine(pool: $id, url: "http://gpu-1:8000") { url } }`, map[string]any{"id": id}, "FORBIDDEN"},
		"a pool that is not there": {access.RoleWorker, sync, map[string]any{"r": []any{}, "p": "nonesuch"}, "UNAVAILABLE"},
		"an unknown state":         {access.RoleWorker, sync, map[string]any{"r": []any{map[string]any{"url": "http://gpu-1:8000", "state": "DANCING"}}}, "INVALID_INPUT"},
		"a state that people see":  {access.RoleWorker, sync, map[string]any{"r": []any{map[string]any{"url": "http://gpu-1:8000", "state": "HELD"}}}, "INVALID_INPUT"},
		"a huge reason": {access.RoleWorker, sync, map[string]any{"r": []any{map[string]any{"url": "http://gpu-1:8000", "state": "FAILED",
			"reason": strings.Repeat("x", 2<<20)}}}, "INVALID_INPUT"},
		"an unknown kind": {access.RoleOperator, `mutation { createPool(input: {name: "x", provider: "engines", engineKind: 7, engines: [], maxWorkers: 0}) { id } }`, nil, "INVALID_INPUT"},
		"a password":      {access.RoleOperator, `mutation { createPool(input: {name: "x", provider: "engines", engineKind: "cog", engines: ["http://a:hunter2@b"], maxWorkers: 0}) { id } }`, nil, "INVALID_INPUT"},
		"a taken engine":  {access.RoleOperator, `mutation { createPool(input: {name: "x", provider: "engines", engineKind: "cog", engines: ["http://gpu-2:8000/"], maxWorkers: 0}) { id } }`, nil, "CONFLICT"},
		"no region":       {access.RoleOperator, `mutation { createPool(input: {name: "x", provider: "static", gpuType: "L4", models: ["testcard"], maxWorkers: 1}) { id } }`, nil, "INVALID_INPUT"},
	} {
		got := ask(t, a.url, a.Secrets[c.role], c.query, c.values)
		require.Equal(t, []string{c.code}, got.codes(), "%s: %v", name, got.Errors)
		require.NotContains(t, got.Errors[0].Message, "hunter2", name)
	}
}
