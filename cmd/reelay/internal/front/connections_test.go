package front

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/stretchr/testify/require"
)

// Unknown connections only compete with each other.
func TestServe_LimitsConnectionsWithoutAKey(t *testing.T) {
	t.Parallel()
	address, _, _ := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/known" {
			httpguard.ConnOf(r.Context()).MarkKnown()
		}
	})
	dial := func() (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		return conn, bufio.NewReader(conn)
	}
	ask := func(conn net.Conn, from *bufio.Reader) {
		_, err := io.WriteString(conn, "GET /known HTTP/1.1\r\nHost: a\r\n\r\n")
		require.NoError(t, err)
		res, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	friend, fromFriend := dial()
	ask(friend, fromFriend)
	first, fromFirst := dial()
	_, err := io.WriteString(first, "POST / HTTP/1.1\r\nHost: a\r\n")
	require.NoError(t, err)

	for range httpguard.BoundsFor(maxFiles()).Unknown {
		dial()
	}

	_, err = fromFirst.ReadByte()
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	ask(friend, fromFriend)
	ask(dial())
}

func TestServe_TimesOutATLSHandshake(t *testing.T) {
	t.Parallel()
	files, err := SelfSigned(t.TempDir(), "")
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, files, http.NotFoundHandler()) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

	_, err = conn.Read(make([]byte, 1))

	require.ErrorIs(t, err, io.EOF)
	secure, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	require.NoError(t, secure.Close())
	end()
	require.NoError(t, <-ended)
}
