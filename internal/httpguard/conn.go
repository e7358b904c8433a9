package httpguard

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds limit the connections that a server has open at once.
type Bounds struct {
	All        int // all connections
	Unknown    int // connections of callers that have not shown a valid key, session or link
	PerAddress int // unknown connections from one address, except loopback, where a proxy may run
}

// BoundsFor returns the bounds of a process that can have this many files open. It leaves
// a quarter of them for everything else.
func BoundsFor(files uint64) Bounds {
	all := int(min(files, 1<<20) * 3 / 4)
	unknown := min(2000, all/2)
	return Bounds{All: all, Unknown: unknown, PerAddress: min(200, unknown/4)}
}

// Connections are the open connections of a server. When a bound is reached, a new
// connection replaces the oldest one for which no handler is working: its client is silent,
// sends slowly, or reads slowly. If there is none, the new connection is closed at once.
type Connections struct {
	bounds Bounds

	mu      sync.Mutex
	known   list.List                   // oldest first, like the other lists
	unknown list.List                   //
	from    map[netip.Prefix]*list.List // unknown connections by address
	warned  time.Time
}

// NewConnections returns an empty set of connections with these bounds.
func NewConnections(bounds Bounds) *Connections {
	return &Connections{bounds: bounds, from: map[netip.Prefix]*list.List{}}
}

// Listen returns a listener that applies the bounds to the connections it accepts. Wrap it
// in TLS, not the reverse.
func (c *Connections) Listen(on net.Listener) net.Listener { return &listener{on, c} }

type listener struct {
	net.Listener
	all *Connections
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &Conn{Conn: accepted, all: l.all, address: addressOf(accepted)}
		victim, admitted := l.all.admit(conn)
		if victim != nil {
			_ = victim.Conn.Close()
		}
		if admitted {
			return conn, nil
		}
		_ = accepted.Close()
	}
}

// addressOf returns the client's IPv4 address, or the /64 network of its IPv6 address,
// since one machine can use all addresses of a /64. For loopback it returns an invalid prefix.
func addressOf(conn net.Conn) netip.Prefix {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || at.Addr().Unmap().IsLoopback() {
		return netip.Prefix{}
	}
	address, bits := at.Addr().Unmap().WithZone(""), 64
	if address.Is4() {
		bits = 32
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}

// admit adds a connection unless there is no room for it. The caller must close the
// victim, the connection that it replaced, if any.
func (c *Connections) admit(conn *Conn) (victim *Conn, admitted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.from[conn.address]
	full := true
	switch {
	case conn.address.IsValid() && from != nil && from.Len() >= c.bounds.PerAddress:
		victim = oldestWaiting(from)
	case c.unknown.Len() >= c.bounds.Unknown:
		victim = oldestWaiting(&c.unknown)
	case c.known.Len()+c.unknown.Len() >= c.bounds.All:
		if victim = oldestWaiting(&c.unknown); victim == nil {
			victim = oldestWaiting(&c.known)
		}
	default:
		full = false
	}
	if full {
		c.warn(conn)
		if victim == nil {
			return nil, false
		}
		c.remove(victim)
	}
	if from = c.from[conn.address]; from == nil {
		from = list.New()
		c.from[conn.address] = from
	}
	conn.place, conn.placeFrom = c.unknown.PushBack(conn), from.PushBack(conn)
	return victim, true
}

func oldestWaiting(of *list.List) *Conn {
	for e := of.Front(); e != nil; e = e.Next() {
		if conn := e.Value.(*Conn); conn.working.Load() == 0 {
			return conn
		}
	}
	return nil
}

// warn logs, at most once a minute, that a bound is reached. The caller holds mu.
func (c *Connections) warn(conn *Conn) {
	if time.Since(c.warned) < time.Minute {
		return
	}
	c.warned = time.Now()
	slog.Warn("too many connections are open; the oldest idle ones are closed", "address", conn.RemoteAddr().String(),
		"without_key", c.unknown.Len(), "with_key", c.known.Len())
}

// remove removes a connection unless it is already removed. The caller holds mu.
func (c *Connections) remove(conn *Conn) {
	if conn.place == nil {
		return
	}
	if conn.placeFrom == nil {
		c.known.Remove(conn.place)
	} else {
		c.unknown.Remove(conn.place)
		c.leave(conn)
	}
	conn.place = nil
}

// leave removes a connection from the unknown ones of its address. The caller holds mu.
func (c *Connections) leave(conn *Conn) {
	from := c.from[conn.address]
	from.Remove(conn.placeFrom)
	if from.Len() == 0 {
		delete(c.from, conn.address)
	}
	conn.placeFrom = nil
}

// Conn is one of the connections. The methods that handlers use do nothing on nil, so that
// handlers also work without Connections.
type Conn struct {
	net.Conn
	all     *Connections
	address netip.Prefix
	working atomic.Int64 // handlers that work and do not wait for the client

	// Guarded by all.mu. place is nil once the connection is closed, placeFrom once it is
	// known.
	place, placeFrom *list.Element
	hijacked         bool
}

type connKey struct{}

// ConnContext is for the field of the same name of http.Server. It makes ConnOf work.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if bounded, ok := conn.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, bounded)
	}
	return ctx
}

// ConnOf returns the connection of a request, or nil.
func ConnOf(ctx context.Context) *Conn {
	conn, _ := ctx.Value(connKey{}).(*Conn)
	return conn
}

// MarkKnown is called when a request has shown a valid key, session or signed link. The
// connection then no longer counts as unknown.
func (c *Conn) MarkKnown() {
	if c == nil {
		return
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.place == nil || c.placeFrom == nil {
		return
	}
	c.all.unknown.Remove(c.place)
	c.all.leave(c)
	c.place = c.all.known.PushBack(c)
	if c.hijacked {
		c.working.Add(1)
	}
}

// keep is called when the connection is hijacked, for example for a WebSocket. From then
// on it never counts as idle, provided that its caller is known.
func (c *Conn) keep() {
	if c == nil {
		return
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.hijacked = true
	if c.placeFrom == nil {
		c.working.Add(1)
	}
}

// work is called when a handler begins to work; wait is called when it waits for the
// client or ends.
func (c *Conn) work() {
	if c != nil {
		c.working.Add(1)
	}
}

func (c *Conn) wait() {
	if c != nil {
		c.working.Add(-1)
	}
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.all.mu.Lock()
	c.all.remove(c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets net/http send everything written before it closes the connection.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
