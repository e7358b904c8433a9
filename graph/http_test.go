package graph_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/99designs/gqlgen/graphql/introspection"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// For a client that accepts application/graphql-response+json, the status says whether its
// query ran.
func TestMediaTypes(t *testing.T) {
	t.Parallel()
	address := serveAlone(t)
	const plain, graphql = "application/json", "application/graphql-response+json"

	for name, c := range map[string]struct {
		accept, media, query string
		status               int
	}{
		"nothing asked":             {"", plain, "{ viewer { role } }", 200},
		"anything":                  {"*/*", plain, "{ viewer { role } }", 200},
		"plain":                     {plain, plain, "{ viewer { role } }", 200},
		"plain, not a query":        {plain, plain, "{", 200},
		"plain, not valid":          {plain, plain, "{ nothing }", 200},
		"graphql":                   {graphql, graphql, "{ viewer { role } }", 200},
		"graphql first":             {graphql + ", " + plain + ";q=0.9", graphql, "{ viewer { role } }", 200},
		"graphql, with its charset": {graphql + "; charset=utf-8", graphql, "{ viewer { role } }", 200},
		"graphql, not a query":      {graphql, graphql, "{", 400},
		"graphql, not valid":        {graphql, graphql, "{ nothing }", 400},
		"graphql, too complex":      {graphql, graphql, strings.Repeat("{a", 20) + strings.Repeat("}", 20), 400},
		"graphql, half a character": {graphql, graphql, `{ job(id: "\ud800") { id } }`, 400},
		"graphql, a subscription":   {graphql, graphql, "subscription { jobChanges { id } }", 400},
		"graphql, refused inside":   {graphql, graphql, `mutation { drainWorker(id: "x") { id } }`, 200},
		"plain, not a request":      {plain, plain, "", 400},
		"graphql, not a request":    {graphql, graphql, "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := map[string]string{}
			if c.query != "" {
				request["query"] = c.query
			}
			body, err := json.Marshal(request)
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(string(body)))
			require.NoError(t, err)
			req.Header = http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Authorization": {"Bearer client"}}
			if c.accept != "" {
				req.Header.Set("Accept", c.accept)
			}
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			require.Equal(t, c.status, res.StatusCode)
			require.Equal(t, c.media, res.Header.Get("Content-Type"))
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, !strings.Contains(name, ", not") && c.status == 200, strings.Contains(string(text), `"data":`),
				"of what did not run there is no data: %s", text)
		})
	}
}

func TestPersistedQueries(t *testing.T) {
	t.Parallel()
	address := serveAlone(t)
	const query = "{ viewer { role } }"
	sum := sha256.Sum256([]byte(query))
	hash := hex.EncodeToString(sum[:])
	post := func(t *testing.T, request map[string]any) answer {
		t.Helper()
		body, err := json.Marshal(request)
		require.NoError(t, err)
		return send(t, http.MethodPost, address, "client", "application/json", body)
	}
	said := func(version any, hash any) map[string]any {
		return map[string]any{"persistedQuery": map[string]any{"version": version, "sha256Hash": hash}}
	}

	unknown := post(t, map[string]any{"extensions": said(1, hash)})
	require.Equal(t, []string{"PERSISTED_QUERY_NOT_FOUND"}, unknown.codes())
	require.Equal(t, "PersistedQueryNotFound", unknown.Errors[0].Message)
	require.Empty(t, post(t, map[string]any{"query": query, "extensions": said(1, hash)}).Errors)
	require.Empty(t, post(t, map[string]any{"extensions": said(1, hash)}).Errors)
	raw, err := json.Marshal(said(1, hash))
	require.NoError(t, err)
	byGet := send(t, http.MethodGet, address+"?"+url.Values{"extensions": {string(raw)}}.Encode(), "client", "", nil)
	require.Equal(t, "CLIENT", at[string](t, byGet.Data, "viewer", "role"))

	for name, request := range map[string]map[string]any{
		"another hash":    {"query": "{ viewer { account { id } } }", "extensions": said(1, hash)},
		"another version": {"extensions": said(2, hash)},
		"no hash":         {"query": query, "extensions": said(1, nil)},
		"a short hash":    {"extensions": said(1, "ab")},
		"a list":          {"extensions": map[string]any{"persistedQuery": []int{1}}},
		"a long hash":     {"extensions": said(1, strings.Repeat("a", 1<<16))},
	} {
		require.Equal(t, []string{"INVALID_INPUT"}, post(t, request).codes(), name)
	}
	bomb := strings.Repeat("{a", 20) + strings.Repeat("}", 20)
	sum = sha256.Sum256([]byte(bomb))
	kept := said(1, hex.EncodeToString(sum[:]))
	require.Equal(t, []string{"QUERY_TOO_COMPLEX"}, post(t, map[string]any{"query": bomb, "extensions": kept}).codes())
	require.Equal(t, []string{"QUERY_TOO_COMPLEX"}, post(t, map[string]any{"extensions": kept}).codes(), "limits hold for those, too")
}

func TestHideSchema(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	server := httptest.NewServer(graph.New(&graph.Resolver{Reads: s.Reads}, &auth.KeyWatch{Authenticate: s.Keys.Authenticate},
		graph.Options{HideSchema: true}))
	t.Cleanup(server.Close)
	key := s.Secrets[access.RoleClient]

	for _, query := range []string{introspection.Query, `{ __type(name: "Job") { name } }`} {
		got := ask(t, server.URL, key, query, nil)
		require.NotEmpty(t, got.Errors)
		require.NotContains(t, got.Data, "queryType")
		require.Nil(t, got.Data["__schema"])
		require.Nil(t, got.Data["__type"])
	}
	for _, query := range []string{
		"{ viewer { rol } }", "{ jobs(firs: 1) { totalCount } }", "{ jobs(filter: {status: [QUEUE]}) { totalCount } }",
		"{ jobs(filter: {statu: []}) { totalCount } }", "{ viewer { ... on Viewe { role } } }", "{ viewer }",
	} {
		got := ask(t, server.URL, key, query, nil)
		require.Equal(t, "GRAPHQL_VALIDATION_FAILED", got.codes()[0], query)
		require.NotContains(t, got.Errors[0].Message, "Did you mean", query)
	}
	require.Empty(t, ask(t, server.URL, key, "{ viewer { __typename role } }", nil).Errors)
}

func TestRefusedBodiesEnd(t *testing.T) {
	t.Parallel()
	address := serveAlone(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(strings.Repeat("[", 9<<20)))
	require.NoError(t, err)
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer client"}}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	_, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
}

// A workflow may take more than other requests. Its size must be known before it is read.
func TestLargeBodiesAreRead(t *testing.T) {
	t.Parallel()
	address := serveAlone(t)
	body := `{"query": "{ viewer { role } }"` + strings.Repeat(" ", 3<<20) + "}"
	for status, reader := range map[int]io.Reader{
		http.StatusOK:                    strings.NewReader(body),
		http.StatusRequestEntityTooLarge: io.MultiReader(strings.NewReader(body)), // without a Content-Length
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, reader)
		require.NoError(t, err)
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer client"}}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		_, err = io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, status, res.StatusCode)
	}
}

func TestSlowUploads_DoNotDelayOtherAccounts(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		api := graph.New(&graph.Resolver{}, accountKeys(), graph.Options{Large: httpguard.NewLargeBodies(3, 2, 5*time.Second)})
		post := func(account string, body io.Reader) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", body)
			r.Header = http.Header{"Authorization": {"Bearer " + account}, "Content-Type": {"application/json"}}
			r.ContentLength = 8_000_000
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			return w
		}
		slow, stop := io.Pipe()
		for range 2 {
			go post("slow", slow)
		}
		synctest.Wait()

		refused := post("slow", slow)
		got := post("other", strings.NewReader(`{"query": "{ viewer { role } }"}`))

		require.Equal(t, http.StatusServiceUnavailable, refused.Code, refused.Body)
		require.Equal(t, "2", refused.Header().Get("Retry-After"))
		require.Equal(t, http.StatusOK, got.Code, got.Body)
		require.NoError(t, stop.Close())
	})
}

func TestTwoKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, second := range []string{"Bearer client", "Bearer other", ""} {
		request := httptest.NewRequest(http.MethodGet, "/graphql?query={viewer{role}}", nil)
		request.Header["Authorization"] = []string{"Bearer client", second}
		answer := httptest.NewRecorder()

		graph.New(&graph.Resolver{}, clientKeys(), graph.Options{}).ServeHTTP(answer, request)

		require.Equal(t, http.StatusBadRequest, answer.Code)
		require.Contains(t, answer.Body.String(), "has the header Authorization twice")
	}
}

// A client whose connection seems lost before anything ran gets that error, if it still reads.
func TestCutShort(t *testing.T) {
	t.Parallel()
	gone, end := context.WithCancel(t.Context())
	end()
	request := httptest.NewRequest(http.MethodGet, "/graphql?query={viewer{role}}", nil).WithContext(gone)
	told := httptest.NewRecorder()

	graph.New(&graph.Resolver{}, clientKeys(), graph.Options{}).ServeHTTP(told, request)

	require.Equal(t, http.StatusServiceUnavailable, told.Code)
	require.Contains(t, told.Body.String(), `"UNAVAILABLE"`)
}

// accountKeys accepts the id of an account as the key of its client.
func accountKeys() *auth.KeyWatch {
	return &auth.KeyWatch{Authenticate: func(_ context.Context, secret string) (jobs.Principal, error) {
		return jobs.Principal{AccountID: models.AccountID(secret), Role: access.RoleClient}, nil
	}}
}

// clientKeys accepts any key as a client's.
func clientKeys() *auth.KeyWatch {
	return &auth.KeyWatch{Authenticate: func(context.Context, string) (jobs.Principal, error) {
		return jobs.Principal{Role: access.RoleClient}, nil
	}}
}
