package graph_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// slowConn is a connection whose other side sends a part of a body and then
// nothing: reading ends with the deadline.
type slowConn struct {
	*httptest.ResponseRecorder
	part     io.Reader
	deadline time.Time
	waits    []time.Duration // until the deadline, for each read that got nothing
}

func (c *slowConn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *slowConn) Read(p []byte) (int, error) {
	if n, err := c.part.Read(p); err == nil {
		return n, nil
	}
	c.waits = append(c.waits, time.Until(c.deadline))
	return 0, os.ErrDeadlineExceeded
}

func TestBodyDeadline(t *testing.T) {
	t.Parallel()
	handler := graph.New(&graph.Resolver{}, &jobs.KeyWatch{Authenticate: func(context.Context, string) (jobs.Principal, error) {
		return jobs.Principal{Role: models.RoleClient}, nil
	}}, graph.Options{})
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			t.Run("EndsWhatStops/"+method+"/"+accept, func(t *testing.T) {
				t.Parallel()
				conn := &slowConn{ResponseRecorder: httptest.NewRecorder(), part: strings.NewReader("{")}
				req := httptest.NewRequestWithContext(t.Context(), method, "/graphql?query={viewer{role}}", conn)
				req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {accept}}

				handler.ServeHTTP(conn, req)

				require.Equal(t, http.StatusBadRequest, conn.Code)
				require.Len(t, conn.waits, 1)
				require.Positive(t, conn.waits[0])
				require.LessOrEqual(t, conn.waits[0], 30*time.Second)
			})
		}
	}

	t.Run("IsOverOnceTheBodyIsRead", func(t *testing.T) {
		t.Parallel()
		conn := &slowConn{ResponseRecorder: httptest.NewRecorder()}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", strings.NewReader(`{"query": "{ viewer { role } }"}`))
		req.Header.Set("Content-Type", "application/json")

		handler.ServeHTTP(conn, req)

		require.Equal(t, http.StatusOK, conn.Code)
		require.Zero(t, conn.deadline)
	})
}
