package rest_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// jwt makes a token like those of other issuers.
func jwt(algorithm, signature string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"`+algorithm+`","typ":"JWT"}`) + "." + part(`{"sub":"client","role":"ADMIN"}`) + "." + part(signature)
}

func TestDoor(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	job := a.Submit(t)
	one := videos + "/" + string(job.ID)
	video := `{"prompt": "x"}`
	h := func(name string, values ...string) http.Header { return http.Header{name: values} }
	for name, c := range map[string]struct {
		method, path, body string
		header             http.Header
		want               string
	}{
		"no key":                       {"GET", one, "", h("Authorization"), "401 UNAUTHENTICATED"},
		"another scheme":               {"GET", one, "", h("Authorization", "Basic "+a.Secrets[access.RoleClient]), "401 UNAUTHENTICATED"},
		"an unknown key":               {"GET", one, "", as("rl_nobody"), "401 UNAUTHENTICATED"},
		"a key of 30 kB":               {"GET", one, "", as("rl_" + strings.Repeat("x", 30_000)), "401 UNAUTHENTICATED"},
		"a JWT without a signature":    {"GET", one, "", as(jwt("none", "")), "401 UNAUTHENTICATED"},
		"a signed JWT":                 {"GET", one, "", as(jwt("HS256", strings.Repeat("s", 32))), "401 UNAUTHENTICATED"},
		"a worker's enrolment key":     {"GET", one, "", as(a.Secrets[access.RoleWorker]), "403 FORBIDDEN"},
		"two keys":                     {"GET", one, "", h("Authorization", "Bearer a", "Bearer b"), "400 INVALID_INPUT Authorization"},
		"a key in the URL":             {"GET", one + "?api_key=x", "", nil, "400 INVALID_INPUT"},
		"a key in the URL by its look": {"GET", one + "?x=rl_abc", "", nil, "400 INVALID_INPUT"},
		"no path":                      {"GET", "/api/", "", nil, "404 NOT_FOUND"},
		"an unknown path":              {"POST", "/api/video", video, nil, "404 NOT_FOUND"},
		"a trailing slash":             {"GET", one + "/", "", nil, "404 NOT_FOUND"},
		"a path to clean":              {"GET", "/api//video-generations/x", "", nil, "404 NOT_FOUND"},
		"a path upwards":               {"GET", one + "/%2e%2e/%2e%2e/healthz", "", nil, "404 NOT_FOUND"},
		"a path of 10 kB":              {"GET", one + strings.Repeat("/x", 5_000), "", nil, "404 NOT_FOUND"},
		"an id of 10 kB":               {"GET", videos + "/" + strings.Repeat("x", 10_000), "", nil, "404 NOT_FOUND"},
		"a NUL in a path":              {"GET", one + "%00", "", nil, "404 NOT_FOUND"},
		"a parameter of a path":        {"GET", one + ";a=b", "", nil, "404 NOT_FOUND"},
		"another method":               {"PUT", one, video, nil, "405 INVALID_INPUT"},
		"an invented method":           {"BREW", one, "", nil, "405 INVALID_INPUT"},
		"another method for a list":    {"DELETE", videos, "", nil, "405 INVALID_INPUT"},
		"a list of jobs, posted to":    {"POST", "/api/v1/models", "{}", nil, "405 INVALID_INPUT"},
		"an estimate, read":            {"GET", videos + "/estimate", "", nil, "405 INVALID_INPUT"},
		"the schedules, deleted":       {"DELETE", "/api/v1/jobs/recurring", "", nil, "405 INVALID_INPUT"},
		"an estimate as a form": {"POST", videos + "/estimate", "prompt=x", h("Content-Type", "application/x-www-form-urlencoded"),
			"415 INVALID_INPUT"},
		"a list as pages":              {"GET", videos, "", h("Accept", "text/html"), "406 INVALID_INPUT"},
		"a list as a stream":           {"GET", "/api/v1/jobs", "", h("Accept", "text/event-stream"), "406 INVALID_INPUT"},
		"a list without a key":         {"GET", "/api/v1/jobs", "", h("Authorization"), "401 UNAUTHENTICATED"},
		"a list for a worker":          {"GET", videos, "", as(a.Secrets[access.RoleWorker]), "403 FORBIDDEN"},
		"models without a key":         {"GET", "/api/v1/models", "", h("Authorization"), "401 UNAUTHENTICATED"},
		"a preflight":                  {"OPTIONS", videos, "", h("Origin", "https://evil.example"), "405 INVALID_INPUT"},
		"an overridden method":         {"GET", one, "", h("X-Http-Method-Override", "DELETE"), "200 "},
		"a method overridden by POST":  {"POST", one, "{}", h("X-Http-Method-Override", "GET"), "405 INVALID_INPUT"},
		"an unknown parameter":         {"GET", one + "?waits=1", "", nil, "422 INVALID_INPUT waits"},
		"a duplicate parameter":        {"GET", one + "?wait=0&wait=1", "", nil, "400 INVALID_INPUT wait"},
		"a broken parameter":           {"GET", one + "?wait=%zz", "", nil, "400 INVALID_INPUT"},
		"an Accept for pages":          {"GET", one, "", h("Accept", "text/html"), "406 INVALID_INPUT"},
		"an Accept for none":           {"GET", one, "", h("Accept", "application/json;q=0"), "406 INVALID_INPUT"},
		"an Accept of browsers":        {"GET", one, "", h("Accept", "text/html,application/xml;q=0.9,*/*;q=0.8"), "200 "},
		"a stream where there is none": {"GET", one, "", h("Accept", "text/event-stream"), "406 INVALID_INPUT"},
		"events as pages":              {"GET", one + "/events", "", h("Accept", "text/html"), "406 INVALID_INPUT"},
		"a form":                       {"POST", videos, "prompt=x", h("Content-Type", "application/x-www-form-urlencoded"), "415 INVALID_INPUT"},
		"no media type":                {"POST", videos, video, h("Content-Type"), "415 INVALID_INPUT"},
		"another charset":              {"POST", videos, video, h("Content-Type", "application/json; charset=latin1"), "415 INVALID_INPUT"},
		"a compressed body":            {"POST", videos, video, h("Content-Encoding", "gzip"), "415 INVALID_INPUT"},
		"a body of over 1 MiB":         {"POST", videos, `{"prompt": "` + strings.Repeat("x", 1<<20) + `"}`, nil, "413 INVALID_INPUT"},
		"no body":                      {"POST", videos, "", nil, "400 INVALID_INPUT"},
		"no JSON":                      {"POST", videos, "prompt", nil, "400 INVALID_INPUT"},
		"a truncated document":         {"POST", videos, `{"prompt": "x"`, nil, "400 INVALID_INPUT"},
		"two documents":                {"POST", videos, video + video, nil, "400 INVALID_INPUT"},
		"a duplicate key":              {"POST", videos, `{"prompt": "x", "prompt": "y"}`, nil, "400 INVALID_INPUT prompt"},
		"a key twice, inside": {"POST", videos, `{"prompt": "x", "metadata": {"a": [{}, {"b": 1, "b": 2}]}}`, nil,
			"400 INVALID_INPUT metadata.a.1.b"},
		"bad UTF-8":                  {"POST", videos, "{\"prompt\": \"\xff\"}", nil, "400 INVALID_INPUT"},
		"half a character":           {"POST", videos, `{"prompt": "\ud83d"}`, nil, "400 INVALID_INPUT"},
		"too deep":                   {"POST", videos, strings.Repeat("[", 100_000), nil, "400 INVALID_INPUT"},
		"a repeated idempotency key": {"POST", videos, video, h("Idempotency-Key", "a", "a"), "400 INVALID_INPUT Idempotency-Key"},
		"two idempotency keys": {"POST", videos, `{"prompt": "x", "idempotency_key": "a"}`, h("Idempotency-Key", "b"),
			"422 INVALID_INPUT idempotency_key"},
		"a long idempotency key": {"POST", videos, video, h("Idempotency-Key", strings.Repeat("k", 256)),
			"422 INVALID_INPUT idempotency_key"},
		"a long unknown field": {"POST", videos, `{"prompt": "x", "` + strings.Repeat("f", 5000) + `": 1}`, nil, "422 INVALID_INPUT " +
			strings.Repeat("f", 64) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := a.ask(t, c.method, c.path, c.body, c.header)

			require.Equal(t, c.want, fmt.Sprint(got.status, " ", got.code()), got.raw)
			require.Less(t, len(got.raw), 1000)
			require.Empty(t, got.header.Get("Access-Control-Allow-Origin"))
			require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
			switch got.status {
			case http.StatusUnauthorized:
				require.Equal(t, "Bearer", got.header.Get("WWW-Authenticate"))
			case http.StatusMethodNotAllowed:
				require.NotEmpty(t, got.header.Get("Allow"))
			}
			require.NotContains(t, got.raw, "rl_abc")
		})
	}
}

func TestSuggestions(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	for name, c := range map[string]struct{ path, body, want string }{
		"a field": {videos, `{"prompt": "x", "modelversion": "testcard"}`,
			`There is no field modelversion here; did you mean "model_version"?`},
		"a field inside": {work, `{"payload": {"prompt": "x"}, "retry_policy": {"max_retrys": 1}}`,
			`retry_policy.max_retrys here; did you mean "max_retries"?`},
		"a field of a node": {"/api/v1/workflows",
			`{"name": "x", "jobs": [{"key": "a", "job": {"modle": "testcard", "payload": {"prompt": "x"}}}]}`, `did you mean "model"?`},
		"a parameter": {work, `{"payload": {"prompt": "x", "durationSecs": 1}}`,
			`Unknown parameter "durationSecs"; did you mean "durationSeconds"?`},
		"a model": {work, `{"model": "tescard", "payload": {"prompt": "x"}}`,
			`There is no model of that name; did you mean "testcard"?`},
		"a value": {work, `{"payload": {"prompt": "x"}, "priority": "hihg"}`,
			`priority must be critical, high, normal or low; did you mean "high"?`},
		"a tier":                 {videos, `{"prompt": "x", "priority_tier": "entreprise"}`, `did you mean "enterprise"?`},
		"a status":               {videos + "?status=cancled", "", `did you mean "cancelled"?`},
		"a parameter of the URL": {work + "?statu=queued", "", `There is no parameter statu here; did you mean "status"?`},
		"nothing that is near":   {work + "?x=queued", "", "/api/openapi.json describes all of them."},
		"a slash at the end":     {work + "/", "", "leave out the slash at its end"},
	} {
		method := http.MethodPost
		if c.body == "" {
			method = http.MethodGet
		}
		got := a.ask(t, method, c.path, c.body, nil)

		require.Contains(t, got.body["detail"], c.want, name)
	}
}

func TestWholeNumbers(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	for body, want := range map[string]int{
		`{"prompt": "x", "max_preemptions": 3.0}`: http.StatusAccepted, `{"prompt": "x", "max_preemptions": 3e0}`: http.StatusAccepted,
		`{"prompt": "x", "max_preemptions": 3.5}`: http.StatusUnprocessableEntity,
	} {
		require.Equal(t, want, a.post(t, videos, json.RawMessage(body)).status, body)
	}
}

func TestEmptyParameters(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	for query, field := range map[string]string{
		"created_after=": "created_after", "created_before=": "created_before", "limit=": "limit",
	} {
		got := a.get(t, videos+"?"+query)
		require.Equal(t, "422 INVALID_INPUT "+field, fmt.Sprint(got.status, " ", got.code()))
	}
	require.Equal(t, http.StatusOK, a.get(t, videos+"?search=&model=&status=&after=&user_id=").status, "none of them narrows the list")
	recurring := map[string]any{"every_seconds": 60, "payload": map[string]any{"prompt": "x"}}
	for _, name := range []string{"name", "timezone", "cron_expression"} {
		recurring[name] = ""
		require.Equal(t, "INVALID_INPUT "+name, a.post(t, "/api/v1/jobs/recurring", recurring).code())
		recurring[name] = nil
	}
	require.Equal(t, http.StatusCreated, a.post(t, "/api/v1/jobs/recurring", recurring).status, "null is the same as no field")
}

func TestDeletedJob(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	created := a.post(t, videos, map[string]any{"prompt": "x", "idempotency_key": "k"})
	id := models.JobID(created.body["job_id"].(string))
	require.Nil(t, created.body["deleted_at"])
	require.Equal(t, http.StatusOK, a.ask(t, http.MethodDelete, videos+"/"+string(id), "", nil).status)

	_, err := a.Deleter.Delete(t.Context(), a.Client, id)

	require.NoError(t, err)
	for _, path := range []string{videos, work} {
		require.NotEmpty(t, a.get(t, path+"/"+string(id)).body["deleted_at"], path)
	}
	require.NotEmpty(t, a.post(t, videos, map[string]any{"prompt": "x", "idempotency_key": "k"}).body["deleted_at"],
		"the key returns the deleted job")
}

func TestNeedlessBody(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	for path, want := range map[string]string{videos: "400 INVALID_INPUT", "/api/v1/inputs": "405 INVALID_INPUT",
		"/api/nowhere": "404 NOT_FOUND"} {
		got := a.ask(t, http.MethodGet, path, "{}", nil)
		require.Equal(t, want, fmt.Sprint(got.status, " ", got.code()), got.raw)
	}
}

func TestHead(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	job := a.Submit(t)

	got := a.ask(t, http.MethodHead, videos+"/"+string(job.ID), "", nil)

	require.Equal(t, http.StatusOK, got.status)
	require.Empty(t, got.raw)
	require.NotEmpty(t, got.header.Get("ETag"))
	for _, path := range []string{videos, work, "/api/v1/models"} {
		got := a.ask(t, http.MethodHead, path, "", nil)
		require.Equal(t, http.StatusOK, got.status)
		require.Empty(t, got.raw)
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	job := a.Submit(t)
	require.NoError(t, a.DB.Close())

	res := a.request(t, http.MethodGet, videos+"/"+string(job.ID), "", nil)
	raw, err := io.ReadAll(res.Body)

	require.NoError(t, err)
	require.GreaterOrEqual(t, res.StatusCode, 500)
	require.NotContains(t, string(raw), "sql")
	require.NotContains(t, string(raw), "closed")
}
