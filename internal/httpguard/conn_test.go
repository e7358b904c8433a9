package httpguard_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/stretchr/testify/require"
)

func TestBoundsFor(t *testing.T) {
	t.Parallel()

	for files, want := range map[uint64]httpguard.Bounds{
		256:           {All: 192, Unknown: 96, PerAddress: 24},
		1024:          {All: 768, Unknown: 384, PerAddress: 96},
		20_000:        {All: 15_000, Unknown: 2000, PerAddress: 200},
		1<<63 + 1<<62: {All: 786_432, Unknown: 2000, PerAddress: 200},
	} {
		require.Equal(t, want, httpguard.BoundsFor(files), files)
	}
}

// guest is a server with bounds on its connections. They come from loopback unless the
// listener is renamed.
type guest struct {
	*httptest.Server
	working chan struct{} // a value for each request to /slow whose handler is working
	release chan struct{}
}

func newGuest(t *testing.T, bounds httpguard.Bounds, from string) *guest {
	g := &guest{working: make(chan struct{}, 100), release: make(chan struct{})}
	g.Server = httptest.NewUnstartedServer(httpguard.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			httpguard.ConnOf(r.Context()).MarkKnown()
		}
		switch r.URL.Path {
		case "/slow":
			g.working <- struct{}{}
			<-g.release
		case "/socket":
			conn, _, err := http.NewResponseController(w).Hijack()
			require.NoError(t, err)
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			t.Cleanup(func() { conn.Close() })
			return
		}
		fmt.Fprint(w, "served")
	}), nil))
	g.Config.ConnContext = httpguard.ConnContext
	listener := g.Listener
	if from != "" {
		listener = renamed{g.Listener, netip.MustParseAddr(from)}
	}
	g.Listener = httpguard.NewConnections(bounds).Listen(listener)
	g.Start()
	t.Cleanup(g.Close)
	t.Cleanup(func() { close(g.release) })
	return g
}

// renamed is a listener whose connections seem to come from the address from.
type renamed struct {
	net.Listener
	from netip.Addr
}

func (l renamed) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return renamedConn{conn, l.from}, err
}

type renamedConn struct {
	net.Conn
	from netip.Addr
}

func (c renamedConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.from, 1000))
}

// client is one connection.
type client struct {
	net.Conn
	from *bufio.Reader
}

func (g *guest) dial(t *testing.T) *client {
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return &client{conn, bufio.NewReader(conn)}
}

func (c *client) send(t *testing.T, path, header string) {
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", path, header)
	require.NoError(t, err)
}

// ask sends a request and reads the answer.
func (c *client) ask(t *testing.T, path, header string) {
	c.send(t, path, header)
	c.requireServed(t)
}

func (c *client) requireServed(t *testing.T) {
	res, err := http.ReadResponse(c.from, nil)
	require.NoError(t, err)
	if res.StatusCode != http.StatusSwitchingProtocols {
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
}

// requireEnd waits for the server to close the connection.
func (c *client) requireEnd(t *testing.T) {
	var timeout net.Error
	_, err := c.from.ReadByte()
	require.Error(t, err)
	require.NotErrorAs(t, err, &timeout)
}

const known = "Authorization: Bearer a\r\n"

func TestConnections(t *testing.T) {
	t.Parallel()

	t.Run("AreReplacedByNewOnesWhileTheyAreUnknown", func(t *testing.T) {
		t.Parallel()
		g := newGuest(t, httpguard.Bounds{All: 100, Unknown: 3, PerAddress: 1}, "")
		silent, idle, sending := g.dial(t), g.dial(t), g.dial(t)
		idle.ask(t, "/", "")
		_, err := io.WriteString(sending, "GET / HTTP/1.1\r\n")
		require.NoError(t, err)

		for _, victim := range []*client{silent, idle, sending} {
			g.dial(t).ask(t, "/", "")
			victim.requireEnd(t)
		}
	})

	t.Run("AreNotClosedWhileTheirHandlerWorks", func(t *testing.T) {
		t.Parallel()
		g := newGuest(t, httpguard.Bounds{All: 100, Unknown: 2, PerAddress: 1}, "")
		working, idle := g.dial(t), g.dial(t)
		working.send(t, "/slow", "")
		<-g.working
		idle.ask(t, "/", "")

		another := g.dial(t)
		another.send(t, "/slow", "")
		<-g.working
		idle.requireEnd(t)
		g.dial(t).requireEnd(t)

		g.release <- struct{}{}
		g.release <- struct{}{}
		working.requireServed(t)
		another.requireServed(t)
		g.dial(t).ask(t, "/", "")
	})

	t.Run("AreNotClosedOnceTheyAreKnown", func(t *testing.T) {
		t.Parallel()
		g := newGuest(t, httpguard.Bounds{All: 100, Unknown: 2, PerAddress: 2}, "192.0.2.1")
		var friends []*client
		for range 5 {
			friend := g.dial(t)
			friend.ask(t, "/", known)
			friends = append(friends, friend)
		}

		for range 10 {
			g.dial(t).ask(t, "/", "")
		}

		for _, friend := range friends {
			friend.ask(t, "/", "")
		}
	})

	for name, c := range map[string]struct {
		from  string
		bound bool
	}{
		"OfOneAddress":       {"192.0.2.1", true},
		"OfOneIPv6Network":   {"2001:db8::1", true},
		"OfOneMappedAddress": {"::ffff:192.0.2.1", true},
		"ButNotOfLoopback":   {"::1", false},
	} {
		t.Run("AreBounded"+name, func(t *testing.T) {
			t.Parallel()
			g := newGuest(t, httpguard.Bounds{All: 100, Unknown: 50, PerAddress: 2}, c.from)
			first, second := g.dial(t), g.dial(t)
			first.ask(t, "/", "")
			second.ask(t, "/", "")

			g.dial(t).ask(t, "/", "")

			if c.bound {
				first.requireEnd(t)
			} else {
				first.ask(t, "/", "")
			}
			second.ask(t, "/", "")
		})
	}

	t.Run("AreReplacedWhenThereAreTooManyInAll", func(t *testing.T) {
		t.Parallel()
		g := newGuest(t, httpguard.Bounds{All: 3, Unknown: 3, PerAddress: 3}, "192.0.2.1")
		socket, idle, unknown := g.dial(t), g.dial(t), g.dial(t)
		socket.ask(t, "/socket", known)
		idle.ask(t, "/", known)
		unknown.ask(t, "/", "")

		third := g.dial(t)
		third.ask(t, "/socket", known)
		unknown.requireEnd(t)
		fourth := g.dial(t)
		fourth.ask(t, "/", known)
		idle.requireEnd(t)
		fourth.send(t, "/slow", known)
		<-g.working

		g.dial(t).requireEnd(t)
	})

	t.Run("OfUnknownWebSocketsCount", func(t *testing.T) {
		t.Parallel()
		g := newGuest(t, httpguard.Bounds{All: 100, Unknown: 1, PerAddress: 1}, "")
		socket := g.dial(t)
		socket.ask(t, "/socket", "")

		g.dial(t).ask(t, "/", "")

		socket.requireEnd(t)
	})

	t.Run("MakeRoomWhenTheyEnd", func(t *testing.T) {
		t.Parallel()
		g := newGuest(t, httpguard.Bounds{All: 2, Unknown: 2, PerAddress: 2}, "192.0.2.1")
		lasting := g.dial(t)
		lasting.ask(t, "/", "")

		for range 10 {
			c := g.dial(t)
			c.ask(t, "/", "Connection: close\r\n")
			c.requireEnd(t)
		}

		lasting.ask(t, "/", "")
	})

	// A flood replaces only unknown connections and does not keep a new client out.
	t.Run("AdmitNewClientsDuringAFlood", func(t *testing.T) {
		t.Parallel()
		g := newGuest(t, httpguard.Bounds{All: 200, Unknown: 20, PerAddress: 20}, "")
		friend := g.dial(t)
		friend.ask(t, "/", known)
		for range 300 {
			_, err := io.WriteString(g.dial(t), "POST / HTTP/1.1\r\nHost: a\r\n")
			require.NoError(t, err)
		}

		friend.ask(t, "/", "")
		g.dial(t).ask(t, "/", known)
	})
}
