package graph_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/features/pricebook"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/regions"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

// api is the API over a stack of the test's own.
type api struct {
	*jobstest.Stack
	url string
}

func newAPI(t *testing.T) *api {
	t.Helper()
	s := jobstest.New(t)
	return &api{s, serve(t, s)}
}

// serve serves the API over a stack and returns its address.
func serve(t *testing.T, s *jobstest.Stack) string {
	t.Helper()
	server := httptest.NewServer(handler(s))
	t.Cleanup(server.Close)
	return server.URL
}

func handler(s *jobstest.Stack) *graph.API { return handlerWith(s, graph.Options{}) }

func handlerWith(s *jobstest.Stack, options graph.Options) *graph.API {
	options.Base = func(*http.Request) string { return s.Base }
	return graph.New(&graph.Resolver{
		Submitter: s.Submitter, Canceller: s.Canceller, Deleter: s.Deleter, Reads: s.Reads, Watcher: s.Watcher,
		Leaser: s.Leaser, Attempts: s.Attempts, Retrier: s.Retrier, Registrar: s.Registrar, Operator: s.Operator, Registry: s.Registry,
		Fleet: s.Fleet, Pools: s.Pools, Engines: s.Engines, Providers: &hosted.Accounts{DB: s.DB},
		Prices:           &pricebook.Prices{DB: s.DB, Catalogue: s.Registry.Catalogue},
		ProviderWebhooks: &hosted.Webhooks{DB: s.DB}, DeadLetters: s.DeadLetters, Bulk: s.Bulk,
		Keys: s.Keys, Accounts: s.Accounts, Budgets: s.Budgets, Eraser: s.Eraser, Members: s.Members, Webhooks: s.Webhooks, Inputs: s.Inputs, Alerts: s.Alerts, Schedules: s.Schedules,
		Workflows: s.Workflows,
		Examine: func(context.Context) ([]doctor.Finding, error) {
			return []doctor.Finding{{Check: "rehearsed", Level: doctor.LevelAdvice, Holds: "It holds."}}, nil
		},
		Region: func(context.Context) (*region.Report, error) {
			return (&region.Standing{
				Region: "eu", Newest: regions.Promotion{Epoch: 2, Region: "eu"},
				Promotions: []regions.Promotion{{Epoch: 2, Region: "eu", By: "root@db2"}, {Epoch: 1, Region: "us"}},
				Server:     regions.Server{Synchronous: "*", Standbys: []regions.Standby{{Name: "us", State: "sync", BehindBytes: new(int64(1 << 40))}}},
				Peers:      []region.Peer{{Address: "https://api.us", Failure: "it does not answer"}},
			}).Report(), nil
		},
	}, &auth.KeyWatch{Authenticate: s.Keys.Authenticate, Every: 20 * time.Millisecond}, options)
}

// newEndingAPI returns an API whose process ends when restart is called.
func newEndingAPI(t *testing.T) (a *api, restart func()) {
	t.Helper()
	s := jobstest.New(t)
	ctx, end := context.WithCancelCause(t.Context())
	inside := handler(s)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		inside.ServeHTTP(w, r.WithContext(request))
	}))
	t.Cleanup(server.Close)
	return &api{s, server.URL}, func() {
		end(graph.ErrRestart)
		require.NoError(t, inside.Close(t.Context()))
	}
}

type answer struct {
	status int
	header http.Header
	closes bool // whether the response closes the connection
	Data   map[string]any
	Errors []problem
}

type problem struct {
	Message    string
	Path       []any
	Extensions map[string]any
}

func (a answer) codes() []string {
	var codes []string
	for _, e := range a.Errors {
		code, _ := e.Extensions["code"].(string)
		codes = append(codes, code)
	}
	return codes
}

// ask posts a query with a key.
func ask(t *testing.T, url, key, query string, variables map[string]any) answer {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	require.NoError(t, err)
	return send(t, http.MethodPost, url, key, "application/json", body)
}

func send(t *testing.T, method, url, key, contentType string, body []byte) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	require.NoError(t, err)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	a := answer{status: res.StatusCode, header: res.Header, closes: res.Close}
	require.NoError(t, json.Unmarshal(raw, &a), string(raw))
	return a
}

// client asks with the client's key, and expects no errors.
func (a *api) client(t *testing.T, query string, variables map[string]any) map[string]any {
	t.Helper()
	return a.as(t, access.RoleClient, query, variables)
}

func (a *api) as(t *testing.T, role access.Role, query string, variables map[string]any) map[string]any {
	t.Helper()
	got := ask(t, a.url, a.Secrets[role], query, variables)
	require.Empty(t, got.Errors)
	return got.Data
}

// worker registers a worker over the API and returns its id and token.
func (a *api) worker(t *testing.T, instance string) (id, token string) {
	t.Helper()
	data := a.as(t, access.RoleWorker, `mutation ($i: RegisterWorkerInput!) {
		registerWorker(input: $i) { workerToken heartbeatSeconds leaseSeconds worker { id } } }`,
		map[string]any{"i": map[string]any{
			"provider": "static", "providerInstanceId": instance, "region": "local", "gpuType": "any",
			"models": []string{"testcard"}, "warmModels": []string{}, "agentVersion": "test",
		}})
	return at[string](t, data, "registerWorker", "worker", "id"), at[string](t, data, "registerWorker", "workerToken")
}

// at returns a value within an answer.
func at[T any](t *testing.T, value any, path ...any) T {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			object, ok := value.(map[string]any)
			require.True(t, ok, "no object to look for %s in", s)
			value = object[s]
		case int:
			list, ok := value.([]any)
			require.True(t, ok && len(list) > s, "no list of more than %d", s)
			value = list[s]
		}
	}
	found, ok := value.(T)
	require.True(t, ok, "%v holds %v", path, value)
	return found
}
