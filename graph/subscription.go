package graph

import (
	"context"

	"github.com/reelay/reelay/graph/transport"
	"github.com/reelay/reelay/jobs/watch"
)

// follow answers a subscription with the items of a stream. It closes the stream when the
// subscription ends.
func follow[T any](ctx context.Context, items watch.Stream[T]) <-chan T {
	return transport.Follow(ctx, func(send func(T) error) error { return watch.Each(ctx, items, send) })
}
