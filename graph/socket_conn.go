package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/auth"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// subprotocol is the only one that is spoken.
const subprotocol = "graphql-transport-ws"

// Close codes, those of the protocol and those of RFC 6455.
const (
	closeNormal          = 1000
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
	// initTimeout is how long a socket may be open before connection_init comes.
	initTimeout = 5 * time.Second
	// maxOperations bounds what one socket may have running.
	maxOperations = 20
	// maxMessage bounds a message on a socket.
	maxMessage = 64 << 10
	// A socket may send maxFrames at once, and framesPerSecond on average: messages, the
	// fragments of some, and control frames.
	maxFrames       = 200
	framesPerSecond = 50
	// closeTime is how long the other side has to answer a close frame.
	closeTime = 5 * time.Second
	// maxUnanswered pings end a socket, whose other side is gone.
	maxUnanswered = 2
)

// socket is one connection as graphql-transport-ws has it. It keeps one goroutine,
// which reads, and that on a small stack: thousands are open and silent.
type socket struct {
	ws       *websocket.Conn // it reads
	wire     *wire
	executor graphql.GraphExecutor
	keys     *auth.KeyWatch
	told     *told
	conn     *httpguard.Conn
	remote   string // host:port of the other side

	// ctx is that of all that runs on it. It is only written before the first
	// operation.
	ctx     context.Context
	end     context.CancelFunc
	release func() // gives its place under its key back
	closing atomic.Bool
	timer   *time.Timer // until connection_init, then until the next ping

	mu         sync.Mutex // also orders what is written
	begun      bool       // connection_init came
	acked      bool       // it was answered
	unanswered int        // pings
	operations map[string]*operation
}

func newSocket(ws *websocket.Conn, over *wire, r *http.Request, executor graphql.GraphExecutor, api *API) *socket {
	ws.SetReadLimit(maxMessage)
	s := &socket{
		ws: ws, wire: over, conn: httpguard.ConnOf(r.Context()), remote: strings.Clone(r.RemoteAddr), executor: executor,
		keys: api.keys, told: &api.sockets.told, release: func() {},
	}
	s.ctx, s.end = context.WithCancel(withBase(context.Background(), strings.Clone(api.base(r))))
	s.timer = time.AfterFunc(initTimeout, s.tick)
	return s
}

// serve reads until the connection is over.
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
		if err != nil {
			// Who sent too much still sends, and shall read why it was too much.
			s.close(closeNormal, "")
			return
		}
		// A goroutine's stack stays as large as it once was for long.
		taken := make(chan *violation)
		go func() { taken <- s.take(kind, raw) }()
		if v := <-taken; v != nil {
			s.close(v.code, v.reason)
			return
		}
	}
}

// leave ends what runs on the connection.
func (s *socket) leave() {
	s.end()
	s.timer.Stop()
	s.release()
}

// close ends the connection for a reason, unless it has another already. It waits
// some seconds for the other side's answer.
func (s *socket) close(code int, reason string) {
	if !s.closing.CompareAndSwap(false, true) {
		return
	}
	s.end()
	_ = s.wire.SetReadDeadline(time.Now().Add(closeTime)) // the library waits for the rest of a message without one
	_ = s.ws.Close(websocket.StatusCode(code), clip(reason, 123))
}

// tick is called when connection_init is late, and then whenever a ping is due.
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
		s.send(message{Type: "ping"})
		s.timer.Reset(pingEvery)
	}
}

// message is one message of the protocol.
type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// violation is why a connection is closed.
type violation struct {
	code   int
	reason string
}

var (
	errBadMessage   = &violation{closeBadMessage, "Invalid message received"}
	errSocketFailed = &violation{closeInternal, string(apierror.CodeInternal)}
)

// take does what a message asks for.
func (s *socket) take(kind websocket.MessageType, raw []byte) (v *violation) {
	defer func() {
		if p := recover(); p != nil {
			_ = recovered(context.Background(), p)
			v = errSocketFailed
		}
	}()
	if kind != websocket.MessageText || checkJSON(raw) != nil {
		return errBadMessage
	}
	var m message
	if json.Unmarshal(raw, &m) != nil || !isObject(raw) {
		return errBadMessage
	}
	s.mu.Lock()
	s.unanswered = 0
	s.mu.Unlock()
	switch m.Type {
	case "connection_init":
		return s.takeInit(m)
	case "ping", "pong":
		return s.takePing(m)
	case "subscribe":
		return s.takeSubscribe(m)
	case "complete":
		return s.takeComplete(m)
	}
	return errBadMessage
}

