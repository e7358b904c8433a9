package faultproxy_test

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/faultproxy"
	"github.com/stretchr/testify/require"
)

// answering starts a server that answers each connection with 1,000 bytes and closes it, once it
// has received a byte.
func answering(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1))
				_, _ = conn.Write(make([]byte, 1000))
			}()
		}
	}()
	return listener.Addr().String()
}

func TestDisturb(t *testing.T) {
	t.Parallel()

	const (
		longer = 150 * time.Millisecond
		soon   = 100 * time.Millisecond
	)
	for name, c := range map[string]struct {
		fault faultproxy.Fault
		bytes int
		least time.Duration // until the connection ends
		err   error
	}{
		"Delays":      {faultproxy.Fault{Delay: longer}, 1000, longer, nil},
		"ClosesLate":  {faultproxy.Fault{SlowClose: longer}, 1000, longer, nil},
		"Resets":      {faultproxy.Fault{Reset: true}, 0, 0, syscall.ECONNRESET},
		"CutsShort":   {faultproxy.Fault{Limit: 700}, 700, 0, nil},
		"SparesOther": {faultproxy.Fault{Share: 1e-12, Reset: true}, 1000, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			proxy := faultproxy.New(t, "tcp", answering(t))
			proxy.Disturb(c.fault)
			conn, err := net.Dial("tcp", proxy.Addr())
			require.NoError(t, err)
			defer conn.Close()
			began := time.Now()
			_, err = conn.Write([]byte("?"))
			require.NoError(t, err)

			answer, err := io.ReadAll(conn)

			require.ErrorIs(t, err, c.err)
			require.Len(t, answer, c.bytes)
			require.GreaterOrEqual(t, time.Since(began), c.least)
		})
	}

	t.Run("HoldsAnswersUntilItHeals", func(t *testing.T) {
		t.Parallel()

		proxy := faultproxy.New(t, "tcp", answering(t))
		proxy.Disturb(faultproxy.Fault{Hold: true})
		conn, err := net.Dial("tcp", proxy.Addr())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte("?"))
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(soon)))
		_, err = conn.Read(make([]byte, 1))
		require.ErrorContains(t, err, "timeout")

		proxy.Heal()

		require.NoError(t, conn.SetReadDeadline(time.Time{}))
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Len(t, answer, 1000)
	})
}
