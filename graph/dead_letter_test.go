package graph_test

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// fail submits a job and lets it fail for good.
func (a *api) fail(t *testing.T, worker jobs.Principal, reason string) *models.Job {
	t.Helper()
	a.Submit(t)
	granted, fence := a.Lease(t, worker)
	log := a.Upload(t, worker, fence, models.ArtifactLog, []byte("the last words"))
	_, err := a.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailUnauthorized, Message: reason, Log: &log})
	require.NoError(t, err)
	return granted.Job
}

const deadLetters = `query ($resolved: Boolean) {
	deadLetters(resolved: $resolved, first: 10) { totalCount pageInfo { hasNextPage } edges { cursor node {
		id job { id status run } run model provider log { id } fingerprint failureClass audience reason attempts createdAt
		resolvedAt resolution resolvedBy note redrivenAs { id } } } }
	deadLetterGroups { fingerprint failureClass reason model count firstAt lastAt }
	deadLetterStats { total oldestAgeSeconds byProvider byModel byClass } }`

func TestDeadLetters(t *testing.T) {
	t.Parallel()

	t.Run("AreShownToOperators", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.fail(t, a.Worker(t, "i-1"), "a face in frame 3")

		data := a.as(t, access.RoleOperator, deadLetters, nil)

		dead := at[map[string]any](t, data, "deadLetters", "edges", 0, "node")
		require.Equal(t, string(job.ID), at[string](t, dead, "job", "id"))
		require.Equal(t, "static", dead["provider"])
		require.Equal(t, "OPERATOR", dead["audience"])
		theirs := a.as(t, access.RoleOperator,
			`{ deadLetters(audience: [CUSTOMER]) { totalCount } deadLetterStats(audience: CUSTOMER) { total } deadLetterGroups(audience: [CUSTOMER]) { audience } }`, nil)
		require.Zero(t, at[float64](t, theirs, "deadLetters", "totalCount"))
		require.EqualValues(t, 1, dead["attempts"])
		require.NotNil(t, dead["log"])
		require.Len(t, dead["fingerprint"], 16)
		for _, absent := range []string{"resolvedAt", "resolution", "resolvedBy", "note", "redrivenAs"} {
			require.Nil(t, dead[absent], absent)
		}
		require.EqualValues(t, 1, at[float64](t, data, "deadLetters", "totalCount"))
		require.Equal(t, "a face in frame 3", at[string](t, data, "deadLetterGroups", 0, "reason"))
		require.Equal(t, map[string]any{"static": 1.0}, at[map[string]any](t, data, "deadLetterStats", "byProvider"))
	})

	t.Run("AreRedrivenAndDiscarded", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		worker := a.Worker(t, "i-1")
		job := a.fail(t, worker, "a face")
		dead := at[string](t, a.as(t, access.RoleOperator, deadLetters, nil), "deadLetters", "edges", 0, "node", "id")

		redriven := a.as(t, access.RoleOperator, `mutation ($id: ID!) {
			redriveDeadLetter(id: $id, params: {durationSeconds: 2}, prompt: "no faces") { id run lane params prompt } }`,
			map[string]any{"id": dead})
		node := a.as(t, access.RoleOperator,
			`query ($id: ID!) { node(id: $id) { ... on DeadLetter { resolution resolvedAt redrivenAs { id } } } }`, map[string]any{"id": dead})
		refused := ask(t, a.url, a.Secrets[access.RoleOperator], `mutation ($id: ID!) { discardDeadLetter(id: $id) { id } }`,
			map[string]any{"id": dead})

		require.Equal(t, string(job.ID), at[string](t, redriven, "redriveDeadLetter", "id"))
		require.Equal(t, "CRITICAL", at[string](t, redriven, "redriveDeadLetter", "lane"))
		require.Equal(t, "no faces", at[string](t, redriven, "redriveDeadLetter", "prompt"))
		require.EqualValues(t, 2, at[float64](t, redriven, "redriveDeadLetter", "params", "durationSeconds"))
		require.Equal(t, "REDRIVEN", at[string](t, node, "node", "resolution"))
		require.Equal(t, string(job.ID), at[string](t, node, "node", "redrivenAs", "id"))
		require.Equal(t, []string{"CONFLICT"}, refused.codes())

		granted, fence := a.Lease(t, worker)
		_, err := a.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailUnauthorized, Message: "a face again"})
		require.NoError(t, err)
		second, err := models.FindDeadLetter(t.Context(), a.DB, granted.Job.ID, 2)
		require.NoError(t, err)
		discarded := a.as(t, access.RoleOperator,
			`mutation ($id: ID!) { discardDeadLetter(id: $id, note: "enough") { resolution note redrivenAs { id } } }`,
			map[string]any{"id": second.ID})
		require.Equal(t, map[string]any{"resolution": "DISCARDED", "note": "enough", "redrivenAs": nil}, discarded["discardDeadLetter"])
		require.EqualValues(t, 2, at[float64](t, a.as(t, access.RoleOperator, deadLetters, map[string]any{"resolved": true}), "deadLetters",
			"totalCount"))
	})

	t.Run("AreRedrivenTogether", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		worker := a.Worker(t, "i-1")
		a.fail(t, worker, "a face")
		a.fail(t, worker, "a face")

		data := a.as(t, access.RoleOperator, `mutation { redriveDeadLetters(failureClass: UNAUTHORIZED, provider: "static") }`, nil)

		require.EqualValues(t, 2, data["redriveDeadLetters"])
	})

	t.Run("AreHiddenFromOtherCallers", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.fail(t, a.Worker(t, "i-1"), "a face")
		dead, err := models.FindDeadLetter(t.Context(), a.DB, job.ID, 1)
		require.NoError(t, err)
		_, token := a.worker(t, "i-2")

		for _, key := range []string{a.Secrets[access.RoleClient], token} {
			for query, codes := range map[string][]string{
				deadLetters: {"FORBIDDEN", "FORBIDDEN", "FORBIDDEN"},
				`mutation ($id: ID!) { redriveDeadLetter(id: $id) { id } }`:     {"FORBIDDEN"},
				`mutation { redriveDeadLetters }`:                               {"FORBIDDEN"},
				`mutation ($id: ID!) { discardDeadLetter(id: $id) { reason } }`: {"FORBIDDEN"},
			} {
				got := ask(t, a.url, key, query, map[string]any{"id": dead.ID})
				require.Equal(t, codes, got.codes(), query)
			}
		}
		got := ask(t, a.url, a.Secrets[access.RoleClient], `query ($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": dead.ID})
		require.Equal(t, []string{"NOT_FOUND"}, got.codes())
	})
}
