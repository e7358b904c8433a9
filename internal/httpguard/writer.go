package httpguard

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// writer is the answer to one request. Each part of the answer has a deadline. It is safe
// for concurrent use. Once its handler has returned, it writes nothing, since net/http
// reuses the buffers for other requests.
type writer struct {
	to      http.ResponseWriter
	control *http.ResponseController
	conn    *Conn
	body    *body // nil if the request has none
	timeout time.Duration

	mu       sync.Mutex
	begun    bool // the header was written
	hijacked bool
	ended    bool
}

var (
	_ http.Flusher  = (*writer)(nil)
	_ http.Hijacker = (*writer)(nil)
)

// part is how many bytes of an answer a client must read within the timeout.
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

// begin records that the answer begins. It closes the connection after an answer of 503,
// so that the client's next request may reach another process, and after an unread body.
// The caller holds mu.
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

// limit sets the deadline of a write and returns a function that resets it. Without the
// reset, an HTTP/2 stream would end when the deadline passes, even if no write is running.
func (w *writer) limit() func() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
	w.conn.wait()
	return func() {
		w.conn.work()
		_ = w.control.SetWriteDeadline(time.Time{})
	}
}

// FlushError flushes the answer. http.ResponseController calls it.
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

// Hijack implements http.Hijacker. From then on the caller owns the connection and its
// deadlines.
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

// end sets the deadlines by which net/http must send its buffers and read the rest of the
// body. net/http resets both for the next request.
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
