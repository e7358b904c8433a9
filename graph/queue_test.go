package graph_test

import (
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestPauseQueue(t *testing.T) {
	t.Parallel()

	t.Run("IsShownInTheQueueAndItsJobs", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		operate := func(query string) answer { return ask(t, a.url, a.Secrets[access.RoleOperator], query, nil) }
		id := string(job.ID)

		paused := operate(`mutation { pauseQueue(tier: ENTERPRISE, reason: "storage is full") { tier model depth running paused } }`)

		require.Empty(t, paused.codes())
		require.Equal(t, map[string]any{"tier": "ENTERPRISE", "model": nil, "depth": 1.0, "running": 0.0, "paused": true},
			at[map[string]any](t, paused.Data, "pauseQueue"))
		queues := at[[]any](t, operate(`{ queues { model paused pause { tier model by at reason } } }`).Data, "queues")
		require.Len(t, queues, 1)
		queue := queues[0].(map[string]any)
		pause := queue["pause"].(map[string]any)
		require.NotEmpty(t, pause["at"])
		delete(pause, "at")
		require.Equal(t, map[string]any{"model": "testcard", "paused": true, "pause": map[string]any{
			"tier": "ENTERPRISE", "model": nil, "by": "test OPERATOR", "reason": "storage is full",
		}}, queue)
		require.Equal(t, []any{
			map[string]any{"code": "QUEUE_PAUSED", "message": "The enterprise lane is paused.", "until": nil},
			map[string]any{"code": "NO_POOL", "message": "No pool and no worker can run it: it needs testcard.", "until": nil},
		}, at[[]any](t, a.client(t, `query ($id: ID!) { job(id: $id) { waitingFor { code message until } } }`, map[string]any{"id": id}), "job",
			"waitingFor"))
		const why = `query ($id: ID!) { job(id: $id) { waitingFor { message stop { by reason at } } } }`
		require.Nil(t, at[[]any](t, a.client(t, why, map[string]any{"id": id}), "job", "waitingFor")[0].(map[string]any)["stop"],
			"clients do not see operators")
		told := at[[]any](t, ask(t, a.url, a.Secrets[access.RoleOperator], why, map[string]any{"id": id}).Data, "job",
			"waitingFor")[0].(map[string]any)
		stop := told["stop"].(map[string]any)
		require.Equal(t, []any{"test OPERATOR", "storage is full"}, []any{stop["by"], stop["reason"]})
		require.Regexp(t, `^The enterprise lane is paused by test OPERATOR since .+ UTC: storage is full\.$`, told["message"])
		require.NotEmpty(t, stop["at"])
		require.Empty(t, operate(`mutation { resumeQueue(tier: ENTERPRISE) { paused } }`).codes())
		set := operate(`mutation { setJobTier(id: "` + id + `", tier: CRITICAL) { tier lane } }`)
		require.Equal(t, "CRITICAL", at[string](t, set.Data, "setJobTier", "lane"))
	})

	t.Run("IsForOperators", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		id := string(a.Submit(t).ID)

		for _, query := range []string{
			`mutation { pauseQueue(tier: PRO) { paused } }`,
			`mutation { resumeQueue(tier: PRO) { paused } }`,
			`mutation { halt(what: [LEASES], reason: "x") { what } }`,
			`mutation { resume(what: [LEASES]) { what } }`,
			`{ halts { what } }`,
			`mutation { setJobTier(id: "` + id + `", tier: BATCH) { id } }`,
		} {
			require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, a.Secrets[access.RoleClient], query, nil).codes(), query)
		}
	})
}