func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

func isNothing(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// takeInit finds out who calls.
func (s *socket) takeInit(m message) *violation {
	s.mu.Lock()
	again := s.begun
	s.begun = true
	s.mu.Unlock()
	var payload struct{ Authorization json.RawMessage }
	switch {
	case again:
		return &violation{closeInitAgain, "Too many initialisation requests"}
	case !isNothing(m.Payload) && (!isObject(m.Payload) || json.Unmarshal(m.Payload, &payload) != nil):
		return errBadMessage
	}
	var authorization string
	_ = json.Unmarshal(payload.Authorization, &authorization) // what is no string is no key
	key := bearer(authorization)
	ctx, cancel := context.WithTimeout(s.ctx, initTimeout)
	defer cancel()
	p, err := s.keys.Authenticate(ctx, key)
	switch {
	case errors.Is(err, apierror.ErrUnauthenticated):
		return &violation{closeUnauthenticated, "UNAUTHENTICATED"}
	case err != nil:
		_ = present(ctx, err) // reports it
		return &violation{closeTryAgain, "UNAVAILABLE"}
	}
	release, err := s.keys.Hold(key, func() { s.close(closeUnauthenticated, "UNAUTHENTICATED") })
	if err != nil {
		return &violation{closeTryAgain, string(apierror.CodeRateLimited)}
	}
	s.conn.MarkKnown()
	s.release = release
	s.ctx = withPrincipal(s.ctx, p.From(s.remote))
	s.mu.Lock()
	s.acked = true
	s.mu.Unlock()
	s.send(message{Type: "connection_ack"})
	s.timer.Reset(pingEvery)
	return nil
}

// takePing answers pings, which may come before connection_init.
func (s *socket) takePing(m message) *violation {
	if !isNothing(m.Payload) && !isObject(m.Payload) {
		return errBadMessage
	}
	if m.Type == "ping" {
		s.send(message{Type: "pong", Payload: m.Payload})
	}
	return nil
}

func (s *socket) takeSubscribe(m message) *violation {
	request, refused := decode(m.Payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, running := s.operations[m.ID]
	switch {
	case !s.acked:
		return &violation{closeUnauthenticated, "Unauthorized"}
	case m.ID == "" || refused != nil:
		return errBadMessage
	case running:
		return &violation{closeDuplicate, "Subscriber for " + clip(m.ID, 64) + " already exists"}
	case len(s.operations) >= maxOperations:
		refused, _ := json.Marshal(gqlerror.List{refusal(errOperations)})
		s.write(message{ID: m.ID, Type: "error", Payload: refused})
		return nil
	}
	if s.operations == nil {
		s.operations = map[string]*operation{}
	}
	o := newOperation(s, m.ID, m.Payload)
	s.operations[m.ID] = o
	go o.begin(request)
	return nil
}

var errOperations = apierror.Later(apierror.CodeRateLimited, time.Second,
	"%d operations run on this connection, which is all that it may have: end some, or open another.", maxOperations)

func (s *socket) takeComplete(m message) *violation {
	if m.ID == "" {
		return errBadMessage
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.operations[m.ID]; o != nil { // else it ended at the same moment
		s.free(o)
		o.end()
	}
	return nil
}

// free gives the operation's id back. mu is held.
func (s *socket) free(o *operation) {
	delete(s.operations, o.name)
	o.over = true
}

// send writes a message that is about no operation.
func (s *socket) send(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(m)
}

// write writes a message. mu is held.
func (s *socket) write(m message) {
	raw, err := json.Marshal(m)
	if err == nil {
		s.writeText(raw)
	}
}

// writeText writes a message of these parts, and ends the connection if the other side
// does not read. mu is held.
func (s *socket) writeText(parts ...[]byte) {
	if s.closing.Load() {
		return
	}
	if err := s.wire.writeText(parts...); err != nil && !errors.Is(err, net.ErrClosed) { // else the reader comes to the end
		s.closing.Store(true)
		s.end()
		go s.ws.CloseNow() // it waits for the reader
	}
}

// clip shortens text to some bytes of whole characters.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return string(bytes.ToValidUTF8([]byte(text[:most]), nil))
}
