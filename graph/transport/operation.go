package transport

import (
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/graph/failure"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// operation is one operation of a socket.
type operation struct {
	socket *socket
	id     string
	end    context.CancelFunc
	over   bool // its id is available again; guarded by the socket's mu
}

// errOver means that the client no longer listens to an operation.
var errOver = errors.New("the operation is over")

// run runs the operation and writes its messages.
func (o *operation) run(ctx context.Context, request *graphql.RawParams) {
	defer o.end()
	defer func() {
		if p := recover(); p != nil {
			o.fail(gqlerror.List{failure.Present(ctx, failure.FromPanic(ctx, p))})
		}
	}()
	refused, err := run(ctx, o.socket.executor, request, func(response *graphql.Response) error {
		return o.send("next", encode(ctx, response))
	})
	switch {
	case refused != nil:
		o.fail(refused.Errors)
	case err == nil:
		_ = o.send("complete", nil)
	}
}

// fail writes why the operation did not run, as its last message.
func (o *operation) fail(errors gqlerror.List) {
	raw, err := marshal(errors)
	if err != nil {
		raw = []byte("[]")
	}
	_ = o.send("error", raw)
}

// send writes a message of the operation. It returns errOver if the operation has ended:
// the client may have given its id to another one. Every message but next is the last
// one, and makes the id available again.
func (o *operation) send(kind string, payload []byte) error {
	s := o.socket
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.over || s.closing.Load() {
		return errOver
	}
	if kind != "next" {
		s.forget(o)
	}
	s.write(message{ID: o.id, Type: kind, Payload: payload})
	return nil
}
