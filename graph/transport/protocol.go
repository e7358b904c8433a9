package transport

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/coder/websocket"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// message is one message of the protocol.
type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// encode returns the message's JSON. Its payload is valid JSON.
func (m message) encode() []byte {
	raw, _ := marshal(m)
	return raw
}

// violation is the reason why a connection is closed.
type violation struct {
	code   int
	reason string
}

var (
	errBadMessage   = &violation{closeBadMessage, "Invalid message received"}
	errSocketFailed = &violation{closeInternal, string(apierror.CodeInternal)}
	errOperations   = apierror.Later(apierror.CodeRateLimited, time.Second,
		"%d operations run on this connection, which is all that it may have: end some, or open another.", maxOperations)
)

// take handles a message from the client.
func (s *socket) take(kind websocket.MessageType, raw []byte) (v *violation) {
	defer func() {
		if p := recover(); p != nil {
			_ = failure.FromPanic(context.Background(), p)
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

func isNothing(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// takeInit authenticates the client.
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
	_ = json.Unmarshal(payload.Authorization, &authorization) // a value that is not text is not a key
	key := Bearer(authorization)
	ctx, cancel := context.WithTimeout(s.ctx, initTimeout)
	defer cancel()
	p, err := s.server.Keys.Authenticate(ctx, key)
	switch {
	case errors.Is(err, apierror.ErrUnauthenticated):
		return &violation{closeUnauthenticated, "UNAUTHENTICATED"}
	case err != nil:
		_ = failure.Present(ctx, err) // logs it
		return &violation{closeTryAgain, "UNAVAILABLE"}
	}
	s.release, err = s.server.Keys.Open(key, func() { s.close(closeUnauthenticated, "UNAUTHENTICATED") })
	if err != nil {
		s.release = func() {}
		return &violation{closeTryAgain, string(apierror.CodeRateLimited)}
	}
	s.guarded.MarkKnown()
	s.ctx = WithCaller(s.ctx, Caller{Principal: p.From(s.remote), Base: CallerOf(s.ctx).Base})
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

// takeSubscribe starts an operation.
func (s *socket) takeSubscribe(m message) *violation {
	request, invalid := decode(m.Payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.acked:
		return &violation{closeUnauthenticated, "Unauthorized"}
	case m.ID == "" || invalid != nil:
		return errBadMessage
	case s.operations[m.ID] != nil:
		return &violation{closeDuplicate, "Subscriber for " + failure.Clip(m.ID, 64) + " already exists"}
	case len(s.operations) >= maxOperations:
		refused, _ := marshal(gqlerror.List{failure.Refusal(errOperations)})
		s.write(message{ID: m.ID, Type: "error", Payload: refused})
		return nil
	}
	ctx, end := context.WithCancel(s.ctx)
	o := &operation{socket: s, id: m.ID, end: end}
	s.operations[m.ID] = o
	s.running.Go(func() { o.run(ctx, request) })
	return nil
}

// takeComplete ends an operation. The operation may have ended at the same moment.
func (s *socket) takeComplete(m message) *violation {
	if m.ID == "" {
		return errBadMessage
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.operations[m.ID]; o != nil {
		s.forget(o)
		o.end()
	}
	return nil
}

// forget makes the operation's id available again. The caller holds mu.
func (s *socket) forget(o *operation) {
	delete(s.operations, o.id)
	o.over = true
}
