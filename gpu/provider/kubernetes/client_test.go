package kubernetes_test

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/provider/kubernetes"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// TestConnectionToAServerThatVanished loses all packets of the connection over which calls go, without a word to either
// side, as a load balancer does that was replaced. A new connection works.
func TestConnectionToAServerThatVanished(t *testing.T) {
	t.Parallel()
	var front *vanishing
	c := setup(t, func(config *kubernetes.Config) {
		address, err := url.Parse(config.URL)
		require.NoError(t, err)
		front = newVanishing(t, address.Host)
		config.URL = "https://" + front.Addr().String()
		config.CallTimeout = 300 * time.Millisecond
	})
	testrun.Eventually(t, "the provider is connected", func() bool {
		_, err := c.List(t.Context(), c.pool)
		return err == nil
	})
	require.Equal(t, "HTTP/2.0", c.protocol(t))

	front.gone.Store(front.connections.Load())

	testrun.Eventually(t, "calls go over another connection", func() bool {
		_, err := c.List(t.Context(), c.pool)
		return err == nil
	})
}

// protocol returns the protocol of the server.
func (c *cluster) protocol(t *testing.T) string {
	t.Helper()
	response, err := c.Server.Client().Get(c.URL)
	require.NoError(t, err)
	response.Body.Close()
	require.NotEqual(t, http.StatusOK, response.StatusCode)
	return response.Proto
}

// vanishing forwards connections. What comes over the first gone of them is lost.
type vanishing struct {
	net.Listener
	connections, gone atomic.Int32
}

func newVanishing(t *testing.T, target string) *vanishing {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	v := &vanishing{Listener: listener}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			number := v.connections.Add(1)
			pump := func(to, from net.Conn) {
				defer to.Close()
				_, _ = io.Copy(writerFunc(func(data []byte) (int, error) {
					if number <= v.gone.Load() {
						return len(data), nil
					}
					return to.Write(data)
				}), from)
			}
			go pump(server, client)
			go pump(client, server)
		}
	}()
	return v
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }
