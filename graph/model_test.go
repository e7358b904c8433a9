package graph_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const ownModel = `models:
- name: own
  type: video.generate
  gpuTypes: [any]
  timeoutSeconds: 60
  gpuSecondsPerSecond: 1
  settings: {weights: /models/own}
  params: {type: object, properties: {n: {type: integer}}}
aliases:
- name: fast
  models: {own: 1}
`

func TestApplyModels(t *testing.T) {
	t.Parallel()
	const apply = `mutation ($source: String!, $dryRun: Boolean) {
		applyModels(input: {source: $source, dryRun: $dryRun}) { kind name isAlias version differences { path before after } }
	}`

	t.Run("ServesTheModelAtOnce", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		a.SeedCatalogue(t)
		admin := func(query string, variables map[string]any) answer {
			return ask(t, a.url, a.Secrets[access.RoleAdmin], query, variables)
		}

		dry := admin(apply, map[string]any{"source": ownModel, "dryRun": true})
		require.Equal(t, []any{
			map[string]any{"kind": "ADDED", "name": "own", "isAlias": false, "version": 1.0, "differences": []any{}},
			map[string]any{"kind": "ADDED", "name": "fast", "isAlias": true, "version": 1.0, "differences": []any{}},
		}, at[[]any](t, dry.Data, "applyModels"))
		require.Nil(t, admin(`{ model(name: "own") { name } }`, nil).Data["model"])

		require.Empty(t, admin(apply, map[string]any{"source": ownModel}).codes())
		job := a.client(t, `mutation { submitJob(input: {model: "fast", params: {n: 1}}) { job { model modelVersion alias } } }`, nil)
		require.Equal(t, map[string]any{"model": "own", "modelVersion": 1.0, "alias": "fast"}, at[map[string]any](t, job, "submitJob", "job"))
		shown := at[map[string]any](t, a.client(t, `{ model(name: "own") { version produces settings origin timeoutSeconds } }`, nil), "model")
		require.Equal(t, map[string]any{"version": 1.0, "produces": "VIDEO", "settings": nil, "origin": "OPERATOR", "timeoutSeconds": 60.0},
			shown,
			"clients do not see the settings of runtimes")
		drafts := at[map[string]any](t, a.client(t, `{ model(name: "testcard") { determinism drafts { stepsPerSecond minSteps } } }`, nil),
			"model")
		require.Equal(t, map[string]any{"determinism": "BEST_EFFORT", "drafts": map[string]any{"stepsPerSecond": 12.0, "minSteps": 24.0}}, drafts,
			"clients need to know how many steps a draft can have")
		seen := at[map[string]any](t, admin(`{ model(name: "own") { settings } }`, nil).Data, "model")
		require.Equal(t, map[string]any{"weights": "/models/own"}, seen["settings"])
		require.Equal(t, []any{map[string]any{"name": "fast", "models": []any{map[string]any{"name": "own", "weight": 1.0}}}},
			at[[]any](t, a.client(t, `{ modelAliases { name models { name weight } } }`, nil), "modelAliases"))
		require.Equal(t, []string{"CONFLICT"}, admin(`mutation { removeModel(name: "own") }`, nil).codes())
		require.Equal(t, []string{"FORBIDDEN"}, admin(`{ modelPrograms { model } }`, nil).codes(), "workers alone need them")
		programs := at[[]any](t, a.as(t, access.RoleWorker, `{ modelPrograms { model program install } }`, nil), "modelPrograms")
		require.NotEmpty(t, programs)
		require.Empty(t, admin(`mutation { removeModel(name: "fast") }`, nil).codes())
		require.Equal(t, map[string]any{"aliases": []any{}, "pools": []any{}, "openJobs": 1.0, "schedules": 0.0},
			at[map[string]any](t, admin(`{ modelUses(name: "own") { aliases pools openJobs schedules } }`, nil).Data, "modelUses"))
		require.Equal(t, []string{"CONFLICT"}, admin(`mutation { removeModel(name: "own") }`, nil).codes())
		open := at[[]any](t, a.client(t, `{ jobs(first: 1) { edges { node { id } } } }`, nil), "jobs", "edges")
		id := at[string](t, open[0].(map[string]any), "node", "id")
		a.client(t, `mutation($id: ID!) { cancelJob(id: $id) { status } }`, map[string]any{"id": id})
		require.Empty(t, admin(`mutation { removeModel(name: "own") }`, nil).codes())
		gone := at[map[string]any](t, admin(`{ model(name: "own", version: 1) { origin removedAt removedBy source } }`, nil).Data, "model")
		require.Equal(t, []any{"OPERATOR", "test ADMIN"}, []any{gone["origin"], gone["removedBy"]})
		require.NotNil(t, gone["removedAt"])
		require.Equal(t, at[string](t, admin(`{ exportModels(names: ["own"]) }`, nil).Data, "exportModels"), gone["source"])
		theirs := at[map[string]any](t, a.client(t, `{ model(name: "own", version: 1) { removedBy source } removedModels { name removedBy } }`,
			nil), "model")
		require.Equal(t, map[string]any{"removedBy": nil, "source": nil}, theirs, "who removed it is not the customers' business")
		require.Equal(t, "own", at[string](t, a.client(t, `{ removedModels { name } }`, nil), "removedModels", 0, "name"))
		require.Equal(t, "test ADMIN", at[string](t, admin(`{ removedModels { removedBy } }`, nil).Data, "removedModels", 0, "removedBy"))
		restricted := strings.Replace(ownModel, "name: own", "name: theirs\n  accounts: ["+string(models.NewAccountID())+"]", 1)
		require.Empty(t, admin(apply, map[string]any{"source": restricted[:strings.Index(restricted, "aliases:")]}).codes())
		require.Empty(t, admin(`mutation { removeModel(name: "theirs") }`, nil).codes())
		require.Len(t, at[[]any](t, admin(`{ removedModels { name } }`, nil).Data, "removedModels"), 3)
		require.Len(t, at[[]any](t, a.client(t, `{ removedModels { name } }`, nil), "removedModels"), 2, "theirs is for other accounts")
		require.Nil(t, a.client(t, `{ model(name: "theirs", version: 1) { name } }`, nil)["model"])
		require.Equal(t, 1.0, at[float64](t, admin(`mutation { restoreModel(name: "own") { version } }`, nil).Data, "restoreModel", "version"))
		require.Equal(t, []string{"CONFLICT"}, admin(`mutation { restoreModel(name: "own") { version } }`, nil).codes())
	})

	t.Run("NamesTheLineOfAProblem", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)

		bad := ask(t, a.url, a.Secrets[access.RoleAdmin], apply, map[string]any{"source": "models:\n- name: x\n  colour: red\n"})

		require.Equal(t, []string{"INVALID_INPUT"}, bad.codes())
		require.Contains(t, bad.Errors[0].Message, `models.yaml:3: unknown field "colour"`)
	})

	t.Run("IsForAdmins", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)

		for _, role := range []access.Role{access.RoleClient, access.RoleOperator} {
			require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, a.Secrets[role], apply, map[string]any{"source": ownModel}).codes())
			require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, a.Secrets[role], `mutation { removeModel(name: "drill") }`, nil).codes())
		}
	})
}
