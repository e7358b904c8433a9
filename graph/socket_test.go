package graph_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

type socket struct {
	t    *testing.T
	conn *websocket.Conn
}

// dial opens a socket and sends the key.
func dial(t *testing.T, url, key string) *socket {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	require.NoError(t, err)
	t.Cleanup(func() { conn.CloseNow() })
	s := &socket{t, conn}
	s.send("connection_init", "", map[string]string{"authorization": "Bearer " + key})
	return s
}

func (s *socket) send(kind, id string, payload any) {
	s.t.Helper()
	raw, err := json.Marshal(payload)
	require.NoError(s.t, err)
	require.NoError(s.t, wsjson.Write(s.t.Context(), s.conn, frame{ID: id, Type: kind, Payload: raw}))
}

// next returns the next message, except pings.
func (s *socket) next() frame {
	s.t.Helper()
	for {
		var f frame
		require.NoError(s.t, wsjson.Read(s.t.Context(), s.conn, &f))
		if f.Type != "ping" {
			return f
		}
	}
}

// closed reads until the server closes the socket, and returns the code.
func (s *socket) closed() websocket.StatusCode {
	for {
		if _, _, err := s.conn.Read(s.t.Context()); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

const watchJob = `subscription ($id: ID!) { jobProgress(jobId: $id, intervalMs: 50) { id status progress { phase percent } attempts { attemptNo } } }`

func TestSocket(t *testing.T) {
	t.Parallel()

	t.Run("FollowsAJobToItsEnd", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", s.next().Type)

		s.send("subscribe", "1", map[string]any{"query": watchJob, "variables": map[string]any{"id": job.ID}})
		first := s.next()
		require.Contains(t, string(first.Payload), `"status":"QUEUED"`)
		_, err := a.Canceller.Cancel(t.Context(), a.Client, job.ID)
		require.NoError(t, err)
		last := s.next()

		require.Contains(t, string(last.Payload), `"status":"CANCELLED"`)
		require.Equal(t, frame{ID: "1", Type: "complete"}, s.next())
	})

	t.Run("ReportsWhyAStreamFailed", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", s.next().Type)

		s.send("subscribe", "1", map[string]any{"query": watchJob, "variables": map[string]any{"id": models.NewJobID()}})

		require.Contains(t, string(s.next().Payload), `"NOT_FOUND"`)
		require.Equal(t, frame{ID: "1", Type: "complete"}, s.next())
	})

	t.Run("ClosesForAnInvalidKey", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)

		require.EqualValues(t, 4401, dial(t, a.url, "rl_unknown").closed())
		require.EqualValues(t, 4401, dial(t, a.url, "").closed())
	})

	t.Run("ClosesWhenItsKeyIsRevoked", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", s.next().Type)
		s.send("subscribe", "1", map[string]any{"query": watchJob, "variables": map[string]any{"id": job.ID}})
		require.Equal(t, "next", s.next().Type)

		require.NoError(t, a.Keys.Revoke(t.Context(), a.Admin, a.Client.KeyID))

		require.EqualValues(t, 4401, s.closed())
	})

	t.Run("AsksToReconnectWhenTheProcessEnds", func(t *testing.T) {
		t.Parallel()

		a, restart := newEndingAPI(t)
		job := a.Submit(t)
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", s.next().Type)
		s.send("subscribe", "1", map[string]any{"query": watchJob, "variables": map[string]any{"id": job.ID}})
		require.Equal(t, "next", s.next().Type)

		restart()

		kind, message, err := s.conn.Read(t.Context())
		for err == nil {
			require.NotContains(t, string(message), "complete", kind)
			kind, message, err = s.conn.Read(t.Context())
		}
		require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(err))
	})

	t.Run("ClosesOnInvalidUTF8", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", s.next().Type)

		require.NoError(t, s.conn.Write(t.Context(), websocket.MessageText,
			[]byte(`{"id":"1","type":"subscribe","payload":{"query":"{ viewer { role } } # \ud800"}}`)))

		require.EqualValues(t, 4400, s.closed())
	})

	t.Run("LimitsConcurrentOperations", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", s.next().Type)

		for i := range 21 {
			s.send("subscribe", strings.Repeat("x", i+1), map[string]any{"query": watchJob, "variables": map[string]any{"id": job.ID}})
		}

		for !strings.Contains(string(s.next().Payload), `"RATE_LIMITED"`) {
		}
	})

	t.Run("OpensOnlyForPagesOfAllowedOrigins", func(t *testing.T) {
		t.Parallel()

		address := serveAlone(t)

		for origin, status := range map[string]int{
			"https://app.example.com": http.StatusSwitchingProtocols, address: http.StatusSwitchingProtocols,
			"https://evil.com": http.StatusForbidden, "https://app.evil-example.com": http.StatusForbidden, "null": http.StatusForbidden,
		} {
			conn, res, err := websocket.Dial(t.Context(), address, &websocket.DialOptions{
				Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: http.Header{"Origin": {origin}},
			})
			if err == nil {
				conn.CloseNow()
			}
			require.Equal(t, status, res.StatusCode, origin)
		}
	})
}

