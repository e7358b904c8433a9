package jobstest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/reelay/reelay/models"
)

// narrowBuffer is how much the kernel buffers at each end of a narrow connection while the
// other end does not read.
const narrowBuffer = 4 << 10

// ServeNarrow serves over connections that are full after a few kB. The server's client has
// connections like that, too.
func ServeNarrow(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Listener = narrow{server.Listener}
	server.Start()
	t.Cleanup(server.Close)
	server.Client().Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(narrowBuffer)
		}
		return conn, err
	}
	return server
}

type narrow struct{ net.Listener }

// Accept implements net.Listener.
func (l narrow) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(narrowBuffer)
	}
	return conn, err
}

// Happen adds n events of 2 kB each to a job.
func (s *Stack) Happen(t testing.TB, id models.JobID, n int) {
	t.Helper()
	s.Exec(t, `WITH j AS (UPDATE jobs SET event_seq = event_seq + ?0 WHERE id = ?1 RETURNING id, event_seq - ?0 AS before)
		INSERT INTO job_events (job_id, seq, run, type, payload)
		SELECT id, before + n, 1, 'PROGRESS', jsonb_build_object('text', repeat('x', 2000)) FROM j, generate_series(1, ?0) n`, n, id)
	s.Notifier.Notifications.Publish(t.Context(), string(id))
}
