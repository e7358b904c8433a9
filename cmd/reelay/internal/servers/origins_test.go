package servers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// TestHandler_AllowsOrigins covers the CORS headers for browsers.
func TestHandler_AllowsOrigins(t *testing.T) {
	t.Parallel()
	s := newStrained(t)
	account := jobs.NewAccount("pages", models.TierPro)
	require.NoError(t, models.InsertAccount(t.Context(), s.db, account))
	_, key, err := s.keys().Create(t.Context(), jobs.Host, auth.NewKey{AccountID: account.ID, Role: access.RoleClient, Name: "page"})
	require.NoError(t, err)
	serve := func(t *testing.T, names ...string) string {
		shared := *s.stack
		shared.cfg.Origins, shared.closers = names, nil
		t.Cleanup(shared.Close)
		server := httptest.NewServer(shared.handler("http://127.0.0.1:8080"))
		t.Cleanup(server.Close)
		return server.URL
	}
	const app, evil, question = "https://app.example", "https://evil.example", `{"query": "{ viewer { role } }"}`
	send := func(t *testing.T, method, url, origin, body string, header http.Header) (*http.Response, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		require.NoError(t, err)
		if header != nil {
			request.Header = header.Clone()
		}
		request.Header.Set("Origin", origin)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Empty(t, answer.Header.Values("Access-Control-Allow-Credentials"), "no cookie comes with it")
		return answer, string(text)
	}
	sharedWith := func(answer *http.Response) string { return answer.Header.Get("Access-Control-Allow-Origin") }
	paths := map[string]string{"/graphql": http.MethodPost, "/api/v1/jobs/job_1": http.MethodDelete, "/v1/videos": http.MethodGet,
		"/api/v2/jobs/job_1": http.MethodGet}
	programs := http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}

	t.Run("ThatSendAPreflight", func(t *testing.T) {
		t.Parallel()

		address := serve(t, "app.example")
		for path, method := range paths {
			asks := http.Header{
				"Access-Control-Request-Method":  {method},
				"Access-Control-Request-Headers": {"authorization,content-type,idempotency-key,if-none-match,last-event-id,x-stainless-retry-count"},
			}

			answer, _ := send(t, http.MethodOptions, address+path, app, "", asks)
			require.Equal(t, http.StatusNoContent, answer.StatusCode, path)
			require.Equal(t, app, sharedWith(answer), path)
			require.Equal(t, method, answer.Header.Get("Access-Control-Allow-Methods"), path)
			require.Equal(t, asks.Get("Access-Control-Request-Headers"), answer.Header.Get("Access-Control-Allow-Headers"), path)
			require.Contains(t, strings.Join(answer.Header.Values("Vary"), ","), "Origin", path)

			for _, refused := range []string{evil, "null", "https://app.example.evil.example"} {
				answer, _ := send(t, http.MethodOptions, address+path, refused, "", asks)
				requireUnshared(t, answer)
			}
		}
	})

	t.Run("ThatCall", func(t *testing.T) {
		t.Parallel()

		address := serve(t, "app.example")
		for path, method := range paths {
			body := map[string]string{http.MethodPost: question}[method]

			answer, text := send(t, method, address+path, app, body, programs)
			want := map[string]int{"/graphql": 200, "/api/v1/jobs/job_1": 404, "/v1/videos": 200, "/api/v2/jobs/job_1": 404}
			require.Equal(t, want[path], answer.StatusCode, text)
			require.Equal(t, app, sharedWith(answer), path)
			require.Equal(t, "Etag, Location, Retry-After", answer.Header.Get("Access-Control-Expose-Headers"), path)

			answer, _ = send(t, method, address+path, evil, body, programs)
			requireUnshared(t, answer)
			answer, _ = send(t, method, address+path, app, body, http.Header{"Cookie": {"reelay=x"}})
			require.Equal(t, http.StatusUnauthorized, answer.StatusCode, path)
		}
	})

	t.Run("ThatReadEventStreams", func(t *testing.T) {
		t.Parallel()

		stream := programs.Clone()
		stream.Set("Accept", "text/event-stream")

		answer, text := send(t, http.MethodPost, serve(t, "app.example")+"/graphql", app, question, stream)

		require.Equal(t, app, sharedWith(answer))
		require.Contains(t, answer.Header.Get("Content-Type"), "text/event-stream")
		require.Contains(t, text, `{"viewer":{"role":"CLIENT"}}`)
	})

	t.Run("ThatOpenSockets", func(t *testing.T) {
		t.Parallel()

		for origin, opens := range map[string]bool{app: true, evil: false, "null": false} {
			socket, answer, err := websocket.Dial(t.Context(), serve(t, "app.example")+"/graphql", &websocket.DialOptions{
				Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: http.Header{"Origin": {origin}},
			})
			if err == nil {
				require.NoError(t, socket.CloseNow())
			}
			require.Equal(t, opens, answer.StatusCode == http.StatusSwitchingProtocols, origin)
		}
	})

	t.Run("ButNothingElse", func(t *testing.T) {
		t.Parallel()

		address, closed := serve(t, "*"), serve(t)
		for _, path := range []string{"/login", "/jobs", "/metrics", "/objects/x", "/healthz", "/asynqmon/"} {
			answer, _ := send(t, http.MethodGet, address+path, app, "", nil)
			requireUnshared(t, answer)
		}
		for path, method := range paths {
			answer, _ := send(t, method, closed+path, app, question, programs)
			requireUnshared(t, answer)
			answer, _ = send(t, method, address+path, evil, question, programs)
			require.Equal(t, evil, sharedWith(answer), "everybody may, if so configured")
		}
	})
}

// requireUnshared fails the test if a page of another origin could read the response.
func requireUnshared(t *testing.T, answer *http.Response) {
	t.Helper()
	for name := range answer.Header {
		require.NotContains(t, name, "Access-Control-", "%s %s", answer.Request.Method, answer.Request.URL)
	}
}
