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
}

const (
	defaultBody  = 30 * time.Second
	defaultWrite = 10 * time.Second
	// linger is how long the rest of a body may still arrive that no handler wants: a client
	// that sends its request whole before it reads gets the answer.
	linger = 2 * time.Second
)

// New returns inside with limits. If limits is nil, all requests have the defaults.
//
// A GET, HEAD, DELETE or OPTIONS with a body is answered 400. The answer to a request whose
// body was not read to its end closes the connection. After inside has returned, what it
// left behind cannot write any more.
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
			r = r.WithContext(r.Context()) // a copy: net/http looks at the body of its own
			r.Body = guarded.body
		}
		if hasNeedlessBody(r) {
			http.Error(guarded, "A "+r.Method+" request takes no body: send it without one.", http.StatusBadRequest)
			return
		}
		inside.ServeHTTP(guarded, r)
	})
}

// hasNeedlessBody reports whether a request has a body that its method takes no notice of. Over HTTP/2 a
// body of unknown length may be empty, and holds up nothing.
func hasNeedlessBody(r *http.Request) bool {
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
	keepAlive bool // the next request comes behind it: HTTP/1
	begun     bool
	whole     atomic.Bool // it was read to its end
}

// Read implements io.Reader. A server that cannot set deadlines, such as a test's recorder,
// has none.
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
	if err == io.EOF { // with which net/http takes the deadline back
		b.whole.Store(true)
	}
	return n, err
}

// Close implements io.Closer. What is left of the body is net/http's.
func (b *body) Close() error { return nil }

// isLeft reports whether the connection cannot be used again unless more of the body
// arrives.
func (b *body) isLeft() bool { return b != nil && b.keepAlive && !b.whole.Load() }
