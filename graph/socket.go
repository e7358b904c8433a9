package graph

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"
	"github.com/reelay/reelay/jobs"
)

// socket is one open connection.
type socket struct {
	request context.Context
	conn    transport.WebsocketConn
	end     func()
}

type socketKey struct{}

// serveSocket serves one connection until it ends. Who calls is found out from
// its first message.
func (d *door) serveSocket(w http.ResponseWriter, r *http.Request) {
	if !d.welcomes(r) {
		refuse(w, r, http.StatusForbidden, forbidden("Pages of this origin may not open sockets here."))
		return
	}
	// The end of the request's context is told to the other side first.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	ctx = context.WithValue(ctx, socketKey{}, &socket{request: r.Context(), end: cancel})
	d.inside.ServeHTTP(w, r.WithContext(ctx))
}

// welcomes tells whether the page that opens a socket, if it is one, may.
func (d *door) welcomes(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true // not a browser
	}
	page, err := url.Parse(origin)
	if err != nil || page.Host == "" {
		return false
	}
	return strings.EqualFold(page.Host, r.Host) || slices.ContainsFunc(d.origins, func(pattern string) bool {
		matches, _ := path.Match(strings.ToLower(pattern), strings.ToLower(page.Host))
		return matches
	})
}

// openSocket reads the key from a connection's first message.
func (d *door) openSocket(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	key := bearer(payload.Authorization())
	p, err := d.authenticate(ctx, key)
	if err != nil {
		code, reason := closeTryAgain, "UNAVAILABLE"
		if errors.Is(err, jobs.ErrUnauthenticated) {
			code, reason = closeUnauthenticated, "UNAUTHENTICATED"
		}
		// gqlgen needs the ctx even here.
		return transport.AppendCloseReason(transport.WithWebsocketCloseCode(ctx, code), reason), nil, present(ctx, err)
	}
	s := ctx.Value(socketKey{}).(*socket)
	release, ok := d.keys.hold(key, func() {
		_ = s.conn.WriteClose(closeUnauthenticated, "UNAUTHENTICATED")
		s.end()
	})
	if !ok {
		return transport.AppendCloseReason(transport.WithWebsocketCloseCode(ctx, closeTryAgain), string(jobs.CodeRateLimited)), nil, present(ctx, errStreams)
	}
	context.AfterFunc(ctx, release)
	return withPrincipal(ctx, p), nil, nil
}

// acceptSocket makes connections that hold the other side to the protocol.
type acceptSocket struct{}

// Accept implements transport.WebsocketImplementation.
func (acceptSocket) Accept(w http.ResponseWriter, r *http.Request, _ transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{subprotocol},
		InsecureSkipVerify: true, // welcomes has looked at the origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	conn := newProtocolConn(ws)
	if ws.Subprotocol() != subprotocol {
		_ = conn.WriteClose(closeSubprotocol, "Subprotocol not acceptable")
	}
	s := r.Context().Value(socketKey{}).(*socket)
	s.conn = conn
	context.AfterFunc(s.request, s.leave)
	return conn, nil
}

// leave ends the connection when its request's context does. With ErrRestart it
// says goodbye, and the other side's answer, or its lack, ends the rest: nothing
// that runs may look complete.
func (s *socket) leave() {
	if errors.Is(context.Cause(s.request), ErrRestart) {
		_ = s.conn.WriteClose(closeRestart, "RESTART")
		return
	}
	s.end()
}
