package graph_test

import (
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const startBulk = `mutation ($a: BulkAction!, $f: JobFilter!, $dry: Boolean, $tier: Tier) {
	startBulkOperation(action: $a, filter: $f, dryRun: $dry, tier: $tier, perMinute: 60, canary: 1) {
		id action matched done failed paused perMinute createdAt finishedAt errors { code message field } } }`

func TestBulkOperation(t *testing.T) {
	t.Parallel()

	t.Run("IsStartedWatchedAndControlled", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Submit(t)
		a.Submit(t)

		dry := a.client(t, startBulk, map[string]any{"a": "CANCEL", "f": map[string]any{"status": "QUEUED"}, "dry": true})
		started := a.client(t, startBulk, map[string]any{"a": "CANCEL", "f": map[string]any{"status": "QUEUED"}})
		_, err := a.Bulk.Pass(t.Context())
		require.NoError(t, err)

		require.EqualValues(t, 2, at[float64](t, dry, "startBulkOperation", "matched"))
		require.NotNil(t, at[map[string]any](t, dry, "startBulkOperation")["finishedAt"])
		id := map[string]any{"id": at[string](t, started, "startBulkOperation", "id")}
		paused := a.client(t, `mutation ($id: ID!) { pauseBulkOperation(id: $id) { paused matched done failed finishedAt errors { code } } }`, id)
		require.Equal(t, map[string]any{"paused": true, "matched": 2.0, "done": 1.0, "failed": 0.0, "finishedAt": nil, "errors": []any{}},
			paused["pauseBulkOperation"])
		resumed := a.client(t, `mutation ($id: ID!) { resumeBulkOperation(id: $id) { paused } }`, id)
		require.Equal(t, map[string]any{"paused": false}, resumed["resumeBulkOperation"])
		read := a.client(t, `query ($id: ID!) { bulkOperation(id: $id) { done } node(id: $id) { id } }`, id)
		require.EqualValues(t, 1, at[float64](t, read, "bulkOperation", "done"))
		require.Equal(t, id["id"], at[string](t, read, "node", "id"))
	})

	t.Run("IsListedForItsAccount", func(t *testing.T) {
		t.Parallel()

		const list = `query ($open: Boolean, $after: String) { bulkOperations(open: $open, first: 1, after: $after) { edges { node { id action } } pageInfo { hasNextPage endCursor } } }`
		a := newAPI(t)
		a.Submit(t)
		filter := map[string]any{"status": "QUEUED"}
		first := at[string](t, a.client(t, startBulk, map[string]any{"a": "DELETE", "f": map[string]any{"status": "FAILED"}}),
			"startBulkOperation", "id")
		second := at[string](t, a.client(t, startBulk, map[string]any{"a": "CANCEL", "f": filter}), "startBulkOperation", "id")
		theirs := at[string](t, a.as(t, access.RoleOperator, startBulk, map[string]any{"a": "SET_TIER", "tier": "FREE", "f": filter}),
			"startBulkOperation", "id")
		ids := func(answer map[string]any) (ids []string) {
			for _, edge := range at[[]any](t, answer, "bulkOperations", "edges") {
				ids = append(ids, at[string](t, edge.(map[string]any), "node", "id"))
			}
			return ids
		}

		newest := a.client(t, list, nil)
		older := a.client(t, list, map[string]any{"after": at[string](t, newest, "bulkOperations", "pageInfo", "endCursor")})

		require.Equal(t, []string{second}, ids(newest), "a client sees none of the operators'")
		require.Equal(t, []string{first}, ids(older))
		require.False(t, at[bool](t, older, "bulkOperations", "pageInfo", "hasNextPage"))
		require.Equal(t, []string{second}, ids(a.client(t, list, map[string]any{"open": true})), "the first had no jobs")
		require.Equal(t, []string{theirs}, ids(a.as(t, access.RoleOperator, list, nil)))
	})

	t.Run("IsHiddenFromOtherAccounts", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Submit(t)
		filter := map[string]any{}
		own := a.client(t, startBulk, map[string]any{"a": "CANCEL", "f": filter})
		_, stranger, err := a.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: a.NewAccount(t, "stranger", models.TierPro).ID,
			Role: access.RoleClient, Name: "stranger"})
		require.NoError(t, err)
		_, token := a.worker(t, "i-1")
		id := map[string]any{"id": at[string](t, own, "startBulkOperation", "id")}

		for _, query := range []string{
			`query ($id: ID!) { bulkOperation(id: $id) { done } }`, `query ($id: ID!) { node(id: $id) { id } }`,
			`mutation ($id: ID!) { pauseBulkOperation(id: $id) { id } }`, `mutation ($id: ID!) { resumeBulkOperation(id: $id) { id } }`,
			`mutation ($id: ID!) { cancelBulkOperation(id: $id) { id } }`,
		} {
			require.Equal(t, []string{"NOT_FOUND"}, ask(t, a.url, stranger, query, id).codes(), query)
			require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, token, query, id).codes(), query)
		}
		require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, token, startBulk, map[string]any{"a": "CANCEL", "f": filter}).codes())
		require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, stranger, startBulk, map[string]any{"a": "REDRIVE", "f": filter}).codes())
		require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, stranger, startBulk,
			map[string]any{"a": "CANCEL", "f": filter, "tier": "PRO"}).codes())
		foreign := ask(t, a.url, stranger, startBulk, map[string]any{"a": "CANCEL", "f": filter})
		require.EqualValues(t, 0, at[float64](t, foreign.Data, "startBulkOperation", "matched"))
	})
}
