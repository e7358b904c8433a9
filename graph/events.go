package graph

import (
	"context"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/internal/sse"
)

// events answers an operation with server-sent events, as the distinct connections of
// graphql-sse have it. gqlgen's own leaves a goroutine behind that still writes after its
// handler has returned.
type events struct{ pingEvery time.Duration }

var _ graphql.Transport = events{}

// Supports implements graphql.Transport.
func (events) Supports(r *http.Request) bool {
	a, ok := r.Context().Value(askedKey{}).(*asked)
	return ok && a.streams
}

// Do implements graphql.Transport. When it returns nothing of the operation is running.
func (t events) Do(w http.ResponseWriter, r *http.Request, executor graphql.GraphExecutor) {
	a, _ := r.Context().Value(askedKey{}).(*asked)
	now := graphql.Now()
	a.params.ReadTime = graphql.TraceTiming{Start: now, End: now}
	_ = sse.Serve(r.Context(), w, t.pingEvery, sse.Comment, func(ctx context.Context, out *sse.Stream) error {
		if err := out.Send([]byte(":\n\n")); err != nil {
			return err
		}
		if err := answerEvents(ctx, a.params, executor, out); err != nil {
			return err
		}
		return out.Send([]byte("event: complete\n\n"))
	})
}

// answerEvents runs an operation until it is over, or the reader is gone.
func answerEvents(ctx context.Context, params *graphql.RawParams, executor graphql.GraphExecutor, out *sse.Stream) error {
	s := &stream{}
	defer s.running.Wait()
	ctx, cancel := context.WithCancel(context.WithValue(ctx, streamKey{}, s))
	defer cancel()
	send := func(answer *graphql.Response) error {
		return out.Send(append(append([]byte("event: next\ndata: "), encode(answer)...), "\n\n"...))
	}
	operation, refused := executor.CreateOperationContext(ctx, params)
	if refused != nil {
		return send(executor.DispatchError(graphql.WithOperationContext(ctx, operation), refused))
	}
	responses, ctx := executor.DispatchOperation(graphql.WithOperationContext(ctx, operation), operation)
	for {
		answer := responses(ctx)
		if answer == nil {
			return nil
		}
		if err := send(answer); err != nil {
			return err
		}
	}
}
