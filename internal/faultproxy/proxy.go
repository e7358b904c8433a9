// Package faultproxy is a TCP proxy between a test and a server that breaks the
// connection on request: it cuts it, delays it, or loses one answer.
package faultproxy

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy forwards connections to a server, at first without faults.
type Proxy struct {
	listener net.Listener

	mu      sync.Mutex
	changed *sync.Cond
	network string
	target  string
	cut     bool
	hung    bool
	lose    func(answer []byte) bool
	lost    int
	refused int
	conns   map[net.Conn]bool
}

// New starts a proxy to the server at target, on a port of the loopback interface.
// The proxy ends with the test.
func New(t testing.TB, network, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{listener: listener, network: network, target: target, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	var running sync.WaitGroup
	running.Go(func() { p.accept(&running) })
	t.Cleanup(func() {
		listener.Close()
		p.Cut()
		running.Wait()
	})
	return p
}

// Addr returns the proxy's address as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Port returns the port of Addr.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Cut breaks all connections, and every new one as soon as it is accepted.
func (p *Proxy) Cut() { p.set(func() { p.cut, p.hung = true, false; p.breakAll() }) }

// Break breaks the existing connections.
func (p *Proxy) Break() { p.set(p.breakAll) }

// Hang holds back every byte until Heal, on new connections too.
func (p *Proxy) Hang() { p.set(func() { p.hung = true }) }

// Heal forwards everything again, beginning with the held back bytes.
func (p *Proxy) Heal() { p.set(func() { p.cut, p.hung = false, false }) }

// Lead sends new connections to another server.
func (p *Proxy) Lead(network, target string) {
	p.set(func() { p.network, p.target = network, target; p.breakAll() })
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

func (p *Proxy) breakAll() {
	for conn := range p.conns {
		conn.Close()
	}
	clear(p.conns)
}

func (p *Proxy) accept(running *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, ok := p.connect(client)
		if !ok {
			client.Close()
			continue
		}
		running.Go(func() { p.pump(server, client, nil) })
		running.Go(func() { p.pump(client, server, p.loses) })
	}
}

// connect opens the connection to the server for a client's connection.
func (p *Proxy) connect(client net.Conn) (net.Conn, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		p.refused++
		return nil, false
	}
	server, err := net.Dial(p.network, p.target)
	if err != nil {
		return nil, false
	}
	p.conns[client], p.conns[server] = true, true
	return server, true
}

// pump forwards bytes in one direction until either side ends, then closes both.
func (p *Proxy) pump(to, from net.Conn, loses func([]byte) bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && (!p.may(from) || loses != nil && loses(buffer[:n])) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// may waits while the proxy hangs and reports whether the connection still exists.
func (p *Proxy) may(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.hung && p.conns[conn] {
		p.changed.Wait()
	}
	return p.conns[conn]
}

func (p *Proxy) loses(answer []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lose == nil || !p.lose(answer) {
		return false
	}
	p.lost++
	return true
}
