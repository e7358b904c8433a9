package graph_test

import (
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestMachines(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	pool := jobstest.AddPool(t, a.Stack, 0, 4)
	a.Exec(t, "UPDATE pools SET price_per_hour_usd = 3")
	worker, _ := a.worker(t, "vm-1")
	a.Exec(t, `INSERT INTO machines (pool_id, provider, instance_id, workers, asked_at, created_at, registered_at, told_at, spoke_at, gone_at, billed_until) VALUES
		(?0, (SELECT provider FROM workers), 'vm-1', 2, '2026-01-31 12:00:00Z', '2026-01-31 12:00:10Z', '2026-01-31 12:01:00Z', '2026-01-31 12:50:00Z',
			'2026-01-31 12:58:00Z', '2026-01-31 13:09:00Z', '2026-01-31 13:00:10Z'),
		(?0, 'fake', 'vm-2', 1, '2026-01-31 12:00:01Z', NULL, NULL, NULL, NULL, NULL, NULL)`, pool.ID)
	const query = `query ($f: MachineFilter, $first: Int = 50, $after: String) { machines(filter: $f, first: $first, after: $after) {
		edges { cursor node { id pool { name } provider instanceId workers state askedAt createdAt registeredAt deletionAskedAt deletedAt
			listedAt missingAt silentSince goneAt billedUntil paidSeconds costUsd workerIds } } pageInfo { hasNextPage endCursor } } }`

	t.Run("HaveTheirTimesAndTheirCost", func(t *testing.T) {
		t.Parallel()

		data := a.as(t, access.RoleViewer, query, map[string]any{"first": 1})
		require.Equal(t, "vm-2", at[string](t, data, "machines", "edges", 0, "node", "instanceId"))
		require.Equal(t, "ASKED", at[string](t, data, "machines", "edges", 0, "node", "state"))
		require.True(t, at[bool](t, data, "machines", "pageInfo", "hasNextPage"))
		data = a.as(t, access.RoleOperator, query, map[string]any{"after": at[string](t, data, "machines", "pageInfo", "endCursor")})

		node := at[map[string]any](t, data, "machines", "edges", 0, "node")
		require.InDelta(t, 7200, node["paidSeconds"], 0.01)
		require.InDelta(t, 6, node["costUsd"], 0.001)
		require.NotEmpty(t, node["id"])
		delete(node, "id")
		delete(node, "provider")
		delete(node, "paidSeconds")
		delete(node, "costUsd")
		require.Equal(t, map[string]any{
			"pool": map[string]any{"name": "fakes"}, "instanceId": "vm-1", "workers": 2.0, "state": "GONE",
			"askedAt": "2026-01-31T12:00:00Z", "createdAt": "2026-01-31T12:00:10Z", "registeredAt": "2026-01-31T12:01:00Z",
			"deletionAskedAt": "2026-01-31T12:50:00Z", "deletedAt": nil, "listedAt": nil, "missingAt": nil,
			"silentSince": "2026-01-31T12:58:00Z", "goneAt": "2026-01-31T13:09:00Z", "billedUntil": "2026-01-31T13:00:10Z",
			"workerIds": []any{worker},
		}, node)
		require.False(t, at[bool](t, data, "machines", "pageInfo", "hasNextPage"))
	})

	t.Run("RefuseBadInput", func(t *testing.T) {
		t.Parallel()

		first := a.as(t, access.RoleOperator, query, map[string]any{"first": 1})
		foreign := at[string](t, a.as(t, access.RoleOperator, `{ workers { edges { cursor } } }`, nil), "workers", "edges", 0, "cursor")
		for name, c := range map[string]struct {
			key       access.Role
			variables map[string]any
			code      string
		}{
			"an unknown pool":     {access.RoleOperator, map[string]any{"f": map[string]any{"poolId": string(models.NewPoolID())}}, "NOT_FOUND"},
			"an unknown name":     {access.RoleOperator, map[string]any{"f": map[string]any{"poolId": "nonesuch"}}, "NOT_FOUND"},
			"an unknown state":    {access.RoleOperator, map[string]any{"f": map[string]any{"states": []any{"LOST"}}}, "INVALID_INPUT"},
			"too many":            {access.RoleOperator, map[string]any{"first": 201}, "INVALID_INPUT"},
			"a cursor of workers": {access.RoleOperator, map[string]any{"after": foreign}, "INVALID_INPUT"},
			"a cursor of other machines": {access.RoleOperator, map[string]any{
				"after": at[string](t, first, "machines", "pageInfo", "endCursor"), "f": map[string]any{"states": []any{"GONE"}}}, "INVALID_INPUT"},
			"a client": {access.RoleClient, nil, "FORBIDDEN"},
			"a worker": {access.RoleWorker, nil, "FORBIDDEN"},
		} {
			require.Equal(t, []string{c.code}, ask(t, a.url, a.Secrets[c.key], query, c.variables).codes(), name)
		}
	})
}
