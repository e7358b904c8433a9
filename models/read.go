package models

import (
	"context"
	"sync"
)

// read is one caller's read. Its statements take turns, so that it uses one
// connection at a time, however much of it runs at once.
type read struct {
	turn  chan struct{} // holds the statement that runs
	apart bool
}

type readKey struct{}

// AsRead returns a context whose statements take turns. If apart is true they use the
// connections that OpenShared keeps for large reads, where there are any.
func AsRead(ctx context.Context, apart bool) context.Context {
	return context.WithValue(ctx, readKey{}, &read{turn: make(chan struct{}, 1), apart: apart})
}

// WithoutRead returns a context whose statements belong to no read: they do not wait
// for those of a read, and use the ordinary connections.
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

// begin waits until no other statement of the read runs. It returns what ends the
// turn.
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
