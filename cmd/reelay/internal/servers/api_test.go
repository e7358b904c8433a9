package servers

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
)

func TestHandler(t *testing.T) {
	t.Parallel()
	s := newStrained(t)
	account := jobs.NewAccount("house", models.TierCritical)
	require.NoError(t, models.InsertAccount(t.Context(), s.db, account))
	keys := map[access.Role]string{}
	for _, role := range []access.Role{access.RoleClient, access.RoleOperator, access.RoleWorker} {
		_, secret, err := s.keys().Create(t.Context(), jobs.Host, auth.NewKey{AccountID: account.ID, Role: role, Name: "test"})
		require.NoError(t, err)
		keys[role] = secret
	}
	handler := s.handler("http://127.0.0.1:8080")
	get := func(path, key string) *http.Response {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if key != "" {
			request.Header.Set("Authorization", "Bearer "+key)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		return answer.Result()
	}

	t.Run("ServesMetricsOnlyToOperatorsUnlessTheyAreOpen", func(t *testing.T) {
		for key, status := range map[string]int{
			"": http.StatusUnauthorized, "rl_live_x": http.StatusUnauthorized,
			keys[access.RoleClient]: http.StatusForbidden, keys[access.RoleWorker]: http.StatusForbidden, keys[access.RoleOperator]: http.StatusOK,
		} {
			answer := get("/metrics", key)

			require.Equal(t, status, answer.StatusCode)
			body, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.Equal(t, status == http.StatusOK, strings.Contains(string(body), "go_goroutines"))
		}
		require.Equal(t, "Bearer", get("/metrics", "").Header.Get("WWW-Authenticate"))

		unlocked := *s.stack
		unlocked.cfg.MetricsOpen = true
		handler = unlocked.handler("http://127.0.0.1:8080")
		require.Equal(t, http.StatusOK, get("/metrics", "").StatusCode)
	})

	// Programs do not read pages, and do not follow a redirect with their key.
	t.Run("AnswersUncleanPathsInTheirAPIsFormat", func(t *testing.T) {
		for path, media := range map[string]string{
			"//api/v1/jobs": "application/problem+json", "/api/v1/../x": "application/problem+json", "/api//v1/jobs": "application/problem+json",
			"/api/../healthz": "application/problem+json", "/api/v1/%2e%2e/%2e%2e/healthz": "application/problem+json",
			"/api":             "application/problem+json",
			"/api/v1/jobs/%00": "application/problem+json", "/api/v1/jobs/;a=b": "application/problem+json",
			"/api/./v1/jobs": "application/problem+json",
			"//v1/videos":    "application/json", "/v1/videos//": "application/json", "/v1/../v1/videos": "application/json",
			"/v1": "application/json", "/api/v2/": "application/json", "/api/v2/jobs//": "application/json", "/comfy/x": "application/json",
		} {
			answer := get(path, keys[access.RoleClient])

			require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
			require.Equal(t, media, answer.Header.Get("Content-Type"), path)
			require.NoError(t, json.NewDecoder(answer.Body).Decode(&map[string]any{}), path)
		}
	})

	t.Run("ServesTheRESTAPIsDocumentation", func(t *testing.T) {
		page, document := get("/api/docs", ""), get("/api/openapi.json", "")

		require.Equal(t, http.StatusOK, page.StatusCode)
		require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
		require.Equal(t, http.StatusOK, document.StatusCode)
		require.Equal(t, http.StatusNotFound, get("/api/docs/", "").StatusCode)
	})

	t.Run("AnswersOnlyToItsConfiguredHosts", func(t *testing.T) {
		named := *s.stack
		named.cfg.Hosts = front.Hosts{"reelay.example"}
		handler := named.handler("http://127.0.0.1:8080")
		for _, path := range []string{"/", "/login", "/graphql", "/api/queue/stats", "/v1/videos", "/objects/x", "/metrics",
			"/static/console.css"} {
			for host, refused := range map[string]bool{"reelay.example": false, "127.0.0.1:8080": false, "evil.example": true} {
				request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				request.Host = host
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, request)

				require.Equal(t, refused, answer.Code == http.StatusMisdirectedRequest, "%s of %s: %d", path, host, answer.Code)
			}
		}
	})

	t.Run("RefusesWebhooksToItself", func(t *testing.T) {
		for _, path := range []string{"/graphql", "/api/v1/videos", "/v1/videos", "/api/v2/jobs"} {
			request := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
			request.Header.Set("User-Agent", webhook.UserAgent)
			request.Header.Set("Webhook-Id", "msg_1")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)

			require.Equal(t, http.StatusLoopDetected, answer.Code, path)
		}
	})

	t.Run("DoesNotCallItself", func(t *testing.T) {
		cfg := s.cfg
		cfg.Outbound.AllowLoopback = true
		cfg.Own = []string{"[::]:9998"}
		own, err := openStack(t.Context(), cfg, "https://reelay.example")
		require.NoError(t, err)
		defer own.Close()
		caller := jobs.Principal{Role: access.RoleClient, AccountID: account.ID}

		_, _, err = own.webhooks().CreateEndpoint(t.Context(), caller, "https://Reelay.example:443/graphql", webhooks.FormatStandard, nil)
		require.ErrorContains(t, err, "leads to Reelay itself")
		params := json.RawMessage(`{"referenceImage": "https://reelay.example/objects/a.png"}`)
		_, _, err = own.submitter().Submit(t.Context(), caller, submit.Submission{Model: "testcard", Prompt: "x", Params: params})
		require.ErrorContains(t, err, "leads to Reelay itself")
		for _, address := range []string{"127.0.0.1:9998", "localhost:9998", "[::1]:9998", cfg.RedisHosts()[0]} {
			_, _, err = own.webhooks().CreateEndpoint(t.Context(), caller, "http://"+address+"/", webhooks.FormatStandard, nil)
			require.ErrorContains(t, err, "leads to Reelay itself", address)
		}
		_, _, err = own.webhooks().CreateEndpoint(t.Context(), caller, "http://127.0.0.1:9999/", webhooks.FormatStandard, nil)
		require.NoError(t, err)
	})
}

func TestReady(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		damage string
		status int
		says   string
	}{
		"WithItsSchema":  {"SELECT", http.StatusOK, "ready"},
		"WithoutASchema": {"DROP SCHEMA public CASCADE; CREATE SCHEMA public", http.StatusServiceUnavailable, "Run `reelay migrate`"},
		"WithAMissingMigration": {"DELETE FROM bun_migrations WHERE id = (SELECT max(id) FROM bun_migrations)", http.StatusServiceUnavailable,
			"Run `reelay migrate`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := modelstest.DB(t)
			_, err := db.ExecContext(t.Context(), c.damage)
			require.NoError(t, err)
			answer := httptest.NewRecorder()

			(&stack{db: db}).ready(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))

			require.Equal(t, c.status, answer.Code)
			require.Contains(t, answer.Body.String(), c.says)
		})
	}
}
