package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"
	"github.com/reelay/reelay/jobs"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// subprotocol is the only one that is spoken.
const subprotocol = "graphql-transport-ws"

// Close codes, those of the protocol and those of RFC 6455.
const (
	closeNormal          = 1000
	closeProtocol        = 1002
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
	// maxOperations bounds what one socket may have running.
	maxOperations = 20
	// maxMessage bounds a message on a socket.
	maxMessage = 64 << 10
	// writeTimeout is how long the other side may leave a stream unread, with the
	// buffers in between full, before it is ended. Nothing is kept for it: it may
	// go on elsewhere from where it was.
	writeTimeout = 10 * time.Second
)

// protocolConn is one connection as graphql-transport-ws has it: what gqlgen is
// less strict about is refused here, before it sees it. It gives operations names
// of its own, so that whatever a late message of an ended one says reaches no
// other that was given the same id.
type protocolConn struct {
	ws     *websocket.Conn
	closed chan struct{} // when the close handshake is over; nil before it began

	mu         sync.Mutex
	deadline   *time.Timer
	begun      bool              // connection_init came
	operations map[string]string // the client's ids by our names; "" once the client gave one up
	names      map[string]string // our names by the client's ids
	last       int
}

var _ interface {
	transport.WebsocketConn
	transport.WebsocketReadDeadliner
} = (*protocolConn)(nil)

func newProtocolConn(ws *websocket.Conn) *protocolConn {
	ws.SetReadLimit(maxMessage)
	return &protocolConn{ws: ws, operations: map[string]string{}, names: map[string]string{}}
}

// Subprotocol implements transport.WebsocketConn. Whoever asked for another one
// is told so already.
func (c *protocolConn) Subprotocol() string { return subprotocol }

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

// Error implements error.
func (v *violation) Error() string { return v.reason }

var errBadMessage = &violation{closeBadMessage, "Invalid message received"}

// NextReader implements transport.WebsocketConn: it returns the next message that
// is for gqlgen.
func (c *protocolConn) NextReader() (int, io.Reader, error) {
	for {
		kind, raw, err := c.ws.Read(context.Background())
		if err != nil {
			return 0, nil, closedOr(err)
		}
		var bad *violation
		passed, err := c.take(kind, raw)
		if errors.As(err, &bad) {
			_ = c.WriteClose(bad.code, bad.reason)
			return 0, nil, transport.ErrWebsocketClosed
		}
		if err != nil {
			return 0, nil, closedOr(err)
		}
		if passed != nil {
			return int(websocket.MessageText), bytes.NewReader(passed), nil
		}
	}
}

func closedOr(err error) error {
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusNoStatusRcvd:
		return transport.ErrWebsocketClosed
	}
	return err
}

// take looks at a message and returns what gqlgen is given of it, if anything.
func (c *protocolConn) take(kind websocket.MessageType, raw []byte) ([]byte, error) {
	if kind != websocket.MessageText || checkText(raw) != nil {
		return nil, errBadMessage
	}
	var m message
	if json.Unmarshal(raw, &m) != nil || !isObject(raw) {
		return nil, errBadMessage
	}
	switch m.Type {
	case "connection_init":
		return c.takeInit(m, raw)
	case "ping", "pong":
		return c.takePing(m, raw)
	case "subscribe":
		return c.takeSubscribe(m)
	case "complete":
		return c.takeComplete(m)
	}
	return nil, errBadMessage
}

func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

