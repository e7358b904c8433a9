package graph

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"
)

// serveSocket opens a connection for who may have one. Who calls is found out
// from its first message.
func (a *API) serveSocket(w http.ResponseWriter, r *http.Request) {
	if !a.welcomes(r) {
		refuse(w, r, http.StatusForbidden, forbidden("Pages of this origin may not open sockets here."))
		return
	}
	a.inside.ServeHTTP(w, r)
}

// welcomes tells whether the page that opens a socket, if it is one, may.
func (a *API) welcomes(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true // not a browser
	}
	page, err := url.Parse(origin)
	if err != nil || page.Host == "" {
		return false
	}
	return strings.EqualFold(page.Host, r.Host) || a.shared != nil && a.shared(origin)
}

// socketTransport makes sockets of requests.
type socketTransport struct{ *API }

var _ graphql.Transport = socketTransport{}

// Supports implements graphql.Transport.
func (socketTransport) Supports(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// Do implements graphql.Transport. It returns once the connection is open: what
// net/http keeps for a request is not kept for a socket.
func (t socketTransport) Do(w http.ResponseWriter, r *http.Request, executor graphql.GraphExecutor) {
	over := &wire{patience: t.writeTimeout, frames: newFrameBudget()}
	ws, err := websocket.Accept(lean{w, over}, r, &websocket.AcceptOptions{
		Subprotocols:       []string{subprotocol},
		InsecureSkipVerify: true, // welcomes has looked at the origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return // it is answered
	}
	s := newSocket(ws, over, r, executor, t.API)
	if !t.sockets.add(s) {
		go s.close(closeRestart, "RESTART")
		return
	}
	go func() {
		defer t.sockets.remove(s)
		s.serve()
	}()
}

// What a socket reads at once, and what its library writes at once, which is a control
// frame: thousands of sockets wait.
const (
	socketBuffer  = 1 << 10
	controlBuffer = 256
)

// lean hands connections over with small buffers, and through a wire.
type lean struct {
	http.ResponseWriter
	over *wire
}

// Hijack implements http.Hijacker.
func (w lean) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // what came with the request
	w.over.Conn = conn
	w.over.frames.spend(early, time.Now())
	reader := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn), max(socketBuffer, len(early)))
	_, err = reader.Peek(len(early))
	return w.over, bufio.NewReadWriter(reader, bufio.NewWriterSize(w.over, controlBuffer)), err
}

// sockets are those that are open.
type sockets struct {
	told told

	mu     sync.Mutex
	open   map[*socket]bool
	closed bool          // no more are taken
	empty  chan struct{} // closed when the last one is gone, once closed
}

func (all *sockets) add(s *socket) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return false
	}
	if all.open == nil {
		all.open = map[*socket]bool{}
	}
	all.open[s] = true
	return true
}

func (all *sockets) remove(s *socket) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, s)
	if all.closed && len(all.open) == 0 {
		close(all.empty)
	}
}

// Close closes every socket with 1012, so that its client goes on elsewhere, and
// takes no more. It returns once they are gone, or ctx's error if that ends before.
// Event streams end with their requests' contexts, see [ErrRestart].
func (a *API) Close(ctx context.Context) error {
	all := &a.sockets
	all.mu.Lock()
	if !all.closed {
		all.closed, all.empty = true, make(chan struct{})
		for s := range all.open {
			go s.close(closeRestart, "RESTART")
		}
		if len(all.open) == 0 {
			close(all.empty)
		}
	}
	all.mu.Unlock()
	select {
	case <-all.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
