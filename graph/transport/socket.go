package transport

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
)

// Sockets serves operations over WebSockets in the protocol graphql-transport-ws. The
// first message of a client has its key.
//
// gqlgen's own transport closes sockets with other codes than the protocol has, and does
// not bound the frames and operations of a socket or the time of a write.
type Sockets struct {
	Keys *auth.KeyWatch
	// AllowsOrigin reports whether pages of another origin may open sockets. No page may
	// if it is nil.
	AllowsOrigin func(origin string) bool
	// Base returns the scheme and host at which the caller reaches this server.
	Base func(*http.Request) string
	// WriteTimeout is how long a client may leave its socket unread, after the buffers in
	// between are full, before the socket is closed.
	WriteTimeout time.Duration

	mu     sync.Mutex
	open   map[*socket]bool
	closed bool          // new sockets are refused
	empty  chan struct{} // closed once closed is true and open is empty
}

var _ graphql.Transport = (*Sockets)(nil)

// Supports implements graphql.Transport.
func (*Sockets) Supports(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// Do implements graphql.Transport. It returns once the socket is open, so that net/http
// frees what it keeps for a request. The socket lives until the client or Close ends it.
func (t *Sockets) Do(w http.ResponseWriter, r *http.Request, executor graphql.GraphExecutor) {
	if !t.allows(r) {
		Refuse(w, r, http.StatusForbidden, apierror.Forbidden("Pages of this origin may not open sockets here."))
		return
	}
	conn := &framedConn{frames: newFrameBudget()}
	ws, err := websocket.Accept(framedHijacker{w, conn}, r, &websocket.AcceptOptions{
		Subprotocols:       []string{subprotocol},
		InsecureSkipVerify: true, // allows has checked the origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return // Accept has answered
	}
	s := t.newSocket(ws, conn, r, executor)
	go func() {
		if t.add(s) {
			defer t.remove(s)
		} else {
			s.close(closeRestart, "RESTART")
		}
		s.serve()
	}()
}

// allows reports whether the page that opens a socket, if a page does, may do so.
func (t *Sockets) allows(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true // not a browser
	}
	page, err := url.Parse(origin)
	if err != nil || page.Host == "" {
		return false
	}
	return strings.EqualFold(page.Host, r.Host) || t.AllowsOrigin != nil && t.AllowsOrigin(origin)
}

func (t *Sockets) add(s *socket) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	if t.open == nil {
		t.open = map[*socket]bool{}
	}
	t.open[s] = true
	return true
}

func (t *Sockets) remove(s *socket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, s)
	if t.closed && len(t.open) == 0 {
		close(t.empty)
	}
}

// Close closes every socket with 1012, so that its client connects to another process,
// and refuses new ones. It returns once all are closed, or ctx's error if ctx ends first.
func (t *Sockets) Close(ctx context.Context) error {
	t.mu.Lock()
	if !t.closed {
		t.closed, t.empty = true, make(chan struct{})
		for s := range t.open {
			go s.close(closeRestart, "RESTART")
		}
		if len(t.open) == 0 {
			close(t.empty)
		}
	}
	t.mu.Unlock()
	select {
	case <-t.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
