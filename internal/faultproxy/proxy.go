// Package faultproxy is a TCP proxy between a client and a server that breaks their
// connections on request: it cuts, delays or holds them, or loses one answer.
package faultproxy

import (
	"cmp"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy forwards connections to a server, at first without faults.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	dial    func() (net.Conn, error)
	cut     bool
	hung    bool
	fault   *Fault
	lose    func(answer []byte) bool
	lost    int
	refused int
	breaks  int // how often all links were broken
	links   map[*link]bool
}

// link is a client's connection and the server's.
type link struct {
	client, server net.Conn
	luck           float64 // a fault disturbs the links whose luck is less than its share
	limited        int     // bytes that the client got under a limit
}

// Fault is what happens to the answers of the server.
type Fault struct {
	// Share of the connections that the fault disturbs; 0 means all.
	Share float64
	// Delay, plus or minus up to Jitter, is the time that each part of an answer takes longer.
	Delay, Jitter time.Duration
	// SlowClose is how long a connection stays open that the server has closed.
	SlowClose time.Duration
	// Hold keeps the answers back until the fault is over.
	Hold bool
	// Reset breaks connections with a RST, in place of the next answer at the latest.
	Reset bool
	// Limit is how many more bytes a connection carries before it breaks; 0 means no limit.
	Limit int
}

func (f *Fault) disturbs(l *link) bool { return f != nil && l.luck < cmp.Or(f.Share, 1) }

// New starts a proxy to the server at target. The proxy ends with the test.
func New(t testing.TB, network, target string) *Proxy {
	t.Helper()
	p, err := Open(dialer(network, target))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Open starts a proxy on a port of the loopback interface. It connects each client to what dial
// returns. It must be closed.
func Open(dial func() (net.Conn, error)) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, dial: dial, links: map[*link]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	return p, nil
}

func dialer(network, target string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.Dial(network, target) }
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// Addr returns the proxy's address as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Port returns the port of Addr.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Cut breaks all connections, and every new one as soon as it is accepted.
func (p *Proxy) Cut() { p.set(func() { p.cut, p.hung = true, false; p.breakAll() }) }

// Hang holds back every byte until Heal, on new connections too.
func (p *Proxy) Hang() { p.set(func() { p.hung = true }) }

// Disturb applies a fault until Heal.
func (p *Proxy) Disturb(f Fault) {
	p.set(func() {
		p.fault = &f
		for l := range p.links {
			if f.Reset && f.disturbs(l) {
				p.end(l, true)
			}
		}
	})
}

// Heal forwards everything again, beginning with the held back bytes.
func (p *Proxy) Heal() { p.set(func() { p.cut, p.hung, p.fault = false, false, nil }) }

// Lead sends new connections to another server.
func (p *Proxy) Lead(network, target string) {
	p.set(func() { p.dial = dialer(network, target); p.breakAll() })
}

// Lose breaks each connection on which the server sends an answer that matches,
// instead of forwarding it. A nil match ends this.
func (p *Proxy) Lose(match func(answer []byte) bool) { p.set(func() { p.lose = match }) }

// Refused returns how many connections were broken on acceptance.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Lost returns how many answers were lost.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// breakAll breaks all links, and those that are being made. The caller holds mu.
func (p *Proxy) breakAll() {
	p.breaks++
	for l := range p.links {
		p.end(l, false)
	}
}

// end closes a link, with a RST to the client if reset is set. The caller holds mu.
func (p *Proxy) end(l *link, reset bool) {
	if tcp, ok := l.client.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	l.client.Close()
	l.server.Close()
	delete(p.links, l)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() {
			l := p.connect(client)
			if l == nil {
				client.Close()
				return
			}
			p.running.Go(func() { p.pump(l, l.server, client, false) })
			p.pump(l, client, l.server, true)
		})
	}
}

// connect makes the link of a client's connection. It returns nil if that is not possible. It does
// not hold mu while it dials, since a server may take its time.
func (p *Proxy) connect(client net.Conn) *link {
	p.mu.Lock()
	cut, dial, breaks := p.cut, p.dial, p.breaks
	if cut {
		p.refused++
	}
	p.mu.Unlock()
	if cut {
		return nil
	}
	server, err := dial()
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.breaks != breaks {
		server.Close()
		return nil
	}
	l := &link{client: client, server: server, luck: rand.Float64()}
	p.links[l] = true
	return l
}

// pump forwards bytes in one direction until either side ends, then closes both.
func (p *Proxy) pump(l *link, to, from net.Conn, answers bool) {
	defer p.set(func() { p.end(l, false) })
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.forward(l, to, buffer[:n], answers) {
			return
		}
		if err != nil {
			if answers {
				time.Sleep(p.slowClose(l))
			}
			return
		}
	}
}

// forward writes a part of what one side has sent, as the faults have it. It reports whether the
// link goes on.
func (p *Proxy) forward(l *link, to net.Conn, part []byte, answers bool) bool {
	if !p.may(l, answers) {
		return false
	}
	last := false
	if answers {
		if part, last = p.disturb(l, part); part == nil {
			return false
		}
	}
	_, err := to.Write(part)
	return err == nil && !last
}

// may waits while the proxy holds the bytes back, and reports whether the link still exists.
func (p *Proxy) may(l *link, answers bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.links[l] && (p.hung || answers && p.fault.disturbs(l) && p.fault.Hold) {
		p.changed.Wait()
	}
	return p.links[l]
}

// disturb returns what of an answer the client gets, and whether the link ends with it.
func (p *Proxy) disturb(l *link, answer []byte) (rest []byte, last bool) {
	p.mu.Lock()
	if p.lose != nil && p.lose(answer) {
		p.lost++
		p.mu.Unlock()
		return nil, true
	}
	f := p.fault
	if f.disturbs(l) && f.Reset {
		p.end(l, true)
	}
	p.mu.Unlock()
	switch {
	case !f.disturbs(l):
		return answer, false
	case f.Reset:
		return nil, true
	case f.Delay > 0:
		time.Sleep(f.Delay - f.Jitter + rand.N(2*f.Jitter+1))
	case f.Limit > 0:
		room := max(0, f.Limit-l.limited)
		l.limited += len(answer)
		return answer[:min(room, len(answer))], len(answer) >= room
	}
	return answer, false
}

func (p *Proxy) slowClose(l *link) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.fault.disturbs(l) {
		return 0
	}
	return p.fault.SlowClose
}
