package graph_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// TestLiteral covers values in the text of a query.
func TestLiteral(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	for query, want := range map[string]struct{ field, expects string }{
		`{ jobs(first: "x") { totalCount } }`:  {"first", `Int cannot represent non-integer value: "x".`},
		`{ jobs(first: 1.5) { totalCount } }`:  {"first", "Int cannot represent non-integer value: 1.5."},
		`{ jobs(filter: "x") { totalCount } }`: {"filter", `Expected value of type "JobFilter", found "x".`},
		`{ jobs(filter: {status: [QUEUED, QUEUE]}) { totalCount } }`: {"filter.status.1",
			`"JobStatus!" enum. Did you mean the enum value "QUEUED"?`},
		`{ job(id: null) { id } }`: {"id", `Expected value of type "ID!", found null.`},
		`{ jobs(first: 1) { edges { node { ...F } } } } fragment F on Job { events(first: "a") { totalCount } }`: {"first",
			"Int cannot represent"},
		`{ jobs @include(if: "x") { totalCount } }`: {"if",
			"Boolean cannot represent a non boolean value"},
		`query ($n: Int = "x") { jobs(first: $n) { totalCount } }`: {"$n", "Int cannot represent"},
		`mutation { submitJob(input: {model: "m", prompt: 5}) { job { id } } }`: {"prompt",
			"String cannot represent a non string value: 5."},
		`mutation { submitJob(input: {prompt: "x"}) { job { id } } }`: {"input",
			`Field "SubmitJobInput.model" of required type "String!" was not provided.`},
		`mutation { submitJobs(inputs: [{model: "m"}, {model: 5}]) { results { job { id } } } }`: {"inputs.1.model",
			"String cannot represent"},
		`subscription { jobEvents(jobId: "x", afterSeq: "y") { seq } }`: {"afterSeq",
			"Int cannot represent"},
	} {
		got := ask(t, a.url, a.Secrets[access.RoleClient], query, nil)
		require.Equal(t, "GRAPHQL_VALIDATION_FAILED", got.codes()[0], query)
		shown := got.Errors[0]
		for _, e := range got.Errors {
			if strings.Contains(e.Message, want.expects) {
				shown = e
			}
		}
		require.Equal(t, want.field, shown.Extensions["field"], "%s: %v", query, got.Errors)
		require.True(t, strings.HasPrefix(shown.Message, "The argument "+want.field+" is not acceptable: "), shown.Message)
		require.Contains(t, shown.Message, want.expects)
	}
	require.Zero(t, a.Count(t, "jobs"))
}
