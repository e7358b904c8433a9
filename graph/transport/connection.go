package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/httpguard"
)

// subprotocol is the only one that sockets support.
const subprotocol = "graphql-transport-ws"

// Close codes of RFC 6455 and, from 4400, of the protocol.
const (
	closeNormal          = 1000
	closeProtocolError   = 1002
	closeInternal        = 1011
	closeRestart         = 1012
	closeTryAgain        = 1013
	closeBadMessage      = 4400
	closeUnauthenticated = 4401
	closeSubprotocol     = 4406
	closeInitTimeout     = 4408
	closeDuplicate       = 4409
	closeInitAgain       = 4429
)

const (
	// initTimeout is how long a client may take to send connection_init.
	initTimeout = 5 * time.Second
	// maxOperations bounds the operations that run on one socket.
	maxOperations = 20
	// maxMessage bounds a message from a client.
	maxMessage = 64 << 10
	// closeTime is how long a client may take to answer a close frame.
	closeTime = 5 * time.Second
	// pingEvery is the time between two pings. It keeps proxies from closing a silent
	// socket.
	pingEvery = 10 * time.Second
	// maxUnanswered pings without any message from the client end its socket.
	maxUnanswered = 2
)

// socket is one connection. One goroutine reads its messages, and one runs each of its
// operations. An operation that uses Follow has another one for its source.
type socket struct {
	server   *Sockets
	ws       *websocket.Conn
	conn     *framedConn // below ws
	guarded  *httpguard.Conn
	remote   string // host:port of the client
	executor graphql.GraphExecutor

	// ctx is the context of the operations. connection_init sets the principal in it.
	ctx     context.Context
	end     context.CancelFunc
	release func() // returns the socket's slot under its key
	closing atomic.Bool
	timer   *time.Timer // until connection_init, then until the next ping
	running sync.WaitGroup

	mu         sync.Mutex // also orders the messages that are written
	begun      bool       // connection_init has come
	acked      bool       // connection_init is answered
	unanswered int        // pings
	operations map[string]*operation
}

func (t *Sockets) newSocket(ws *websocket.Conn, conn *framedConn, r *http.Request, executor graphql.GraphExecutor) *socket {
	ws.SetReadLimit(maxMessage)
	s := &socket{
		server: t, ws: ws, conn: conn, guarded: httpguard.ConnOf(r.Context()), executor: executor,
		remote: strings.Clone(r.RemoteAddr), release: func() {}, operations: map[string]*operation{},
	}
	s.ctx, s.end = context.WithCancel(WithCaller(context.Background(), Caller{Base: strings.Clone(t.Base(r))}))
	s.timer = time.AfterFunc(initTimeout, s.tick)
	return s
}

// serve reads messages until the connection ends. Nothing of the socket runs after it
// returns.
func (s *socket) serve() {
	defer s.leave()
	if s.ws.Subprotocol() != subprotocol {
		s.close(closeSubprotocol, "Subprotocol not acceptable")
		return
	}
	for {
		kind, raw, err := s.ws.Read(context.Background())
		if errors.Is(err, errTooManyFrames) {
			s.close(closeTryAgain, string(apierror.CodeRateLimited))
			return
		}
		if err != nil && s.conn.frames.unmasked {
			s.close(closeProtocolError, "Frames of a client are masked")
			return
		}
		if err != nil {
			// After a message that is too large, the library has sent a close frame. close
			// gives the client time to read it.
			s.close(closeNormal, "")
			return
		}
		if v := s.take(kind, raw); v != nil {
			s.close(v.code, v.reason)
			return
		}
	}
}

// leave ends what runs on the connection, and waits for it.
func (s *socket) leave() {
	s.end()
	s.mu.Lock()
	s.closing.Store(true) // tick starts the timer no more
	s.timer.Stop()
	s.mu.Unlock()
	s.release()
	_ = s.ws.CloseNow()
	s.running.Wait()
}

// close closes the connection with a code, unless it is being closed already. It waits
// closeTime for the client's answer.
func (s *socket) close(code int, reason string) {
	if !s.closing.CompareAndSwap(false, true) {
		return
	}
	s.end()
	// The library waits for the rest of a message without a deadline.
	_ = s.conn.SetReadDeadline(time.Now().Add(closeTime))
	_ = s.ws.Close(websocket.StatusCode(code), failure.Clip(reason, 123))
}

// tick runs when connection_init is late, and later whenever a ping is due.
func (s *socket) tick() {
	s.mu.Lock()
	begun := s.begun
	s.unanswered++
	gone := s.unanswered > maxUnanswered
	s.mu.Unlock()
	switch {
	case !begun:
		s.close(closeInitTimeout, "Connection initialisation timeout")
	case gone:
		_ = s.ws.CloseNow()
	default:
		s.ping()
	}
}

// ping sends a ping, and starts the timer for the next one.
func (s *socket) ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(message{Type: "ping"})
	if !s.closing.Load() {
		s.timer.Reset(pingEvery)
	}
}

// send writes a message that belongs to no operation.
func (s *socket) send(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(m)
}

// write writes a message. It ends the connection if the client does not read it in time.
// The caller holds mu.
func (s *socket) write(m message) {
	if s.closing.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.server.WriteTimeout)
	defer cancel()
	err := s.ws.Write(ctx, websocket.MessageText, m.encode())
	if err != nil && !errors.Is(err, net.ErrClosed) { // a closed connection ends by itself
		s.closing.Store(true)
		s.end()
		_ = s.conn.Close() // ends serve
	}
}
