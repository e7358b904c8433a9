package graph

import (
	"context"
	"errors"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/jobs"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// ErrRestart is the cause with which a server that is about to end ends the
// contexts of streams. A socket is closed with 1012, and what is told by events
// ends with UNAVAILABLE: their clients go on elsewhere.
var ErrRestart = errors.New("this process ends")

// errKeyRevoked is the cause of the end of a stream of events whose key is not
// valid any more.
var errKeyRevoked = errors.New("the key is not valid any more")

// stream is one subscription. err is why it ended, if it failed; it is written
// before the channel of events is closed, and read after.
type stream struct {
	err  error
	told bool // the listener was told why its context was ended
}

type streamKey struct{}

// follow runs a subscription: what run sends goes out as events, and its error
// as the last one. It ends with ctx.
func follow[T any](ctx context.Context, run func(send func(T) error) error) <-chan T {
	events := make(chan T)
	go func() {
		defer close(events)
		defer func() {
			if p := recover(); p != nil {
				fail(ctx, recovered(ctx, p))
			}
		}()
		fail(ctx, run(func(event T) error {
			select {
			case events <- event:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}))
	}()
	return events
}

// fail notes why a stream ends. The end of its listener is no failure.
func fail(ctx context.Context, err error) {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok && ctx.Err() == nil {
		s.err = err
	}
}

// openStream makes the place for a subscription's error, and has it come after
// the last event. gqlgen asks no middleware of responses once a context is over,
// so that is done here.
func openStream(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	if graphql.GetOperationContext(ctx).Operation.Operation != ast.Subscription {
		return next(ctx)
	}
	s := &stream{}
	events := next(context.WithValue(ctx, streamKey{}, s))
	return func(ctx context.Context) *graphql.Response {
		if event := events(ctx); event != nil {
			return event
		}
		return s.last(ctx)
	}
}

// last is why the stream ends, once, or nil if nothing went wrong.
func (s *stream) last(ctx context.Context) *graphql.Response {
	if ended := endOf(context.Cause(ctx)); ended != nil && !s.told {
		s.told = true
		return &graphql.Response{Errors: gqlerror.List{refusal(ended)}}
	}
	if s.err == nil {
		return nil
	}
	err := s.err
	s.err = nil
	return &graphql.Response{Errors: gqlerror.List{present(ctx, err)}}
}

// endOf is what a listener is told of a cause that ended its stream, or nil.
func endOf(cause error) *jobs.Error {
	switch {
	case errors.Is(cause, ErrRestart):
		return jobs.Later(jobs.CodeUnavailable, time.Second, "This server is being restarted: connect again.")
	case errors.Is(cause, errKeyRevoked):
		return &jobs.Error{Code: jobs.CodeUnauthenticated, Message: "The key of this stream is not valid any more: it was revoked, or has expired. Connect with another."}
	}
	return nil
}

// respond makes one response, with loaders of its own, since what an earlier
// event read is old. Of a query that was refused the first errors are told.
func (r *Resolver) respond(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	response := next(context.WithValue(ctx, loadersKey{}, newLoaders(r.Reader)))
	if response != nil && response.Data == nil && len(response.Errors) > maxErrors {
		response.Errors = response.Errors[:maxErrors]
	}
	if w, ok := ctx.Value(answerKey{}).(*answerWriter); ok && response != nil && len(response.Errors) > 0 {
		retryAfter(w.Header(), response.Errors[0])
	}
	return response
}
