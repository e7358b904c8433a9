package transport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coder/websocket"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// mayClose are the codes with which a socket may be closed because of what the client sent:
// too large, too many, and those of the protocol.
var mayClose = []websocket.StatusCode{1009, 1013, 4400, 4401, 4409, 4429}

// FuzzSocket sends messages, one per line, and then one that every server refuses.
func FuzzSocket(f *testing.F) {
	const key, letIn = "rl_live_fuzz", `{"type":"connection_init","payload":{"authorization":"Bearer rl_live_fuzz"}}` + "\n"
	for _, messages := range []string{
		"", letIn, letIn + letIn, `{"type":"connection_init"}`, `{"type":"connection_init","payload":{"authorization":5}}`,
		`{"type":"connection_init","payload":[]}`, `{"type":"ping"}`, `{"type":"pong","payload":{"a":[1,null]}}`, `{"type":"ping","payload":1}`,
		`{"id":"1","type":"subscribe","payload":{"query":"{ viewer { role } }"}}`,
		letIn + `{"id":"1","type":"subscribe","payload":{"query":"{ viewer { role } }"}}` + "\n" + `{"id":"1","type":"complete"}`,
		letIn + `{"id":"1","type":"subscribe","payload":{"query":"query q($a: Boolean!) { viewer @include(if: $a) { role } }","operationName":"q","variables":{"a":true},"extensions":{}}}`,
		letIn + `{"id":"1","type":"subscribe","payload":{"query":"{"}}` + "\n" +
			`{"id":"1","type":"subscribe","payload":{"query":"{ viewer { role } }"}}`,
		letIn + `{"id":"\u0000é","type":"subscribe","payload":{"query":"{ __typename }"}}`,
		letIn + `{"id":"1","type":"subscribe","payload":{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"x"}}}}`,
		letIn + `{"id":"","type":"subscribe","payload":{}}`, letIn + `{"id":1,"type":"subscribe"}`, letIn + `{"id":"1","type":"complete"}`,
		letIn + `{"type":"complete"}`, letIn + `{"id":"1","type":"next","payload":{}}`, `{"type":"start"}`, `{"type":"ping","type":"pong"}`,
		`{`, `[]`, `null`, `"ping"`, `{"type":"\ud800"}`, "\xff", `{"type":{"type":{}}}`, `{"type":"ping"}{"type":"ping"}`,
	} {
		f.Add([]byte(messages))
	}
	// Operations that read have no domain here, and log an error each time.
	logs := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	f.Cleanup(func() { slog.SetDefault(logs) })
	client := serveFuzz(f, graph.New(&graph.Resolver{},
		&auth.KeyWatch{Authenticate: func(_ context.Context, secret string) (jobs.Principal, error) {
			if secret == key {
				return jobs.Principal{Role: access.RoleClient}, nil
			}
			return jobs.Principal{}, apierror.ErrUnauthenticated
		}}, graph.Options{}))
	f.Fuzz(func(t *testing.T, input []byte) {
		messages := bytes.Split(input, []byte("\n"))
		conn, _, err := websocket.Dial(t.Context(), "http://fuzz/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"},
			HTTPClient: client})
		require.NoError(t, err)
		defer conn.CloseNow()
		conn.SetReadLimit(65 << 10) // a pong contains the payload of the ping
		go func() {
			for _, m := range append(messages, []byte(`{"type":"end"}`)) {
				if conn.Write(t.Context(), websocket.MessageText, m) != nil {
					return // the server closed it
				}
			}
		}()

		answers := 0
		for {
			_, raw, err := conn.Read(t.Context())
			if err != nil {
				require.Contains(t, mayClose, websocket.CloseStatus(err), "%q: %v", input, err)
				break
			}
			var m struct{ ID, Type string }
			require.NoError(t, json.Unmarshal(raw, &m), "%s", raw)
			require.Contains(t, []string{"connection_ack", "ping", "pong", "next", "error", "complete"}, m.Type)
			require.Equal(t, slices.Contains([]string{"next", "error", "complete"}, m.Type), m.ID != "", "%s", raw)
			answers++
		}
		require.LessOrEqual(t, answers, 2*len(messages), "a query is answered, and complete")
	})
}

// serveFuzz serves over a Unix socket: thousands of TCP connections a second would use up the
// ports.
func serveFuzz(f *testing.F, api http.Handler) *http.Client {
	path := filepath.Join(f.TempDir(), "s")
	listener, err := new(net.ListenConfig).Listen(f.Context(), "unix", path)
	require.NoError(f, err)
	server := httptest.NewUnstartedServer(api)
	server.Listener = listener
	server.Start()
	f.Cleanup(server.Close)
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}
