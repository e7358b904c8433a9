package transport

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/stretchr/testify/require"
)

// An accepted request means the same to every decoder, including gqlgen's, which ignores the
// case of names and uses the last of duplicate keys.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"query": "{ viewer { role } }"}`, `{"query": "a", "query": "b"}`, `{"query": "a", "Query": "b"}`,
		`{"query": "a", "variables": {"x": [1, {"y": null}]}}`,
		`{"query": "a", "variables": {}}`, `{"query": "a", "variables": null}`, `{"extensions": {"persistedQuery": {}}}`,
		`{"variables": {"x": {"a": 1, "a": 2}}}`,
		`{"query": "a", "\u0071uery": "b"}`, `{"operationName": null, "extensions": {}}`, `{"variables": []}`, `[{}]`, `null`, "\ufeff{}",
		`{"query": "\ud800"}`, `{} {}`,
		`{"ſ": 1, "variableſ": {"x": 1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", bytes.NewReader(body))
		request.Header.Set("Content-Type", "application/json")

		asked, status, refused := read(request)

		if refused != nil {
			require.Equal(t, http.StatusBadRequest, status)
			require.Less(t, len(refused.Message), 300, "it repeats no long input")
			return
		}
		var exact map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(body, &exact))
		var known graphql.RawParams
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&known))
		require.Equal(t, known.Query, asked.Query)
		require.Equal(t, known.OperationName, asked.OperationName)
		require.Equal(t, known.Variables, asked.Variables)
		require.Equal(t, known.Extensions, asked.Extensions)
		var query string
		if raw, ok := exact["query"]; ok {
			require.NoError(t, json.Unmarshal(raw, &query))
		}
		require.Equal(t, query, known.Query)
		variables := exact["variables"]
		require.Equal(t, len(variables) > 0 && string(variables) != "null", known.Variables != nil, "%s", body)
	})
}
