package graph_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// open opens a socket and sends nothing.
func open(t *testing.T, url string) *socket {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	require.NoError(t, err)
	t.Cleanup(func() { conn.CloseNow() })
	return &socket{t, conn}
}

func (s *socket) raw(text string) {
	s.t.Helper()
	require.NoError(s.t, s.conn.Write(s.t.Context(), websocket.MessageText, []byte(text)))
}

const jobEvents = `subscription ($id: ID!, $after: Int) { jobEvents(jobId: $id, afterSeq: $after) { seq type } }`

func TestSocketProtocol(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	job := a.Submit(t)
	endless := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"type":"subscribe","payload":{"query":"subscription { jobProgress(jobId: \"%s\") { id } }"}}`, id, job.ID)
	}
	viewer := `{"id":"v","type":"subscribe","payload":{"query":"{ viewer { role } }"}}`

	for name, c := range map[string]struct {
		before []string // connection_init
		after  []string
		code   int
	}{
		"subscribe before connection_init": {before: []string{viewer}, code: 4401},
		"a second connection_init":         {after: []string{`{"type":"connection_init"}`}, code: 4429},
		"an id that is running":            {after: []string{endless("1"), endless("1")}, code: 4409},
		"an empty id":                      {after: []string{endless("")}, code: 4400},
		"no id":                            {after: []string{`{"type":"subscribe","payload":{"query":"{ viewer { role } }"}}`}, code: 4400},
		"an id that is a number": {after: []string{`{"id":1,"type":"subscribe","payload":{"query":"{ viewer { role } }"}}`},
			code: 4400},
		"no payload":                      {after: []string{`{"id":"1","type":"subscribe"}`}, code: 4400},
		"a payload that is a list":        {after: []string{`{"id":"1","type":"subscribe","payload":[]}`}, code: 4400},
		"a query that is a number":        {after: []string{`{"id":"1","type":"subscribe","payload":{"query":1}}`}, code: 4400},
		"variables that are a list":       {after: []string{`{"id":"1","type":"subscribe","payload":{"query":"{ viewer { role } }","variables":[]}}`}, code: 4400},
		"an unknown type":                 {after: []string{`{"type":"start"}`}, code: 4400},
		"a server's type":                 {after: []string{`{"id":"1","type":"next","payload":{}}`}, code: 4400},
		"no type":                         {before: []string{`{}`}, code: 4400},
		"not JSON":                        {before: []string{`{`}, code: 4400},
		"nothing":                         {before: []string{``}, code: 4400},
		"a list":                          {before: []string{`[]`}, code: 4400},
		"null":                            {after: []string{`null`}, code: 4400},
		"an init payload that is text":    {before: []string{`{"type":"connection_init","payload":"x"}`}, code: 4400},
		"a ping payload that is a number": {after: []string{`{"type":"ping","payload":1}`}, code: 4400},
		"complete without an id":          {after: []string{`{"type":"complete"}`}, code: 4400},
		"a message that is too large": {after: []string{`{"type":"ping","payload":{"x":"` + strings.Repeat("x", 64<<10) + `"}}`},
			code: 1009},
		"the same, compressed well": {before: []string{strings.Repeat(" ", 1<<20)}, code: 1009},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, a.url)
			for _, text := range c.before {
				s.raw(text)
			}
			if c.before == nil {
				s.send("connection_init", "", map[string]string{"authorization": a.Secrets[access.RoleClient]})
				require.Equal(t, "connection_ack", s.next().Type)
			}
			for _, text := range c.after {
				s.raw(text)
			}

			require.EqualValues(t, c.code, s.closed())
		})
	}

	t.Run("messages of every length", func(t *testing.T) {
		t.Parallel()
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		s.conn.SetReadLimit(64 << 10)
		require.Equal(t, "connection_ack", s.next().Type)
		const around = len(`{"type":"ping","payload":{"x":""}}`)
		for _, size := range []int{125, 126, 127, 256, 1024, 16 << 10, 1<<16 - 1, 1 << 16} {
			rest := `","payload":{"x":"` + strings.Repeat("x", size-around) + `"}}`
			s.raw(`{"type":"ping` + rest)

			_, answer, err := s.conn.Read(t.Context())

			require.NoError(t, err)
			require.Equal(t, `{"type":"pong`+rest, string(answer))
		}
	})

	t.Run("control frames amid messages", func(t *testing.T) {
		t.Parallel()
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", s.next().Type)
		const each = 90
		var pings errgroup.Group
		pings.Go(func() error {
			for range each {
				if err := s.conn.Ping(t.Context()); err != nil {
					return err
				}
			}
			return nil
		})
		pings.Go(func() error {
			for range each {
				if err := s.conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"ping"}`)); err != nil {
					return err
				}
			}
			return nil
		})
		for range each {
			require.Equal(t, "pong", s.next().Type)
		}
		reading := s.conn.CloseRead(t.Context()) // for the last pings
		require.NoError(t, pings.Wait())
		require.NoError(t, reading.Err())
	})

	t.Run("another subprotocol", func(t *testing.T) {
		t.Parallel()
		for _, offered := range [][]string{{"graphql-ws"}, nil} {
			conn, _, err := websocket.Dial(t.Context(), a.url, &websocket.DialOptions{Subprotocols: offered})
			require.NoError(t, err)
			require.EqualValues(t, 4406, (&socket{t, conn}).closed())
		}
	})

	t.Run("no connection_init", func(t *testing.T) {
		t.Parallel()
		require.EqualValues(t, 4408, open(t, a.url).closed())
	})

	t.Run("a binary message", func(t *testing.T) {
		t.Parallel()
		s := open(t, a.url)
		require.NoError(t, s.conn.Write(t.Context(), websocket.MessageBinary, []byte(`{"type":"ping"}`)))
		require.EqualValues(t, 4400, s.closed())
	})

	t.Run("a flood", func(t *testing.T) {
		t.Parallel()
		s := open(t, a.url)
		code := make(chan websocket.StatusCode)
		go func() { code <- s.closed() }()
		for range 5000 {
			if s.conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"pong"}`)) != nil {
				break // the server closed it
			}
		}

		require.EqualValues(t, 1013, <-code)
	})

	for name, c := range map[string]struct{ first, then []byte }{
		"pings":           {nil, []byte{0x89, 0x80, 1, 2, 3, 4}},
		"pongs":           {nil, []byte{0x8a, 0x80, 1, 2, 3, 4}},
		"empty fragments": {[]byte{0x01, 0x80, 1, 2, 3, 4}, []byte{0x00, 0x80, 1, 2, 3, 4}},
		"small fragments": {[]byte{0x01, 0x80, 1, 2, 3, 4}, []byte{0x00, 0x81, 1, 2, 3, 4, 5}},
	} {
		t.Run("a flood of "+name+" before connection_init", func(t *testing.T) {
			t.Parallel()
			conn, from := openRaw(t, a.url)
			go func() { // as many frames in one write as the server reads at once, and more
				_, err := conn.Write(append(c.first, bytes.Repeat(c.then, 100)...))
				for range 1000 {
					if err == nil {
						_, err = conn.Write(bytes.Repeat(c.then, 100))
					}
				}
			}()

			require.Equal(t, 1013, closeCode(t, from))
		})
	}

	t.Run("a message that is too large and never ends", func(t *testing.T) {
		t.Parallel()
		conn, from := openRaw(t, a.url)
		_, err := conn.Write(append([]byte{0x81, 0xff, 0, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4}, make([]byte, 65<<10)...)) // announces 64 MiB
		require.NoError(t, err)

		require.Equal(t, 1009, closeCode(t, from))
		_, err = from.ReadByte()
		require.ErrorIs(t, err, io.EOF, "it is closed")
	})

	for name, frame := range map[string][]byte{
		"a message": {0x81, 0x02, '{', '}'},
		"a ping":    {0x89, 0x00},
		"a close":   {0x88, 0x02, 0x03, 0xe8},
	} {
		t.Run(name+" that is not masked", func(t *testing.T) {
			t.Parallel()
			conn, from := openRaw(t, a.url)
			_, err := conn.Write(append([]byte{0x8a, 0x80, 1, 2, 3, 4}, frame...))
			require.NoError(t, err)

			require.Equal(t, 1002, closeCode(t, from))
		})
	}

	t.Run("pings come before connection_init, too", func(t *testing.T) {
		t.Parallel()
		s := open(t, a.url)
		s.raw(`{"type":"pong"}`)
		s.raw(`{"type":"ping","payload":{"n":1}}`)
		require.Equal(t, frame{Type: "pong", Payload: json.RawMessage(`{"n":1}`)}, s.next())
		s.send("connection_init", "", map[string]string{"authorization": a.Secrets[access.RoleClient]})
		require.Equal(t, "connection_ack", s.next().Type)
		s.raw(`{"type":"ping"}`)
		require.Equal(t, "pong", s.next().Type)
	})

	t.Run("an id is free again once its operation ended, from either side", func(t *testing.T) {
		t.Parallel()
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", s.next().Type)
		for range 50 {
			s.raw(endless("1"))
			require.Equal(t, "next", s.next().Type)
			s.raw(`{"id":"1","type":"complete"}`)
			s.raw(strings.Replace(viewer, `"v"`, `"1"`, 1))
			require.Contains(t, string(s.next().Payload), `"CLIENT"`, "of the new operation, not the old one")
			require.Equal(t, frame{ID: "1", Type: "complete"}, s.next())
		}
		s.raw(`{"id":"unknown","type":"complete"}`) // not a violation
		s.raw(viewer)
		require.Equal(t, "v", s.next().ID)
	})

	t.Run("an error is the last message, and has a code", func(t *testing.T) {
		t.Parallel()
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", s.next().Type)
		for _, query := range []string{"{", "{ nothing }", "", strings.Repeat("x ", 3000),
			"query A { viewer { role } } query B { viewer { role } }"} {
			s.send("subscribe", "e", map[string]any{"query": query})
			m := s.next()
			require.Equal(t, "error", m.Type, query)
			var errors []problem
			require.NoError(t, json.Unmarshal(m.Payload, &errors))
			require.NotEmpty(t, errors)
			for _, e := range errors {
				require.NotEmpty(t, e.Extensions["code"], e.Message)
			}
		}
		s.raw(viewer)
		require.Equal(t, "v", s.next().ID, "nothing came after the errors")
	})

	t.Run("nothing is compressed", func(t *testing.T) {
		t.Parallel()
		conn, res, err := websocket.Dial(t.Context(), a.url, &websocket.DialOptions{
			Subprotocols: []string{"graphql-transport-ws"}, CompressionMode: websocket.CompressionContextTakeover,
		})
		require.NoError(t, err)
		conn.CloseNow()
		require.Empty(t, res.Header.Get("Sec-WebSocket-Extensions"))
	})
}