func TestSSE(t *testing.T) {
	t.Parallel()

	stream := func(t *testing.T, a *api, id models.JobID) *bufio.Scanner {
		t.Helper()
		body, err := json.Marshal(map[string]any{"query": watchJob, "variables": map[string]any{"id": id}})
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, strings.NewReader(string(body)))
		require.NoError(t, err)
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Authorization": {"Bearer " + a.Secrets[access.RoleClient]},
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { res.Body.Close() })
		return bufio.NewScanner(res.Body)
	}
	until := func(t *testing.T, lines *bufio.Scanner, text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		require.Fail(t, "the stream ended without "+text)
	}

	t.Run("FollowsAJobToItsEnd", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		lines := stream(t, a, job.ID)

		until(t, lines, `"status":"QUEUED"`)
		_, err := a.Canceller.Cancel(t.Context(), a.Client, job.ID)
		require.NoError(t, err)

		until(t, lines, `"status":"CANCELLED"`)
		until(t, lines, "event: complete")
	})

	t.Run("ReportsWhyAStreamFailed", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		lines := stream(t, a, models.NewJobID())

		until(t, lines, `"NOT_FOUND"`)
		until(t, lines, "event: complete")
	})

	t.Run("RefusesOperationsThatAreNotOneStream", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for _, query := range []string{
			"subscription { a: jobChanges { id } b: jobChanges { id } }",
			"subscription { ...two } fragment two on Subscription { a: jobChanges { id } ... { b: jobChanges { id } } }",
			"subscription { jobChanges @skip(if: true) { id } }",
			"subscription { __typename }",
		} {
			body, err := json.Marshal(map[string]any{"query": query})
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, strings.NewReader(string(body)))
			require.NoError(t, err)
			req.Header = http.Header{
				"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Authorization": {"Bearer " + a.Secrets[access.RoleClient]},
			}
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			t.Cleanup(func() { res.Body.Close() })
			lines := bufio.NewScanner(res.Body)
			until(t, lines, `"GRAPHQL_VALIDATION_FAILED"`)
			until(t, lines, "event: complete")
		}
	})

	t.Run("AsksToReconnectWhenTheProcessEnds", func(t *testing.T) {
		t.Parallel()

		a, restart := newEndingAPI(t)
		lines := stream(t, a, a.Submit(t).ID)
		until(t, lines, `"status":"QUEUED"`)

		restart()

		until(t, lines, `"UNAVAILABLE"`)
		until(t, lines, "event: complete")
	})

	t.Run("EndsWhenItsKeyIsRevoked", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		lines := stream(t, a, a.Submit(t).ID)
		until(t, lines, `"status":"QUEUED"`)

		require.NoError(t, a.Keys.Revoke(t.Context(), a.Admin, a.Client.KeyID))

		until(t, lines, `"UNAUTHENTICATED"`)
		until(t, lines, "event: complete")
	})
}
