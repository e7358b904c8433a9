package transport

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/sse"
)

// Events answers an operation with server-sent events, in the "distinct connections"
// mode of the protocol graphql-sse. The stream ends when its key is revoked or expires.
//
// gqlgen's own transport leaves a goroutine behind that still writes after its handler
// has returned.
type Events struct {
	Keys *auth.KeyWatch
	// PingEvery keeps proxies from closing a silent stream.
	PingEvery time.Duration
}

var _ graphql.Transport = Events{}

// Supports implements graphql.Transport.
func (Events) Supports(r *http.Request) bool { return WantsEvents(r) }

// WantsEvents reports whether a request asks for a stream of events.
func WantsEvents(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// Do implements graphql.Transport. Nothing of the operation runs after it returns.
func (t Events) Do(w http.ResponseWriter, r *http.Request, executor graphql.GraphExecutor) {
	params, status, invalid := read(r)
	if invalid != nil {
		Refuse(w, r, status, invalid)
		return
	}
	ctx, end, err := t.Keys.While(r.Context(), Bearer(r.Header.Get("Authorization")))
	if err != nil {
		Refuse(w, r, http.StatusTooManyRequests, err)
		return
	}
	defer end(nil)
	// An error means that the reader is gone or too slow. Its connection is closed then.
	_ = sse.Serve(ctx, w, t.PingEvery, sse.Comment, func(ctx context.Context, out *sse.Stream) error {
		next := func(response *graphql.Response) error {
			return out.Send(append(append([]byte("event: next\ndata: "), encode(ctx, response)...), "\n\n"...))
		}
		if err := out.Send([]byte(":\n\n")); err != nil {
			return err
		}
		refused, err := run(ctx, executor, params, next)
		if refused != nil {
			err = next(refused)
		}
		if err != nil {
			return err
		}
		return out.Send([]byte("event: complete\n\n"))
	})
}
