package graph_test

import (
	"slices"
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestFallback(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.AddTwins(t, "a", "b")
	a.AddTwin(t, "secret", func(m *catalogue.Model) { m.Accounts = []models.AccountID{models.NewAccountID()} })
	a.AddTwin(t, "usual", func(m *catalogue.Model) { m.Fallback = []string{"secret", "b"} })
	const submit = `mutation ($input: SubmitJobInput!) { submitJob(input: $input) { job { id fallback routes { from to reason } } } }`
	inputs := func(fallback any) []map[string]any {
		return []map[string]any{
			{"model": "testcard", "prompt": "a fox", "fallback": fallback},
			{"model": "testcard", "prompt": "a fox", "params": map[string]any{"fallback": fallback}},
		}
	}

	for says, fallback := range map[string][]string{
		"fallback names testcard, the job's own model": {"a", "testcard"},
		"fallback names a twice":                       {"a", "a"},
		"fallback names sora-9. There is no model":     {"sora-9"},
		"fallback may name 5 models; it names 1000":    slices.Repeat([]string{"a"}, 1000),
		"fallback names secret. There is no model":     {"secret"},
	} {
		for _, input := range inputs(fallback) {
			got := ask(t, a.url, a.Secrets[access.RoleClient], submit, map[string]any{"input": input})

			require.Equal(t, []string{"INVALID_INPUT"}, got.codes(), says)
			require.Contains(t, got.Errors[0].Message, says)
			require.Less(t, len(got.Errors[0].Message), 500)
		}
	}
	require.Zero(t, a.Count(t, "jobs"))
	for _, input := range inputs([]string{"b", "a"}) {
		job := at[map[string]any](t, a.client(t, submit, map[string]any{"input": input}), "submitJob", "job")
		require.Equal(t, []any{"b", "a"}, job["fallback"])
		require.Equal(t, []any{}, job["routes"])
	}

	for role, want := range map[access.Role][]any{access.RoleClient: {"b"}, access.RoleOperator: {"secret", "b"}} {
		shown := a.as(t, role, `{ model(name: "usual") { fallback } other: model(name: "a") { fallback } }`, nil)
		require.Equal(t, want, at[[]any](t, shown, "model", "fallback"), role)
		require.Equal(t, []any{}, at[[]any](t, shown, "other", "fallback"))
	}
}
