package transport

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// ErrRestart is the cause with which a process that stops ends the contexts of streams.
// A stream of events then ends with UNAVAILABLE, so that its client connects to another
// process. Sockets close with 1012 instead, see [Sockets.Close].
var ErrRestart = errors.New("this process ends")

// stream is the state of one operation that may answer many times.
type stream struct {
	running sync.WaitGroup // the goroutine of Follow
	next    func()         // of Pull: waits for the next event, or ends the events
	end     func()         // of Pull: ends the source
	err     error          // why the operation failed; read it after running.Wait
}

type streamKey struct{}

// Follow runs the source of a subscription on a goroutine of its own. What the source
// passes to send are the events; its error becomes the last response. The source must
// return when ctx ends.
func Follow[T any](ctx context.Context, source func(send func(T) error) error) <-chan T {
	events := make(chan T)
	s, _ := ctx.Value(streamKey{}).(*stream)
	s.running.Go(func() {
		defer close(events)
		defer func() {
			if p := recover(); p != nil {
				s.err = failure.FromPanic(ctx, p)
			}
		}()
		err := source(func(event T) error {
			select {
			case events <- event:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if ctx.Err() == nil { // the end of the client is not a failure
			s.err = err
		}
	})
	return events
}

// Pull answers a subscription with the events that next returns, until next returns
// io.EOF or another error, which becomes the last response. The goroutine of the
// operation calls next, so that a silent subscription costs no second goroutine, and
// calls end when the operation is over.
func Pull[T any](ctx context.Context, next func(context.Context) (T, error), end func()) <-chan T {
	events := make(chan T, 1)
	s, _ := ctx.Value(streamKey{}).(*stream)
	s.end = end
	s.next = func() {
		event, err := next(ctx)
		if err == nil {
			events <- event // gqlgen has read the one before
			return
		}
		close(events)
		if !errors.Is(err, io.EOF) && ctx.Err() == nil {
			s.err = err
		}
	}
	return events
}

// run executes an operation and passes each response to send, until the operation is
// over or send fails. It returns the response to an operation that is refused, which
// did not run. Nothing of the operation runs after it returns.
func run(ctx context.Context, executor graphql.GraphExecutor, params *graphql.RawParams,
	send func(*graphql.Response) error) (refused *graphql.Response, err error) {
	s := &stream{end: func() {}}
	ctx = graphql.StartOperationTrace(context.WithValue(ctx, streamKey{}, s))
	operation, errs := executor.CreateOperationContext(ctx, params)
	ctx = graphql.WithOperationContext(ctx, operation)
	if len(errs) > 0 {
		return executor.DispatchError(ctx, errs), nil
	}
	running, cancel := context.WithCancel(ctx)
	defer s.running.Wait()
	defer func() { s.end() }()
	defer cancel()
	responses, running := executor.DispatchOperation(running, operation)
	for {
		if s.next != nil {
			s.next()
		}
		response := responses(running)
		if response == nil {
			break
		}
		if err := send(response); err != nil {
			return nil, err
		}
	}
	cancel()
	s.running.Wait()
	if last := s.last(ctx); last != nil {
		return nil, send(&graphql.Response{Errors: gqlerror.List{last}})
	}
	return nil, nil
}

// last returns the reason why an operation ended early, or nil.
func (s *stream) last(ctx context.Context) *gqlerror.Error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrRestart):
		return failure.Refusal(apierror.Later(apierror.CodeUnavailable, time.Second, "This server is being restarted: connect again."))
	case errors.Is(cause, apierror.ErrUnauthenticated):
		return failure.Refusal(errKeyEnded)
	case s.err != nil:
		return failure.Present(ctx, s.err)
	}
	return nil
}

var errKeyEnded = apierror.New(apierror.CodeUnauthenticated,
	"The key of this stream is no longer valid: it was revoked or has expired. Connect with another key.")
