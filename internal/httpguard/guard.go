// Package httpguard limits the resources of an HTTP server that a client can hold: how long
// the server waits for the body of a request and for the client to read an answer, and how
// many connections callers without a key can have open.
//
// A server applies it once, around all its handlers. Handlers set no deadlines of their own.
package httpguard

import (
	"cmp"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Limits are the limits of one request. A field that is 0 has its default.
type Limits struct {
	// Body is how long a body may take to arrive, from the handler's first read: 30 seconds
	// by default.
	Body time.Duration
	// Stall limits each read instead of the whole body: a body may take any time while it
	// keeps arriving.
	Stall time.Duration
	// Write is how long the client may leave 64 KiB of the answer unread while the buffers in
	// between are full: 10 seconds by default.
	Write time.Duration
	// Bodies leaves the refusal of bodies that [HasNeedlessBody] reports to the handler, which
	// has errors of its own form.
	Bodies bool
}

const (
	defaultBody  = 30 * time.Second
	defaultWrite = 10 * time.Second
	// linger is how long the server still accepts the rest of a body that no handler read,
	// so that a client that sends its whole request before it reads gets the answer.
	linger = 2 * time.Second
)

// New wraps inside in a handler that applies limits to each request. If limits is nil,
// all requests have the defaults.
//
// A GET, HEAD, DELETE or OPTIONS request with a body is answered with 400, unless the limits
// leave that to the handler. If a body was not read to its end, the connection is closed after
// the answer. Once inside has returned,
// goroutines that it left behind can no longer write to the answer.
func New(inside http.Handler, limits func(*http.Request) Limits) http.Handler {
	if limits == nil {
		limits = func(*http.Request) Limits { return Limits{} }
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bounds := limits(r)
		bounds.Body, bounds.Write = cmp.Or(bounds.Body, defaultBody), cmp.Or(bounds.Write, defaultWrite)
		conn := ConnOf(r.Context())
		conn.work()
		defer conn.wait()
		guarded := &writer{to: w, control: http.NewResponseController(w), conn: conn, timeout: bounds.Write}
		defer guarded.end()
		if r.ContentLength != 0 {
			guarded.body = &body{from: r.Body, control: guarded.control, conn: conn, limits: bounds, keepAlive: r.ProtoMajor == 1}
			r = r.WithContext(r.Context()) // a copy, since net/http checks the body of the original
			r.Body = guarded.body
		}
		if HasNeedlessBody(r) && !bounds.Bodies {
			http.Error(guarded, NeedlessBody(r.Method), http.StatusBadRequest)
			return
		}
		inside.ServeHTTP(guarded, r)
	})
}

// NeedlessBody says that a method takes no body.
func NeedlessBody(method string) string {
	return "A " + method + " request takes no body: send it without one."
}

// HasNeedlessBody reports whether a request has a body that its method ignores. Over
// HTTP/2, a body of unknown length may be empty and blocks nothing, so it is allowed.
func HasNeedlessBody(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions:
		return r.ContentLength > 0 || r.ContentLength < 0 && r.ProtoMajor == 1
	}
	return false
}

// body is a request's body with a deadline.
type body struct {
	from      io.ReadCloser
	control   *http.ResponseController
	conn      *Conn
	limits    Limits
	keepAlive bool // the next request follows on the same connection (HTTP/1)
	begun     bool
	whole     atomic.Bool // it was read to its end
}

// Read implements io.Reader. If the server cannot set deadlines, as a test's recorder,
// there are none.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.limits.Stall > 0:
		_ = b.control.SetReadDeadline(time.Now().Add(b.limits.Stall))
	case !b.begun:
		_ = b.control.SetReadDeadline(time.Now().Add(b.limits.Body))
	}
	b.begun = true
	b.conn.wait()
	n, err := b.from.Read(p)
	b.conn.work()
	if err == io.EOF { // net/http then also resets the deadline
		b.whole.Store(true)
	}
	return n, err
}

// Close implements io.Closer. It leaves the rest of the body to net/http.
func (b *body) Close() error { return nil }

// isLeft reports whether a part of the body is unread that blocks the connection for the
// next request.
func (b *body) isLeft() bool { return b != nil && b.keepAlive && !b.whole.Load() }
