package graph

import (
	"context"

	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/graph/transport"
)

// follow answers a subscription with the items of a stream. It closes the stream when the
// subscription ends.
func follow[T any](ctx context.Context, from watch.Stream[T]) <-chan T {
	var items []T
	return transport.Pull(ctx, func(ctx context.Context) (item T, err error) {
		for len(items) == 0 {
			if items, err = from.Next(ctx); err != nil {
				return item, err
			}
			if len(items) > 0 {
				break
			}
			more := make(chan struct{})
			from.Wake(func() { close(more) })
			select {
			case <-more:
			case <-ctx.Done():
				return item, ctx.Err()
			}
		}
		item, items = items[0], items[1:]
		return item, nil
	}, from.Close)
}
