package graph_test

import (
	"net/http"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// TestSubmitJob_RefusesOddNumbersAndText covers values that decoders and databases interpret
// differently, as literals and as variables.
func TestSubmitJob_RefusesOddNumbersAndText(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	const (
		invalid, malformed, unfit = "INVALID_INPUT", "GRAPHQL_PARSE_FAILED", "GRAPHQL_VALIDATION_FAILED"
		ask                       = `"query": "mutation ($i: SubmitJobInput!) { submitJob(input: $i) { job { id } } }", "variables": {"i": {"model": "testcard", `
	)
	for body, code := range map[string]string{
		`{` + ask + `"prompt": "x", "params": {"durationSeconds": 1e308}}}}`:                                                                invalid,
		`{` + ask + `"prompt": "x", "params": {"durationSeconds": -0.0}}}}`:                                                                 invalid,
		`{` + ask + `"prompt": "x", "params": {"durationSeconds": "NaN"}}}}`:                                                                invalid,
		`{` + ask + `"prompt": "x", "params": {"durationSeconds": NaN}}}}`:                                                                  malformed,
		`{` + ask + `"prompt": "x", "params": {"fps": 1e400}}}}`:                                                                            invalid,
		`{` + ask + `"prompt": "x", "params": {"fps": 9223372036854775808}}}}`:                                                              invalid,
		`{` + ask + `"prompt": "x", "params": {"seed": 9007199254740993}}}}`:                                                                invalid,
		`{` + ask + `"prompt": "x", "params": {"seed": -9223372036854775809}}}}`:                                                            invalid,
		`{` + ask + `"prompt": "x", "priority": 9223372036854775808}}}`:                                                                     invalid,
		`{` + ask + `"prompt": "x", "priority": 1e308}}}`:                                                                                   invalid,
		`{` + ask + `"prompt": "x", "priority": 0.5}}}`:                                                                                     invalid,
		`{` + ask + `"prompt": "x", "timeoutSeconds": 4294967297}}}`:                                                                        invalid,
		`{` + ask + `"prompt": "a\u0000b"}}}`:                                                                                               invalid,
		`{` + ask + `"prompt": "a\ud800b"}}}`:                                                                                               invalid,
		`{` + ask + `"prompt": "a\ufffeb"}}}`:                                                                                               invalid,
		"{" + ask + "\"prompt\": \"a\xffb\"}}}":                                                                                             malformed,
		"{" + ask + "\"prompt\": \"a\xed\xa0\x80b\"}}}":                                                                                     malformed,
		`{"query": "mutation { submitJob(input: {model: \"testcard\", prompt: \"x\", params: {durationSeconds: 1e308}}) { job { id } } }"}`: invalid,
		`{"query": "mutation { submitJob(input: {model: \"testcard\", prompt: \"x\", params: {fps: 1e400}}) { job { id } } }"}`:             unfit,
		`{"query": "mutation { submitJob(input: {model: \"testcard\", prompt: \"x\", params: {fps: NaN}}) { job { id } } }"}`:               invalid,
		`{"query": "mutation { submitJob(input: {model: \"testcard\", prompt: \"x\", priority: 9223372036854775808}) { job { id } } }"}`:    unfit,
		`{"query": "mutation { submitJob(input: {model: \"testcard\", prompt: \"a\\u0000b\"}) { job { id } } }"}`:                           invalid,
		`{"query": "mutation { submitJob(input: {model: \"testcard\", prompt: \"a\\ud800b\"}) { job { id } } }"}`:                           invalid,
		`{"query": "mutation { submitJob(input: {model: \"testcard\", prompt: \"a\\ufffeb\"}) { job { id } } }"}`:                           invalid,
	} {
		got := send(t, http.MethodPost, a.url, a.Secrets[access.RoleClient], "application/json", []byte(body))

		require.NotEmpty(t, got.Errors, body)
		require.Equal(t, code, got.codes()[0], "%s: %v", body, got.Errors)
		require.NotEmpty(t, got.Errors[0].Message)
	}
	require.Zero(t, a.Count(t, "jobs"))
}
