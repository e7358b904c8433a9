package graph_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestMachine(t *testing.T) {
	t.Parallel()

	const good, late, forged = "eyJgood.e.s", "eyJlate.e.s", "eyJforged.e.s"
	s := jobstest.New(t)
	asked := 0
	server := httptest.NewServer(handlerWith(s, graph.Options{Machines: func(_ context.Context, token string) (*jobs.Machine, error) {
		asked++
		switch token {
		case late:
			return nil, apierror.Later(apierror.CodeUnavailable, 10*time.Second, "The keys cannot be read now.")
		case forged:
			return nil, apierror.New(apierror.CodeUnauthenticated, "This identity token is forged.")
		}
		return &jobs.Machine{Provider: "gce", Project: "p", Zone: "us-central1-a", ID: "1", Name: "spot-1", Token: []byte(token),
			Expires: time.Now().Add(time.Hour)}, nil
	}}))
	t.Cleanup(server.Close)
	pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
		Name: "spot", Provider: "gce", Region: "us-central1", GPUType: "L4", CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
		MaxWorkers: 4, BootLimitSeconds: 600,
	}}
	require.NoError(t, capacity.InsertPool(t.Context(), s.DB, pool))
	const register = `mutation ($i: RegisterWorkerInput!) { registerWorker(input: $i) { workerToken worker { id zone } } }`
	values := map[string]any{
		"provider": "gce", "providerInstanceId": "spot-1", "poolId": pool.ID, "region": "us-central1", "gpuType": "L4",
		"models": []string{"testcard"}, "agentVersion": "test",
	}
	input := map[string]any{"i": values}

	for name, query := range map[string]string{
		"a query":           `{ viewer { role } }`,
		"the schema":        `{ __schema { types { name } } }`,
		"a type name":       `mutation { __typename }`,
		"a lease":           `mutation { leaseJob(input: {workerId: "wrk_1"}) { lease { attemptId } } }`,
		"a submit":          `mutation { submitJob(input: {model: "testcard", prompt: "x"}) { job { id } } }`,
		"another name":      `mutation ($i: RegisterWorkerInput!) { registerWorker: drainSelf(workerId: "wrk_1", reason: "x") { id } }`,
		"two registrations": `mutation ($i: RegisterWorkerInput!) { a: registerWorker(input: $i) { workerToken } b: registerWorker(input: $i) { workerToken } }`,
		"a fragment":        `mutation ($i: RegisterWorkerInput!) { ... on Mutation { registerWorker(input: $i) { workerToken } leaseJob(input: {workerId: "wrk_1"}) { lease { attemptId } } } }`,
		"a subscription":    `subscription { workerDirectives(workerId: "wrk_1") { action } }`,
	} {
		got := ask(t, server.URL, good, query, input)
		require.Empty(t, got.Data, name)
		require.NotEmpty(t, got.Errors, name)
	}

	got := ask(t, server.URL, good, `{ __schema { types { name } } }`, nil)
	require.Equal(t, []string{"FORBIDDEN"}, got.codes())
	got = ask(t, server.URL, forged, register, input)
	require.Equal(t, http.StatusUnauthorized, got.status)
	require.Equal(t, "This identity token is forged.", got.Errors[0].Message)
	got = ask(t, server.URL, late, register, input)
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "10", got.header.Get("Retry-After"))

	got = ask(t, server.URL, good, register, input)
	require.Empty(t, got.Errors)
	require.Equal(t, "us-central1-a", at[string](t, got.Data, "registerWorker", "worker", "zone"))
	require.NotEmpty(t, at[string](t, got.Data, "registerWorker", "workerToken"))
	got = ask(t, server.URL, good, register, input)
	require.Equal(t, []string{"UNAUTHENTICATED"}, got.codes(), "a token registers once")

	for name, try := range map[string]struct {
		token, header string
		status        int
		codes         []string
	}{
		"a forged token":           {forged, "", http.StatusUnauthorized, []string{"UNAUTHENTICATED"}},
		"keys that cannot be read": {late, "", http.StatusServiceUnavailable, []string{"UNAVAILABLE"}},
		"no token":                 {"", "", http.StatusUnauthorized, []string{"UNAUTHENTICATED"}},
		"no form of a token":       {"eyJ" + strings.Repeat("x", 9000) + ".e.s", "", http.StatusUnauthorized, []string{"UNAUTHENTICATED"}},
		"a body that is too large": {good + strings.Repeat(" ", 64<<10), "", http.StatusUnauthorized, []string{"UNAUTHENTICATED"}},
		"another text":             {"see " + good, "", http.StatusOK, []string{"UNAUTHENTICATED"}},
		"another header":           {forged, good, http.StatusOK, []string{"INVALID_INPUT"}},
		"a key and a forged token": {forged, s.Secrets[access.RoleWorker], http.StatusOK, []string{"UNAUTHENTICATED"}},
		"a key and no token":       {"rl_live_x", s.Secrets[access.RoleWorker], http.StatusOK, []string{"UNAUTHENTICATED"}},
		"another role":             {good, s.Secrets[access.RoleClient], http.StatusOK, []string{"FORBIDDEN"}},
	} {
		values["identityToken"] = try.token
		got := ask(t, server.URL, try.header, register, input)
		require.Equal(t, try.status, got.status, name)
		require.Equal(t, try.codes, got.codes(), name)
		require.NotContains(t, got.Errors[0].Message, "eyJ", name)
	}
	for name, try := range map[string]struct{ token, header string }{
		"without a header": {"eyJfield.e.s", ""}, "as in the header": {"eyJsame.e.s", "eyJsame.e.s"},
		"with a key": {"eyJkeyed.e.s", s.Secrets[access.RoleWorker]},
	} {
		values["identityToken"] = try.token
		got := ask(t, server.URL, try.header, register, input)
		require.Empty(t, got.Errors, name)
		require.NotEmpty(t, at[string](t, got.Data, "registerWorker", "workerToken"), name)
	}
	literal := `mutation { registerWorker(input: {provider: "gce", providerInstanceId: "spot-1", poolId: "` + string(pool.ID) +
		`", region: "us-central1", gpuType: "L4", models: ["testcard"], agentVersion: "test", identityToken: "eyJliteral.e.s"}) { workerToken } }`
	got = ask(t, server.URL, "", literal, nil)
	require.Empty(t, got.Errors)
	token := at[string](t, got.Data, "registerWorker", "workerToken")
	got = ask(t, server.URL, "", `{ viewer { role } } # identityToken eyJviewer.e.s`, nil)
	require.Equal(t, []string{"FORBIDDEN"}, got.codes())

	before := asked
	s.Submit(t)
	a := &api{s, server.URL}
	lease := ask(t, a.url, token, `mutation ($i: LeaseJobInput!) { leaseJob(input: $i) { lease { attemptId } } }`,
		map[string]any{"i": map[string]any{"workerId": workerOf(t, s, token), "waitSeconds": 5}})
	require.Empty(t, lease.Errors)
	require.NotNil(t, at[map[string]any](t, lease.Data, "leaseJob", "lease"))
	require.Equal(t, before, asked, "a registered worker needs no verifier")
	plain := httptest.NewServer(handler(s))
	t.Cleanup(plain.Close)
	got = ask(t, plain.URL, good, register, input)
	require.Equal(t, http.StatusUnauthorized, got.status, "it is off")
}

func workerOf(t *testing.T, s *jobstest.Stack, token string) string {
	t.Helper()
	p, err := s.Keys.Authenticate(t.Context(), token)
	require.NoError(t, err)
	return string(p.WorkerID)
}