func isNothing(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func (c *protocolConn) takeInit(m message, raw []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun {
		return nil, &violation{closeInitAgain, "Too many initialisation requests"}
	}
	c.begun = true
	if isNothing(m.Payload) {
		return []byte(`{"type":"connection_init"}`), nil
	}
	if !isObject(m.Payload) {
		return nil, errBadMessage
	}
	return raw, nil
}

// takePing answers pings, which may come before connection_init.
func (c *protocolConn) takePing(m message, raw []byte) ([]byte, error) {
	if !isNothing(m.Payload) && !isObject(m.Payload) {
		return nil, errBadMessage
	}
	c.mu.Lock()
	begun := c.begun
	c.mu.Unlock()
	switch {
	case begun:
		return raw, nil
	case m.Type == "ping":
		return nil, c.write(message{Type: "pong", Payload: m.Payload})
	}
	return nil, nil
}

func (c *protocolConn) takeSubscribe(m message) ([]byte, error) {
	c.mu.Lock()
	begun := c.begun
	_, running := c.names[m.ID]
	full := len(c.operations) >= maxOperations
	c.mu.Unlock()
	switch {
	case !begun: // whoever comes after connection_init is read after its answer
		return nil, &violation{closeUnauthenticated, "Unauthorized"}
	case m.ID == "" || !isRequest(m.Payload):
		return nil, errBadMessage
	case running:
		return nil, &violation{closeDuplicate, "Subscriber for " + clip(m.ID, 64) + " already exists"}
	case full:
		return nil, c.refuse(m.ID, errOperations)
	}
	c.mu.Lock()
	c.last++
	name := fmt.Sprint(c.last)
	c.operations[name], c.names[m.ID] = m.ID, name
	c.mu.Unlock()
	return json.Marshal(message{Type: m.Type, ID: name, Payload: m.Payload})
}

// isRequest tells whether a payload has the shape of a request.
func isRequest(payload json.RawMessage) bool {
	var request parts
	return isObject(payload) && json.Unmarshal(payload, &request) == nil && (request.Query != nil || request.Extensions != nil)
}

var errOperations = jobs.Later(jobs.CodeRateLimited, time.Second,
	"%d operations run on this connection, which is all that it may have: end some, or open another.", maxOperations)

// refuse ends an operation that never began.
func (c *protocolConn) refuse(id string, e *jobs.Error) error {
	payload, err := json.Marshal(gqlerror.List{refusal(e)})
	if err != nil {
		return err
	}
	return c.write(message{ID: id, Type: "error", Payload: payload})
}

func (c *protocolConn) takeComplete(m message) ([]byte, error) {
	if m.ID == "" {
		return nil, errBadMessage
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name, running := c.names[m.ID]
	if !running {
		return nil, nil // it ended at the same moment
	}
	delete(c.names, m.ID)
	c.operations[name] = ""
	return json.Marshal(message{Type: m.Type, ID: name})
}

// WriteJSON implements transport.WebsocketConn.
func (c *protocolConn) WriteJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	if m.ID == "" {
		return c.send(raw)
	}
	id, listens := c.told(m)
	if !listens {
		return nil
	}
	m.ID = id
	return c.write(m)
}

// told returns the client's id of an operation that a message is about, if the
// client still wants to hear of it. An error is an operation's last message.
func (c *protocolConn) told(m message) (id string, listens bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id = c.operations[m.ID]
	switch m.Type {
	case "complete":
		delete(c.operations, m.ID)
		delete(c.names, id)
	case "error":
		c.operations[m.ID] = ""
		delete(c.names, id)
	}
	return id, id != ""
}

func (c *protocolConn) write(m message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return c.send(raw)
}

// send ends the connection if the other side does not read.
func (c *protocolConn) send(raw []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, raw)
}

// SetReadDeadline implements transport.WebsocketReadDeadliner.
func (c *protocolConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline != nil {
		c.deadline.Stop()
		c.deadline = nil
	}
	if !t.IsZero() && c.closed == nil {
		c.deadline = time.AfterFunc(time.Until(t), func() { _ = c.ws.CloseNow() })
	}
	return nil
}

// WriteClose implements transport.WebsocketConn: the first reason counts. The
// other side's answer is not waited for.
func (c *protocolConn) WriteClose(code int, reason string) error {
	if code == closeProtocol {
		code = closeBadMessage
		if reason == "connection initialisation timeout" {
			code, reason = closeInitTimeout, "Connection initialisation timeout"
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline != nil {
		c.deadline.Stop()
	}
	if c.closed != nil {
		return nil
	}
	closed := make(chan struct{})
	c.closed = closed
	go func() {
		defer close(closed)
		_ = c.ws.Close(websocket.StatusCode(code), clip(reason, 123))
	}()
	return nil
}

// Close implements transport.WebsocketConn. It leaves a close handshake its few
// seconds.
func (c *protocolConn) Close() error {
	c.mu.Lock()
	closing := c.closed != nil
	c.mu.Unlock()
	if closing {
		return nil
	}
	return c.ws.CloseNow()
}

// clip shortens text to some bytes of whole characters.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return string(bytes.ToValidUTF8([]byte(text[:most]), nil))
}
