package graph_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql/introspection"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// serveAlone serves the API without a domain, for tests of what is decided before a resolver
// runs.
func serveAlone(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(graph.New(&graph.Resolver{Reads: &query.Reads{Shares: query.NewShares(4, 4)}},
		&auth.KeyWatch{Authenticate: func(_ context.Context, secret string) (jobs.Principal, error) {
			switch secret {
			case "client":
				return jobs.Principal{Role: access.RoleClient}, nil
			case "worker":
				return jobs.Principal{Role: access.RoleWorker}, nil
			case "outage":
				return jobs.Principal{}, fmt.Errorf("look up the key: %w", &net.OpError{Op: "dial", Err: errors.New("refused")})
			case "bug":
				return jobs.Principal{}, errors.New("relation api_keys does not exist")
			}
			return jobs.Principal{}, apierror.ErrUnauthenticated
		}}, graph.Options{Shared: func(origin string) bool { return origin == "https://app.example.com" },
			Large: httpguard.NewLargeBodies(2, 2, testrun.WaitLimit)}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestServeHTTP(t *testing.T) {
	t.Parallel()
	address := serveAlone(t)
	const fine = `{"query": "{ viewer { role } }"}`

	for name, c := range map[string]struct {
		method, key, media, body string
		query                    url.Values
		rawQuery                 string
		status                   int
		code                     string
	}{
		"AnswersAQuery":      {body: fine, status: 200},
		"AnswersAQueryByGET": {method: "GET", query: url.Values{"query": {"{ viewer { role } }"}}, status: 200},
		"RefusesAKeyInTheURL": {key: "-", query: url.Values{"access_token": {"client"}}, body: fine, status: 400,
			code: "INVALID_INPUT"},
		"RefusesASecretInTheURL":         {query: url.Values{"x": {"rlw_1"}}, body: fine, status: 400, code: "INVALID_INPUT"},
		"RefusesAMissingKey":             {key: "-", body: fine, status: 401, code: "UNAUTHENTICATED"},
		"RefusesAnUnknownKey":            {key: "rl_unknown", body: fine, status: 401, code: "UNAUTHENTICATED"},
		"ReportsThatKeysCannotBeChecked": {key: "outage", body: fine, status: 503, code: "UNAVAILABLE"},
		"HidesInternalErrors":            {key: "bug", body: fine, status: 500, code: "INTERNAL"},
		"RefusesLargeBodies":             {body: strings.Repeat("[", 9<<20), status: 413, code: "INVALID_INPUT"},
		"RefusesForms":                   {media: "application/x-www-form-urlencoded", body: "query=x", status: 415, code: "INVALID_INPUT"},
		"RefusesMultipart": {media: "multipart/form-data; boundary=b",
			body: "--b\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n" + fine + "\r\n--b--\r\n", status: 415, code: "INVALID_INPUT"},
		"RefusesPlainText":     {media: "text/plain", body: fine, status: 415, code: "INVALID_INPUT"},
		"RefusesOtherMethods":  {method: "PUT", body: fine, status: 405, code: "INVALID_INPUT"},
		"RefusesAnEmptyBody":   {body: "", status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesNull":          {body: "null", status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesTruncatedJSON": {body: `{"query": "{ view`, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesTwoBodies":     {body: fine + fine, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesNaN": {body: `{"query": "{ viewer { role } }", "variables": {"x": NaN}}`, status: 400,
			code: "GRAPHQL_PARSE_FAILED"},
		"RefusesAQueryThatIsNotAString": {body: `{"query": 5}`, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesBatches":                {body: "[" + fine + "]", status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesADuplicateKey": {body: `{"query": "{ viewer { role } }", "query": "{ models { name } }"}`, status: 400,
			code: "GRAPHQL_PARSE_FAILED"},
		"RefusesADuplicateVariable": {body: `{"query": "{ viewer { role } }", "variables": {"x": {"a": 1, "\u0061": 2}}}`, status: 400,
			code: "GRAPHQL_PARSE_FAILED"},
		"RefusesAKeyInAnotherCase": {body: `{"query": "{ viewer { role } }", "Query": "{ models { name } }"}`, status: 400,
			code: "GRAPHQL_PARSE_FAILED"},
		"RefusesJSONThatIsTooDeep": {body: `{"query": "{ viewer { role } }", "variables": ` + strings.Repeat(`{"a":`, 10_001) + "1" +
			strings.Repeat("}", 10_001) + "}", status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesAByteOrderMark":        {body: "\ufeff" + fine, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesUTF16":                 {body: "{\x00\"\x00q\x00", status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesVariablesThatAreAList": {body: `{"query": "{ viewer { role } }", "variables": []}`, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesABodyWithoutAQuery":    {body: `{}`, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesNullForAQuery":         {body: `{"query": null, "variables": {}}`, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesANullForAHash":         {body: `{"extensions": {"persistedQuery": null}}`, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesATruncatedEscapeByGET": {method: "GET", rawQuery: "query={viewer{role}}&operationName=%zz", status: 400,
			code: "GRAPHQL_PARSE_FAILED"},
		"RefusesASemicolonByGET": {method: "GET", rawQuery: "query={viewer{role}}&variables={%22a%22:%22b;c%22}", status: 400,
			code: "GRAPHQL_PARSE_FAILED"},
		"RefusesAnEmptyGET":        {method: "GET", status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesAMissingHashByGET": {method: "GET", query: url.Values{"extensions": {"{}"}}, status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"AcceptsNullAsAbsent":      {body: `{"query": "{ viewer { role } }", "variables": null, "operationName": null, "extensions": null, "other": 1}`, status: 200},
		"RefusesADuplicateKeyByGET": {method: "GET", query: url.Values{"query": {"{ viewer { role } }", "{ models { name } }"}}, status: 400,
			code: "GRAPHQL_PARSE_FAILED"},
		"RefusesADuplicateVariableByGET": {
			method: "GET", query: url.Values{"query": {"{ viewer { role } }"}, "variables": {`{"a": 1, "a": 2}`}}, status: 400,
			code: "GRAPHQL_PARSE_FAILED",
		},
		"RefusesInvalidUTF8":    {body: "{\"query\": \"{ viewer { role } } # \xff\"}", status: 400, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesHalfACharacter": {body: `{"query": "{ viewer { role } }", "variables": {"p": "\ud800"}}`, status: 400, code: "INVALID_INPUT"},
		"RefusesHalfACharacterInAQuery": {
			body: `{"query": "{ job(id: \"\\ud800\") { id } }"}`, status: 200, code: "INVALID_INPUT",
		},
		"AcceptsACompleteCharacter": {body: `{"query": "{ viewer { role } }", "variables": {"p": "\ud83c\udfac \\ud800"}}`, status: 200},
		"RefusesAMutationByGET": {method: "GET", query: url.Values{"query": {`mutation { cancelJob(id: "x") { id } }`}}, status: 405,
			code: "GRAPHQL_VALIDATION_FAILED"},
		"RefusesInvalidVariablesByGET": {
			method: "GET", query: url.Values{"query": {"{ viewer { role } }"}, "variables": {"["}}, status: 400, code: "GRAPHQL_PARSE_FAILED",
		},
		"RefusesASubscription": {body: `{"query": "subscription { jobChanges { id } }"}`, status: 200, code: "GRAPHQL_VALIDATION_FAILED"},
		"RefusesASubscriptionByGET": {method: "GET", query: url.Values{"query": {"subscription { jobChanges { id } }"}}, status: 200,
			code: "GRAPHQL_VALIDATION_FAILED"},
		"RefusesAnInvalidQuery": {body: `{"query": "{ viewer"}`, status: 200, code: "GRAPHQL_PARSE_FAILED"},
		"RefusesToGuessTheOperation": {
			body: `{"query": "query a { viewer { role } } query b { viewer { role } }"}`, status: 200, code: "GRAPHQL_VALIDATION_FAILED",
		},
		"RefusesAnUnknownOperation": {
			body: `{"query": "query a { viewer { role } }", "operationName": "b"}`, status: 200, code: "GRAPHQL_VALIDATION_FAILED",
		},
		"RefusesToDefer": {body: `{"query": "{ viewer { role } ... @defer { models { name } } }"}`, status: 200,
			code: "GRAPHQL_VALIDATION_FAILED"},
		"RefusesUnknownFields": {body: `{"query": "{ viewr { role } }"}`, status: 200, code: "GRAPHQL_VALIDATION_FAILED"},
		"RefusesTooManyTokens": {body: `{"query": "{` + strings.Repeat(" viewer { role }", 600) + `}"}`, status: 200,
			code: "GRAPHQL_PARSE_FAILED"},
		"RefusesAnUnknownEnum": {body: `{"query": "{ jobs(filter: {status: [DONE]}) { totalCount } }"}`, status: 200,
			code: "GRAPHQL_VALIDATION_FAILED"},
		"RefusesOversizedInts":   {body: `{"query": "{ jobs(first: 2147483648) { totalCount } }"}`, status: 200, code: "INVALID_INPUT"},
		"RefusesAWrongRole":      {key: "worker", body: `{"query": "{ models { name } }"}`, status: 200, code: "FORBIDDEN"},
		"RefusesAClientAsWorker": {body: `{"query": "mutation { deregisterWorker(workerId: \"x\") { id } }"}`, status: 200, code: "FORBIDDEN"},
		"SurvivesAPanic":         {body: `{"query": "{ jobs { edges { node { id } } } }"}`, status: 200, code: "INTERNAL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			method, key, media := c.method, c.key, c.media
			if method == "" {
				method = http.MethodPost
			}
			if media == "" {
				media = "application/json"
			}
			if key == "" {
				key = "client"
			}
			got := send(t, method, address+"?"+cmp.Or(c.rawQuery, c.query.Encode()), strings.Trim(key, "-"), media, []byte(c.body))

			require.Equal(t, c.status, got.status)
			if c.code == "" {
				require.Empty(t, got.Errors)
				require.Equal(t, "CLIENT", at[string](t, got.Data, "viewer", "role"))
				return
			}
			require.Equal(t, []string{c.code}, got.codes())
			require.NotContains(t, got.Errors[0].Message, "relation", "what went wrong inside stays inside")
			if c.code == "INTERNAL" {
				require.NotEmpty(t, got.Errors[0].Extensions["requestId"])
			}
		})
	}

	t.Run("NamesTheInvalidArgument", func(t *testing.T) {
		t.Parallel()

		got := ask(t, address, "client", `query ($f: JobFilter) { jobs(filter: $f) { totalCount } }`,
			map[string]any{"f": map[string]any{"createdAfter": "yesterday"}})

		require.Equal(t, []string{"INVALID_INPUT"}, got.codes())
		require.Equal(t, "filter.createdAfter", got.Errors[0].Extensions["field"])
		require.Contains(t, got.Errors[0].Message, "filter.createdAfter must be a time")
		for query, field := range map[string]string{
			"{ jobs(first: 2147483648) { totalCount } }":                                                                       "first",
			`mutation { submitJob(input: {model: "m", priority: 2147483648}) { deduplicated } }`:                               "priority",
			`mutation { submitJobs(inputs: [{model: "a"}, {model: "b", priority: 2147483648}]) { results { deduplicated } } }`: "inputs.1.priority",
		} {
			got := ask(t, address, "client", query, nil)

			require.Equal(t, []string{"INVALID_INPUT"}, got.codes(), query)
			require.Equal(t, field, got.Errors[0].Extensions["field"], query)
			require.Contains(t, got.Errors[0].Message, field+" must be a whole number")
		}
	})

	t.Run("NamesADuplicateKey", func(t *testing.T) {
		t.Parallel()

		got := send(t, http.MethodPost, address, "client", "application/json",
			[]byte(`{"query": "mutation ($input: SubmitJobInput!) { submitJob(input: $input) { deduplicated } }", "variables": {"input": {"metadata": {"a": 1, "a": 2}}}}`))

		require.Equal(t, []string{"GRAPHQL_PARSE_FAILED"}, got.codes())
		require.Equal(t, "input.metadata.a", got.Errors[0].Extensions["field"])
	})
}

// A variable's value must have the kind that GraphQL gives it, like a literal.
func TestVariables(t *testing.T) {
	t.Parallel()
	address := serveAlone(t)
	const submitAs, jobs, job = "mutation ($x: SubmitJobInput!) { submitJob(input: $x) { deduplicated } }",
		"query ($x: JobFilter) { jobs(filter: $x) { totalCount } }", "query ($x: ID!) { job(id: $x) { id } }"

	for name, c := range map[string]struct{ query, value, field string }{
		"a number for a string":       {submitAs, `{"model": 5, "idempotencyKey": "k"}`, "x.model"},
		"a boolean for a string":      {submitAs, `{"model": "m", "idempotencyKey": true}`, "x.idempotencyKey"},
		"an object for a string":      {submitAs, `{"model": {}, "idempotencyKey": "k"}`, "x.model"},
		"a list for a string":         {submitAs, `{"model": ["m"], "idempotencyKey": "k"}`, "x.model"},
		"a number for an enum":        {submitAs, `{"model": "m", "idempotencyKey": "k", "tier": 1}`, "x.tier"},
		"an enum in another case":     {submitAs, `{"model": "m", "idempotencyKey": "k", "tier": "pro"}`, "x.tier"},
		"an unknown enum value":       {submitAs, `{"model": "m", "idempotencyKey": "k", "tier": "BEST"}`, "x.tier"},
		"an enum in a list":           {jobs, `{"status": ["QUEUED", "queued"]}`, "x.status.1"},
		"a single value for a list":   {jobs, `{"status": "queued"}`, "x.status"},
		"a fraction for an id":        {job, `1.5`, "x"},
		"an integer of 33 bits":       {submitAs, `{"model": "m", "priority": 2147483648}`, "x.priority"},
		"a fraction for an integer":   {submitAs, `{"model": "m", "priority": 0.5}`, "x.priority"},
		"a string for an integer":     {submitAs, `{"model": "m", "priority": "5"}`, "x.priority"},
		"a number beyond doubles":     {submitAs, `{"model": "m", "retry": {"initialDelaySeconds": 1e400}}`, "x.retry.initialDelaySeconds"},
		"a boolean for an id":         {job, `true`, "x"},
		"a number for a string alone": {"query ($x: String) { jobs(after: $x) { totalCount } }", `5`, "x"},
	} {
		got := send(t, http.MethodPost, address, "client", "application/json", []byte(`{"query": "`+c.query+`", "variables": {"x": `+c.value+
			`}}`))

		require.Equal(t, []string{"INVALID_INPUT"}, got.codes(), name)
		require.Equal(t, c.field, got.Errors[0].Extensions["field"], name)
		require.Contains(t, got.Errors[0].Message, "$"+c.field+" must be ", name)
	}
	for name, c := range map[string]struct{ query, value, field string }{
		"an unknown field":         {submitAs, `{"model": "m", "` + strings.Repeat("n", 5000) + `": 1}`, "x." + strings.Repeat("n", 62)},
		"a missing required value": {submitAs, `{}`, "x.model"},
		"a string for an object":   {submitAs, `"m"`, "x"},
	} {
		got := send(t, http.MethodPost, address, "client", "application/json", []byte(`{"query": "`+c.query+`", "variables": {"x": `+c.value+
			`}}`))

		require.Equal(t, []string{"GRAPHQL_VALIDATION_FAILED"}, got.codes(), name)
		require.Equal(t, c.field, got.Errors[0].Extensions["field"], name)
		require.Contains(t, got.Errors[0].Message, "$"+c.field+" is not acceptable: ", name)
	}
	for name, c := range map[string]struct{ query, value, code string }{
		"a whole number for an id": {job, `5`, "NOT_FOUND"},
		"an id":                    {job, `"x"`, "NOT_FOUND"},
		"one for a list":           {jobs, `{"status": "QUEUED"}`, "INTERNAL"},
		"null":                     {jobs, `null`, "INTERNAL"},
	} {
		got := send(t, http.MethodPost, address, "client", "application/json", []byte(`{"query": "`+c.query+`", "variables": {"x": `+c.value+
			`}}`))

		require.Equal(t, []string{c.code}, got.codes(), "%s: it comes to the domain, which has no database", name)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	address := serveAlone(t)

	t.Run("AllowIntrospection", func(t *testing.T) {
		t.Parallel()

		got := ask(t, address, "client", introspection.Query, nil)

		require.Empty(t, got.Errors)
	})

	t.Run("RefuseDeepQueries", func(t *testing.T) {
		t.Parallel()

		query := strings.Repeat("attempts { worker { currentJob { ", 6) + "id" + strings.Repeat(" } } }", 6)

		got := ask(t, address, "client", `{ job(id: "x") { `+query+" } }", nil)

		require.Equal(t, []string{"QUERY_TOO_COMPLEX"}, got.codes())
	})

	t.Run("RefuseOversizedAnswers", func(t *testing.T) {
		t.Parallel()

		const page = "edges { node { seq type payload createdAt } }"

		literal := ask(t, address, "client", "{ jobs(first: 200) { edges { node { events(first: 200) { "+page+" } } } } }", nil)
		variable := ask(t, address, "client",
			"query($n: Int) { jobs(first: $n) { edges { node { events(first: $n) { "+page+" } } } } }", map[string]any{"n": 200})

		require.Equal(t, []string{"QUERY_TOO_COMPLEX"}, literal.codes())
		require.Equal(t, []string{"QUERY_TOO_COMPLEX"}, variable.codes())
	})

	t.Run("RefuseFragmentBombsQuickly", func(t *testing.T) {
		t.Parallel()

		var query strings.Builder
		query.WriteString(`{ job(id: "x") { ...F0 } }`)
		for i := range 60 {
			fmt.Fprintf(&query, " fragment F%d on Job { a: account { id } ...F%d ...F%d }", i, i+1, i+1)
		}
		query.WriteString(" fragment F60 on Job { id }")

		got := ask(t, address, "client", query.String(), nil)

		require.Equal(t, []string{"QUERY_TOO_COMPLEX"}, got.codes())
	})
}
