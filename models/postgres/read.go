package postgres

import (
	"context"
	"sync"
)

// read is one caller's read. Its statements run one at a time, so that it uses one connection
// at a time, however many of its parts run at once.
type read struct {
	turn  chan struct{} // holds the statement that runs
	apart bool
}

type readKey struct{}

// AsRead returns a context whose statements run one at a time. If apart is true, they use the
// connections that OpenShared reserves for large reads, if any.
func AsRead(ctx context.Context, apart bool) context.Context {
	return context.WithValue(ctx, readKey{}, &read{turn: make(chan struct{}, 1), apart: apart})
}

// WithoutRead returns a context whose statements belong to no read: they do not wait for a
// read's statements, and use the ordinary connections.
func WithoutRead(ctx context.Context) context.Context {
	if readOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, readKey{}, (*read)(nil))
}

func readOf(ctx context.Context) *read {
	r, _ := ctx.Value(readKey{}).(*read)
	return r
}

// begin waits until no other statement of the read runs. The returned function ends the turn.
func (r *read) begin(ctx context.Context) (end func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	select {
	case r.turn <- struct{}{}:
		return sync.OnceFunc(func() { <-r.turn }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
