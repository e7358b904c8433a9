package graph

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"
	"github.com/reelay/reelay/jobs"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

const (
	closeRestart         = 1012
	closeUnauthenticated = 4401
	closeBadMessage      = 4400
	closeTryAgain        = 1013
	// maxOperations bounds what one socket may have running.
	maxOperations = 20
)

// socket is one open connection.
type socket struct {
	request    context.Context
	conn       transport.WebsocketConn
	end        func()
	operations atomic.Int32
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
	return strings.EqualFold(page.Host, r.Host) || slices.ContainsFunc(d.options.Origins, func(pattern string) bool {
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
	d.keys.watch(ctx, key, func() {
		s := ctx.Value(socketKey{}).(*socket)
		_ = s.conn.WriteClose(closeUnauthenticated, "UNAUTHENTICATED")
		s.end()
	})
	return withPrincipal(ctx, p), nil, nil
}

// limitSocket bounds the operations that run on one socket.
func limitSocket(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	s, ok := ctx.Value(socketKey{}).(*socket)
	if !ok {
		return next(ctx)
	}
	context.AfterFunc(ctx, func() { s.operations.Add(-1) })
	if s.operations.Add(1) > maxOperations {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{refusal(&jobs.Error{
			Code: codeRateLimited, RetryAfterSeconds: 1, Message: "Too many operations run on this connection: end some, or open another.",
		})}})
	}
	return next(ctx)
}

// acceptSocket makes connections that take nothing but sound text.
type acceptSocket struct{}

// Accept implements transport.WebsocketImplementation.
func (acceptSocket) Accept(w http.ResponseWriter, r *http.Request, options transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	conn, err := transport.CoderWebsocketImplementation{
		AcceptOptions: websocket.AcceptOptions{InsecureSkipVerify: true}, // welcomes has looked at the origin
	}.Accept(w, r, options)
	if err != nil {
		return nil, err
	}
	sound := soundConn{conn.(coderConn)}
	s := r.Context().Value(socketKey{}).(*socket)
	s.conn = sound
	context.AfterFunc(s.request, s.leave)
	return sound, nil
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

type coderConn interface {
	transport.WebsocketConn
	transport.WebsocketReadLimiter
	transport.WebsocketReadDeadliner
}

type soundConn struct{ coderConn }

// NextReader closes the connection on a message that the JSON decoder would
// change.
func (c soundConn) NextReader() (int, io.Reader, error) {
	kind, reader, err := c.coderConn.NextReader()
	if err != nil {
		return kind, nil, err
	}
	message, err := io.ReadAll(reader)
	if err != nil {
		return kind, nil, err
	}
	if refused := checkText(message); refused != nil {
		_ = c.WriteClose(closeBadMessage, string(refused.Code))
		return kind, nil, transport.ErrWebsocketClosed
	}
	return kind, bytes.NewReader(message), nil
}
