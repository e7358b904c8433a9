package graph_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// TestSlowReader covers clients that open a stream and never read it.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	const events = 400 // far more than a narrow connection holds

	// Each opens a stream and returns a function that reads it to its end.
	for name, open := range map[string]func(*testing.T, *httptest.Server, string, map[string]any) (read func() string){
		"OfASocket":          openUnreadSocket,
		"OfServerSentEvents": openUnreadEvents,
	} {
		t.Run(name+"IsCutOffAndHoldsUpNobody", func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			served := guarded(graph.New(&graph.Resolver{Reads: s.Reads, Watcher: s.Watcher},
				&auth.KeyWatch{Authenticate: s.Keys.Authenticate, Most: 2}, graph.Options{WriteTimeout: time.Second, PingEvery: time.Second}),
				time.Second)
			tidy, left := jobstest.Tidy(t, served)
			server := httptest.NewServer(served)
			t.Cleanup(server.Close)
			key, job, followers := s.Secrets[access.RoleClient], s.Submit(t), s.Watcher.Notifications.(*jobstest.Notifications).Followers
			s.Happen(t, job.ID, events-1)
			request := map[string]any{
				"query":     `subscription ($id: ID!) { jobEvents(jobId: $id, afterSeq: 0) { seq payload } }`,
				"variables": map[string]any{"id": job.ID},
			}

			reader := dial(t, server.URL, key)
			require.Equal(t, "connection_ack", reader.next().Type)
			reader.send("subscribe", "1", request)
			read := open(t, jobstest.ServeNarrow(t, tidy), key, request)

			for seq := range events {
				require.Contains(t, string(reader.next().Payload), fmt.Sprintf(`"seq":%d,`, seq+1))
			}
			testrun.Eventually(t, "its place is free again", func() bool { return fits(t, server.URL, key) })
			s.Happen(t, job.ID, 1)
			require.Contains(t, string(reader.next().Payload), fmt.Sprintf(`"seq":%d,`, events+1), "who reads goes on")
			heard := read()
			require.Contains(t, heard, `"seq":1,`)
			require.NotContains(t, heard, fmt.Sprintf(`"seq":%d,`, events))
			left()
			require.Equal(t, 1, followers(), "of the job, for all who follow it here")
			require.NoError(t, reader.conn.Close(websocket.StatusNormalClosure, ""))
			testrun.Eventually(t, "no follower is left", func() bool { return followers() == 0 })
		})
	}
}

func openUnreadSocket(t *testing.T, server *httptest.Server, key string, request map[string]any) func() string {
	conn, _, err := websocket.Dial(t.Context(), server.URL, &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"},
		HTTPClient: server.Client()})
	require.NoError(t, err)
	t.Cleanup(func() { conn.CloseNow() })
	s := &socket{t, conn}
	s.send("connection_init", "", map[string]string{"authorization": "Bearer " + key})
	require.Equal(t, "connection_ack", s.next().Type)
	s.send("subscribe", "1", request)
	return func() string {
		var all strings.Builder
		for {
			_, raw, err := conn.Read(t.Context())
			if err != nil {
				return all.String()
			}
			all.Write(raw)
		}
	}
}

func openUnreadEvents(t *testing.T, server *httptest.Server, key string, request map[string]any) func() string {
	body, err := json.Marshal(request)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(string(body)))
	require.NoError(t, err)
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Authorization": {"Bearer " + key}}
	res, err := server.Client().Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	return func() string {
		all, err := io.ReadAll(res.Body)
		require.Error(t, err, "it was cut off")
		return string(all)
	}
}

// fits reports whether the key can open another socket.
func fits(t *testing.T, url, key string) bool {
	s := open(t, url)
	defer s.conn.CloseNow()
	s.send("connection_init", "", map[string]string{"authorization": key})
	var f frame
	return wsjson.Read(t.Context(), s.conn, &f) == nil && f.Type == "connection_ack"
}

// TestSlowAnswer covers clients that request a large answer over a connection without buffers,
// and read a part of it from time to time.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	const part, patience = 64 << 10, 10 * time.Second

	for name, c := range map[string]struct {
		rest  time.Duration
		whole bool
	}{
		"IsCompleteForASlowReader":  {patience / 3, true},
		"IsCutOffForAStalledReader": {patience + time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn, end := servePipe(patience)
				defer end()
				query := "{ a: __schema { ...all } b: __schema { ...all } c: __schema { ...all } } fragment all on __Schema { types { fields { name description args { name } type { name description fields { name description } } } } }"
				req := httptest.NewRequest(http.MethodGet, "/graphql?"+url.Values{"query": {query}}.Encode(), nil)
				req.Header.Set("Authorization", "Bearer client")
				require.NoError(t, req.Write(conn))
				res, err := http.ReadResponse(bufio.NewReader(conn), req)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, res.StatusCode)
				begun := time.Now()

				var read bytes.Buffer
				for err == nil {
					time.Sleep(c.rest)
					_, err = io.CopyN(&read, res.Body, part)
				}

				if c.whole {
					require.ErrorIs(t, err, io.EOF)
					require.True(t, json.Valid(read.Bytes()))
					require.Greater(t, time.Since(begun), patience, "it is for each part")
				} else {
					require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				}
			})
		})
	}
}

// A client that never reads its refusal is disconnected as well.
func TestUnreadRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const patience = 10 * time.Second
		conn, end := servePipe(patience)
		defer end()
		req := httptest.NewRequest(http.MethodGet, "/graphql", nil) // a request without a query
		require.NoError(t, req.Write(conn))

		time.Sleep(patience + time.Second)

		_, err := http.ReadResponse(bufio.NewReader(conn), req)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
}

// servePipe serves GraphQL over one connection without buffers.
func servePipe(patience time.Duration) (_ net.Conn, end func()) {
	ours, conn := net.Pipe()
	connections := make(pipes, 1)
	connections <- ours
	server := &http.Server{Handler: guarded(graph.New(&graph.Resolver{}, clientKeys(), graph.Options{}), patience)}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(connections) })
	return conn, func() {
		server.Close()
		served.Wait()
	}
}

// guarded serves with a deadline for each part of an answer.
func guarded(inside http.Handler, patience time.Duration) http.Handler {
	return httpguard.New(inside, func(*http.Request) httpguard.Limits { return httpguard.Limits{Write: patience} })
}

// pipes is a listener for in-memory connections.
type pipes chan net.Conn

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (p pipes) Close() error { close(p); return nil }

// Addr implements net.Listener.
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }
