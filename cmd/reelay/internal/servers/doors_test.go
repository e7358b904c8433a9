package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/reelay/reelay/cmd/reelay/internal/front"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// houseKey creates a key of a role for a new account.
func (s *strained) houseKey(t *testing.T, role access.Role) string {
	t.Helper()
	account := jobs.NewAccount("house", models.TierCritical)
	require.NoError(t, models.InsertAccount(t.Context(), s.db, account))
	return s.key(t, account.ID, role)
}

// No endpoint waits for a body that its answer does not need.
func TestServe_DoesNotWaitForUnreadBodies(t *testing.T) {
	t.Parallel()
	s := newStrained(t)
	address := servedAt(t, s.handler("http://127.0.0.1:8080"))
	wrong := "Authorization: Bearer rl_live_x\r\n"
	client, operator := "Authorization: Bearer "+s.houseKey(t, access.RoleClient)+"\r\n", "Authorization: Bearer "+
		s.houseKey(t, access.RoleOperator)+"\r\n"

	for request, status := range map[string]int{
		"GET /healthz\n": 400, "GET /readyz\n": 400, "GET /metrics\n": 400, "GET /metrics\n" + operator: 400, "GET /login\n": 400, "GET /\n": 400,
		"GET /graphql\n" + client: 400, "GET /api/openapi.json\n": 400, "GET /api/v1/jobs\n" + client: 400, "DELETE /v1/videos/x\n" + client: 400,
		"GET /objects/x\n": 400, "HEAD /healthz\n": 400, "OPTIONS /graphql\n": 400,
		"POST /healthz\n": 404, "PUT /healthz\n": 404, "POST /nowhere\n": 404, "POST /logout\n": 303, "POST /jobs/new\n": 303,
		"POST /graphql\n": 401, "POST /graphql\n" + wrong: 401, "PATCH /graphql\n" + client: 405, "POST /graphql\n" + client: 415,
		"POST /api/v1/jobs\n": 401, "POST /api/v1/jobs\n" + client: 415, "POST /api/nowhere\n" + client: 404, "POST /v1/videos\n": 401,
		"POST /v1/videos\n" + client: 415, "POST /api/v2/jobs\n": 401, "POST /api/v2/assets\n" + client: 415,
		"POST /api/v2/nowhere\n" + client: 404, "GET /api/v2/jobs\n" + client: 400,
		"POST /hooks/providers/x\n": 404, "PUT /objects/x\n": 403, "PUT /objects/\n": 400, "POST /objects/x\n": 405,
	} {
		for _, body := range []string{"Content-Length: 1000\r\n", "Transfer-Encoding: chunked\r\n"} {
			line, header, _ := strings.Cut(request, "\n")
			method, path, _ := strings.Cut(line, " ")
			t.Run(strings.ReplaceAll(line, "/", "_"), func(t *testing.T) {
				t.Parallel()
				conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
				require.NoError(t, err)
				defer conn.Close()
				require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second))) // less than a body may take
				_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: same-origin\r\n%s%s\r\n", method, path, header, body)
				require.NoError(t, err)
				from := bufio.NewReader(conn)

				res, err := http.ReadResponse(from, &http.Request{Method: method})
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, res.Body)
				require.NoError(t, err)

				require.Equal(t, status, res.StatusCode)
				require.True(t, res.Close)
				_, err = from.ReadByte()
				require.ErrorIs(t, err, io.EOF)
			})
		}
	}
}

// A connection that has shown a valid key, login or link counts as known.
func TestHandler_IdentifiesCallers(t *testing.T) {
	t.Parallel()
	s := newStrained(t)
	server := httptest.NewUnstartedServer(nil)
	server.Listener = httpguard.NewConnections(httpguard.Bounds{All: 100, Unknown: 1, PerAddress: 1}).Listen(server.Listener)
	server.Config.ConnContext = httpguard.ConnContext
	publicURL := "http://" + server.Listener.Addr().String()
	server.Config.Handler = httpguard.New(s.handler(publicURL), nil)
	server.Start()
	t.Cleanup(server.Close)
	operator := s.houseKey(t, access.RoleOperator)
	client := "Authorization: Bearer " + s.houseKey(t, access.RoleClient) + "\r\n"
	login, err := http.DefaultTransport.RoundTrip(loginRequest(t, publicURL, operator))
	require.NoError(t, err)
	require.NoError(t, login.Body.Close())
	require.Equal(t, http.StatusSeeOther, login.StatusCode)
	signed, err := s.objects.LinkDownload(t.Context(), "nothing", "video.mp4", time.Hour)
	require.NoError(t, err)
	link := signed.At("")
	// visit opens a connection, and returns what sends a request by it. A connection is closed
	// at once while the handler of the one before is still about to end. Then visit opens another.
	visit := func(path, header string) (ask func() error) {
		testrun.Eventually(t, "a connection has a place", func() bool {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			t.Cleanup(func() { conn.Close() })
			require.NoError(t, conn.SetDeadline(time.Now().Add(testrun.WaitLimit)))
			from := bufio.NewReader(conn)
			ask = func() error {
				if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", path, header); err != nil {
					return err
				}
				res, err := http.ReadResponse(from, nil)
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
				}
				return err
			}
			return ask() == nil
		})
		return ask
	}
	// crowd opens another connection, which replaces one that is not known.
	crowd := func() { visit("/healthz", "") }

	for request, known := range map[string]bool{
		"/graphql?query={viewer{role}}\n" + client: true, "/api/v1/jobs\n" + client: true, "/v1/videos\n" + client: true,
		"/api/v2/assets/x\n" + client:                          true,
		"/metrics\nAuthorization: Bearer " + operator + "\r\n": true, "/jobs\nCookie: " + login.Cookies()[0].String() + "\r\n": true, link +
			"\n": true,
		"/healthz\n": false, "/login\n": false, "/graphql?query={viewer{role}}\n": false, "/api/v1/jobs\n": false, "/v1/videos\n": false,
		"/metrics\n": false,
		"/jobs\n":    false, "/objects/x\n": false, "/jobs\nCookie: reelay=x\r\n": false,
	} {
		path, header, _ := strings.Cut(request, "\n")
		ask := visit(path, header)

		crowd()

		require.Equal(t, known, ask() == nil, request)
	}

	for header, known := range map[string]bool{strings.TrimSpace(strings.TrimPrefix(client, "Authorization: ")): true, "": false} {
		var conn *websocket.Conn
		testrun.Eventually(t, "a socket has a place", func() bool {
			conn, _, err = websocket.Dial(t.Context(), publicURL+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
			return err == nil
		})
		t.Cleanup(func() { conn.CloseNow() })
		var ack map[string]any
		if known {
			require.NoError(t, wsjson.Write(t.Context(), conn,
				map[string]any{"type": "connection_init", "payload": map[string]string{"authorization": header}}))
			require.NoError(t, wsjson.Read(t.Context(), conn, &ack))
		}

		crowd()

		ctx, cancel := context.WithTimeout(t.Context(), testrun.WaitLimit)
		defer cancel()
		err = wsjson.Write(ctx, conn, map[string]string{"type": "ping"})
		if err == nil {
			err = wsjson.Read(ctx, conn, &ack)
		}
		require.Equal(t, known, err == nil)
	}
}

func loginRequest(t *testing.T, address, key string) *http.Request {
	form := url.Values{"key": {key}}.Encode()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/login", strings.NewReader(form))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return req
}

// servedAt serves the handler until the test ends.
func servedAt(t *testing.T, handler http.Handler) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { _ = front.Serve(ctx, listener, front.TLSFiles{}, handler) }()
	return "http://" + listener.Addr().String()
}
