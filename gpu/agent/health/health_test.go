package health_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/agent/health"
	"github.com/stretchr/testify/require"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

func TestHandler(t *testing.T) {
	t.Parallel()
	probes := health.New(2)
	server := httptest.NewServer(probes.Handler())
	defer server.Close()
	type answer struct {
		status int
		body   string
	}
	ready := func() answer { status, body := get(t, server.URL+"/readyz"); return answer{status, body} }

	require.Equal(t, answer{503, "worker 0 is not ready: it starts\nworker 1 is not ready: it starts\n"}, ready())
	probes.Set(0, func() string { return "" })
	require.Equal(t, answer{503, "worker 1 is not ready: it starts\n"}, ready())
	probes.Set(1, func() string { return "" })
	require.Equal(t, answer{200, "ok\n"}, ready())
	probes.Set(1, func() string { return "a\nb" })
	require.Equal(t, answer{503, "worker 1 is not ready: a b\n"}, ready())
	status, body := get(t, server.URL+"/healthz")
	require.Equal(t, answer{200, "ok\n"}, answer{status, body})

	for _, path := range []string{"/", "/metrics", "/healthz/x", "/readyz?x=1&y", "/%00"} {
		status, _ := get(t, server.URL+path)
		require.Contains(t, []int{404, 503}, status, path)
	}
	posted, err := http.Post(server.URL+"/healthz", "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	posted.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, posted.StatusCode)
	var none *health.Probes
	none.Set(0, nil)
}

func TestServe(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, bad := range []string{taken.Addr().String(), "8081", ":99999", "nowhere.invalid:1", "256.1.1.1:80"} {
		require.Error(t, health.New(1).Serve(t.Context(), bad, slog.New(slog.DiscardHandler)), bad)
	}

	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	free.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	require.NoError(t, health.New(1).Serve(ctx, address, slog.New(slog.DiscardHandler)))
	status, _ := get(t, "http://"+address+"/healthz")
	require.Equal(t, http.StatusOK, status)

	long, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/healthz", nil)
	require.NoError(t, err)
	long.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	answer, err := http.DefaultClient.Do(long)
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, answer.StatusCode)

	// A caller that says nothing is cut off.
	silent, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer silent.Close()
	require.NoError(t, silent.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = silent.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
