package graph_test

import (
	"fmt"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestSubmitJobs(t *testing.T) {
	t.Parallel()

	const query = `mutation ($i: [SubmitJobInput!]!) { submitJobs(inputs: $i) { accepted rejected
		results { deduplicated job { id status prompt } error { code message field } } } }`
	input := func(model string) map[string]any { return map[string]any{"model": model, "prompt": "fog"} }

	t.Run("ReturnsPayloadsInTheOrderOfTheInputs", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)

		data := a.client(t, query, map[string]any{"i": []any{input("testcard"), input("none"), input("testcard")}})

		require.EqualValues(t, 2, at[float64](t, data, "submitJobs", "accepted"))
		require.EqualValues(t, 1, at[float64](t, data, "submitJobs", "rejected"))
		require.Equal(t, "fog", at[string](t, data, "submitJobs", "results", 2, "job", "prompt"))
		require.Equal(t, "INVALID_INPUT", at[string](t, data, "submitJobs", "results", 1, "error", "code"))
		require.Equal(t, []any{"model"}, at[[]any](t, data, "submitJobs", "results", 1, "error", "field"))
		require.Nil(t, at[map[string]any](t, data, "submitJobs", "results", 1)["job"])
	})

	t.Run("GivesAJobTheTypeOfItsModel", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		input := map[string]any{"model": "http.call", "params": map[string]any{"url": "https://example.com/"}}

		data := a.client(t, `mutation ($i: [SubmitJobInput!]!) { submitJobs(inputs: $i) { results { job { type prompt } } } }`,
			map[string]any{"i": []any{input}})

		require.Equal(t, "http.call", at[string](t, data, "submitJobs", "results", 0, "job", "type"))
	})

	t.Run("AcceptsAThousandInOneCall", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		_, err := a.Accounts.Update(t.Context(), a.Admin, a.Account.ID, auth.AccountInput{MaxQueued: new(1000)})
		require.NoError(t, err)
		var many []any
		for i := range 1000 {
			many = append(many, map[string]any{"model": "testcard", "prompt": fmt.Sprint("video ", i)})
		}

		data := a.client(t, query, map[string]any{"i": many})

		require.EqualValues(t, 1000, at[float64](t, data, "submitJobs", "accepted"))
		results := at[[]any](t, data, "submitJobs", "results")
		require.Len(t, results, 1000)
		ids := map[string]bool{}
		for i := range results {
			job := at[map[string]any](t, results, i, "job")
			require.Equal(t, fmt.Sprint("video ", i), job["prompt"])
			ids[job["id"].(string)] = true
		}
		require.Len(t, ids, 1000)
		require.Equal(t, 1000, a.Count(t, "jobs"))
	})

	t.Run("CountsTheFieldsOfEachInput", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		var many []any
		for range 1000 {
			many = append(many, input("testcard"))
		}

		got := ask(t, a.url, a.Secrets[access.RoleClient],
			`mutation ($i: [SubmitJobInput!]!) { submitJobs(inputs: $i) { results { job { events(first: 200) { edges { node { seq } } } } } } }`,
			map[string]any{"i": many})

		require.Equal(t, []string{"QUERY_TOO_COMPLEX"}, got.codes())
		require.Zero(t, a.Count(t, "jobs"))
	})
}
