package graph

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/watch"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// ErrRestart is the cause with which a server that is about to end ends the
// contexts of streams. A socket is closed with 1012, and what is told by events
// ends with UNAVAILABLE: their clients go on elsewhere.
var ErrRestart = errors.New("this process ends")

// stream is one subscription. err is why it ended, if it failed; it is written
// before the channel of events is closed, and read after.
type stream struct {
	err     error
	told    bool           // the listener was told why its context was ended
	running sync.WaitGroup // what follow started

	// parks is whether the transport goes on with parked streams, and parked the
	// one that is.
	parks  bool
	parked parked
}

type streamKey struct{}

// follow runs a subscription: what run sends goes out as events, and its error
// as the last one. It ends with ctx.
func follow[T any](ctx context.Context, run func(send func(T) error) error) <-chan T {
	events := make(chan T)
	s, _ := ctx.Value(streamKey{}).(*stream)
	s.running.Go(func() {
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
	})
	return events
}

// parked is what a subscription follows that waits on no goroutine: its transport
// answers when there is something to answer, and calls the methods in turn.
type parked interface {
	// fetch tells whether there is something to answer, be it that it is over.
	fetch(ctx context.Context) bool
	// wake has f called, once, on a goroutine of its own, when fetch may have something.
	wake(f func())
	// first is the event to answer with, or nil if it is over.
	first() any
	// offer has the next response be about that event.
	offer()
}

// followStream runs a subscription to what is followed, and closes that with ctx.
func followStream[T any](ctx context.Context, from watch.Stream[T]) <-chan T {
	s, _ := ctx.Value(streamKey{}).(*stream)
	if !s.parks {
		return follow(ctx, func(send func(T) error) error { return watch.Each(ctx, from, send) })
	}
	context.AfterFunc(ctx, from.Close)
	p := &parkedStream[T]{from: from, events: make(chan T, 1)}
	s.parked = p
	return p.events
}

type parkedStream[T any] struct {
	from    watch.Stream[T]
	events  chan T // what gqlgen reads
	items   []T
	current T
	over    bool
}

func (p *parkedStream[T]) fetch(ctx context.Context) bool {
	if len(p.items) > 0 || p.over {
		return true
	}
	var err error
	if p.items, err = p.from.Next(ctx); err != nil {
		p.over = true
		close(p.events)
		if !errors.Is(err, io.EOF) {
			fail(ctx, err)
		}
	}
	return p.over || len(p.items) > 0
}

func (p *parkedStream[T]) wake(f func()) { p.from.Wake(f) }

func (p *parkedStream[T]) first() any {
	if len(p.items) == 0 {
		return nil
	}
	p.current, p.items = p.items[0], p.items[1:]
	return p.current
}

func (p *parkedStream[T]) offer() { p.events <- p.current }

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
	s, ok := ctx.Value(streamKey{}).(*stream)
	if !ok {
		s = &stream{}
		ctx = context.WithValue(ctx, streamKey{}, s)
	}
	events := next(ctx)
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
func endOf(cause error) *apierror.Error {
	switch {
	case errors.Is(cause, ErrRestart):
		return apierror.Later(apierror.CodeUnavailable, time.Second, "This server is being restarted: connect again.")
	case errors.Is(cause, apierror.ErrUnauthenticated):
		return &apierror.Error{Code: apierror.CodeUnauthenticated, Message: "The key of this stream is not valid any more: it was revoked, or has expired. Connect with another."}
	}
	return nil
}

// respond makes one response, with loaders of its own, since what an earlier
// event read is old. Of a query that was refused the first errors are told, with
// the arguments that they are about.
func (r *Resolver) respond(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	made := newResponse(r.Reader)
	reads, end, err := r.admit(ctx, made)
	if err != nil {
		return &graphql.Response{Errors: gqlerror.List{present(ctx, err)}}
	}
	var response *graphql.Response
	defer func() { end(response) }() // even if it panics
	ctx = reads
	response = next(context.WithValue(ctx, responseKey{}, made))
	if response != nil && response.Data == nil {
		response.Errors = response.Errors[:min(len(response.Errors), maxErrors)]
		if graphql.HasOperationContext(ctx) {
			nameArguments(graphql.GetOperationContext(ctx).RawQuery, response.Errors)
		}
	}
	return response
}
