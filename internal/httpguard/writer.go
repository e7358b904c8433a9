package httpguard

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// writer is the answer to one request, of which each part has a deadline. It can be used by
// several goroutines. Once its handler has returned it does nothing: net/http gives its
// buffers to other requests.
type writer struct {
	to      http.ResponseWriter
	control *http.ResponseController
	conn    *Conn
	body    *body // nil if the request has none
	timeout time.Duration

	mu       sync.Mutex
	begun    bool // the header is written
	hijacked bool
	ended    bool
}

var (
	_ http.Flusher  = (*writer)(nil)
	_ http.Hijacker = (*writer)(nil)
)

// part is how many bytes of an answer a client has the timeout for.
const part = 64 << 10

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return http.Header{}
	}
	return w.to.Header()
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.begin(status)
	defer w.limit()()
	w.to.WriteHeader(status)
}

// begin notes that an answer begins. It closes the connection behind an answer that this
// process cannot serve now, so that the client's next request may reach another process. mu
// is held.
func (w *writer) begin(status int) {
	if !w.begun && (w.body.isLeft() || status == http.StatusServiceUnavailable) {
		w.to.Header().Set("Connection", "close")
	}
	w.begun = w.begun || status >= 200 || status == http.StatusSwitchingProtocols
}

// Write implements http.ResponseWriter. It fails with a timeout if the client does not read,
// and with http.ErrHandlerTimeout once the handler has returned.
func (w *writer) Write(raw []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return 0, http.ErrHandlerTimeout
	}
	w.begin(http.StatusOK)
	if len(raw) == 0 {
		return w.to.Write(raw)
	}
	for chunk := range slices.Chunk(raw, part) {
		written, err := w.writePart(chunk)
		if n += written; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (w *writer) writePart(chunk []byte) (int, error) {
	defer w.limit()()
	return w.to.Write(chunk)
}

// limit bounds what the returned function ends. Over HTTP/2 a deadline that passes ends the
// stream, even if nothing is being written then, so that it is taken back.
func (w *writer) limit() func() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
	w.conn.wait()
	return func() {
		w.conn.work()
		_ = w.control.SetWriteDeadline(time.Time{})
	}
}

// FlushError is what http.ResponseController calls.
func (w *writer) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return http.ErrHandlerTimeout
	}
	w.begin(http.StatusOK)
	defer w.limit()()
	return w.control.Flush()
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// Hijack implements http.Hijacker. The connection is its caller's, with its deadlines.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil, nil, http.ErrHandlerTimeout
	}
	conn, buffered, err := w.control.Hijack()
	if err == nil {
		w.hijacked = true
		w.conn.keep()
	}
	return conn, buffered, err
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.to }

// end leaves to net/http what is in its buffers, with a deadline, and the rest of the body,
// with another. net/http sets both again for the next request.
func (w *writer) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.hijacked {
		return
	}
	if w.body.isLeft() {
		w.begin(http.StatusOK)
		_ = w.control.SetReadDeadline(time.Now().Add(linger))
	}
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
}