func TestStreamsPerKey(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	server := httptest.NewServer(graph.New(&graph.Resolver{Reads: s.Reads, Watcher: s.Watcher},
		&auth.KeyWatch{Authenticate: s.Keys.Authenticate, Most: 2}, graph.Options{}))
	t.Cleanup(server.Close)
	key := s.Secrets[access.RoleClient]

	first, second := dial(t, server.URL, key), dial(t, server.URL, key)
	require.Equal(t, "connection_ack", first.next().Type)
	require.Equal(t, "connection_ack", second.next().Type)

	require.EqualValues(t, 1013, dial(t, server.URL, key).closed())
	other := dial(t, server.URL, s.Secrets[access.RoleAdmin])
	require.Equal(t, "connection_ack", other.next().Type, "another key has places of its own")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL,
		strings.NewReader(`{"query":"subscription { jobChanges { id } }"}`))
	require.NoError(t, err)
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Authorization": {"Bearer " + key}}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	require.Equal(t, "1", res.Header.Get("Retry-After"))

	require.NoError(t, first.conn.Close(websocket.StatusNormalClosure, ""))
	testrun.Eventually(t, "its place is free again", func() bool { return fits(t, server.URL, key) })
}

func TestJobEvents(t *testing.T) {
	t.Parallel()

	seqs := func(t *testing.T, s *socket, upTo int) []int {
		t.Helper()
		var found []int
		for {
			m := s.next()
			if m.Type == "complete" {
				return found
			}
			var event struct {
				Data struct{ JobEvents struct{ Seq int } }
			}
			require.NoError(t, json.Unmarshal(m.Payload, &event))
			found = append(found, event.Data.JobEvents.Seq)
			if upTo > 0 && event.Data.JobEvents.Seq == upTo {
				return found
			}
		}
	}

	t.Run("ContinueInAnotherProcess", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		elsewhere := serve(t, a.Stack)
		job := a.Submit(t)
		a.Lease(t, a.Worker(t, "w"))
		first := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", first.next().Type)
		first.send("subscribe", "1", map[string]any{"query": jobEvents, "variables": map[string]any{"id": job.ID, "after": 0}})
		require.Equal(t, []int{1, 2}, seqs(t, first, 2))
		first.conn.CloseNow()
		_, err := a.Canceller.Cancel(t.Context(), a.Client, job.ID)
		require.NoError(t, err)

		second := dial(t, elsewhere, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", second.next().Type)
		second.send("subscribe", "1", map[string]any{"query": jobEvents, "variables": map[string]any{"id": job.ID, "after": 2}})

		require.Equal(t, []int{3}, seqs(t, second, 3))
	})

	t.Run("RefuseAnUnknownSeq", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		job := a.Submit(t)
		s := dial(t, a.url, a.Secrets[access.RoleClient])
		require.Equal(t, "connection_ack", s.next().Type)
		for _, after := range []int{-1, 2, 1<<31 - 1} {
			s.send("subscribe", "1", map[string]any{"query": jobEvents, "variables": map[string]any{"id": job.ID, "after": after}})
			require.Contains(t, string(s.next().Payload), `"INVALID_INPUT"`)
			require.Equal(t, frame{ID: "1", Type: "complete"}, s.next())
		}
	})
}

// openRaw opens a socket over a raw connection.
func openRaw(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn,
		"GET /graphql HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n")
	require.NoError(t, err)
	from := bufio.NewReader(conn)
	res, err := http.ReadResponse(from, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	return conn, from
}

// closeCode reads small frames until one closes the socket.
func closeCode(t *testing.T, from *bufio.Reader) int {
	t.Helper()
	for {
		head := make([]byte, 2)
		_, err := io.ReadFull(from, head)
		require.NoError(t, err)
		payload := make([]byte, head[1])
		_, err = io.ReadFull(from, payload)
		require.NoError(t, err)
		if head[0] == 0x88 {
			return int(binary.BigEndian.Uint16(payload))
		}
	}
}
