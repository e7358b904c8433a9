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

// Bounds are how many connections a server has open at once.
type Bounds struct {
	All        int // of everyone
	Unknown    int // of callers that have shown no valid key, session or link
	PerAddress int // of these, from one address. Loopback has no such bound: a proxy may be there
}

// BoundsFor returns the bounds of a process that may have so many files open. A quarter of
// them is left for everything else.
func BoundsFor(files uint64) Bounds {
	all := int(min(files, 1<<20) * 3 / 4)
	unknown := min(2000, all/2)
	return Bounds{All: all, Unknown: unknown, PerAddress: min(200, unknown/4)}
}

// Connections are those that a server has open. When a bound is reached, a new one takes the
// place of the oldest for which no handler works: one that is silent, sends slowly, or reads
// slowly. If there is none it is closed at once.
type Connections struct {
	bounds Bounds

	mu      sync.Mutex
	known   list.List                   // the oldest first, as the others
	unknown list.List                   //
	from    map[netip.Prefix]*list.List // the unknown ones
	warned  time.Time
}

// NewConnections returns none, with these bounds.
func NewConnections(bounds Bounds) *Connections {
	return &Connections{bounds: bounds, from: map[netip.Prefix]*list.List{}}
}

// Listen returns the listener with the bounds on what it accepts. TLS comes on top of it.
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

// addressOf returns the client's address: an IPv4 address, or the /64 network of an IPv6
// one, since a single machine can have all addresses of that. It is not valid for loopback.
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

// admit adds a connection, if there is a place for it. It returns the one that gave its
// place up, which is to be closed.
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

// warn logs, once a minute, that a bound is reached. mu is held.
func (c *Connections) warn(conn *Conn) {
	if time.Since(c.warned) < time.Minute {
		return
	}
	c.warned = time.Now()
	slog.Warn("too many connections are open, the oldest idle ones are closed", "address", conn.RemoteAddr().String(),
		"without_key", c.unknown.Len(), "with_key", c.known.Len())
}

// remove forgets a connection, if it is not forgotten yet. mu is held.
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

// leave takes a connection out of those of its address that are not known. mu is held.
func (c *Connections) leave(conn *Conn) {
	from := c.from[conn.address]
	from.Remove(conn.placeFrom)
	if from.Len() == 0 {
		delete(c.from, conn.address)
	}
	conn.placeFrom = nil
}

// Conn is one of the connections. Its methods do nothing on nil, so that handlers also serve
// without Connections.
type Conn struct {
	net.Conn
	all     *Connections
	address netip.Prefix
	working atomic.Int64 // handlers that are at work, and not waiting for the client

	// Guarded by the mu of all. place is nil once the connection is closed, and placeFrom once
	// it is known.
	place, placeFrom *list.Element
	hijacked         bool
}

type connKey struct{}

// ConnContext is for http.Server.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if bounded, ok := conn.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, bounded)
	}
	return ctx
}

// ConnOf returns the connection that a request came by, or nil.
func ConnOf(ctx context.Context) *Conn {
	conn, _ := ctx.Value(connKey{}).(*Conn)
	return conn
}

// MarkKnown is called when a request showed a valid key, session or signed link: the
// connection no longer counts among those of unknown callers.
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

// keep is called when the connection is handed over, say for a WebSocket: it is never idle
// then, once its caller is known.
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

// work is called when a handler begins to work, and wait when it waits for the client or
// ends.
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

// CloseWrite lets net/http send all that it has written before it closes.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
