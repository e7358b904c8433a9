package watch

import (
	"context"
	"errors"
	"io"
)

// Stream delivers items as they appear. The reader asks for new items when it is
// ready, and uses no goroutine while there are none. Next and Wake must not be called
// concurrently. Close may be called at any time.
type Stream[T any] interface {
	// Next returns the new items in order, or none if there are none yet. It returns
	// io.EOF once the stream has ended, and any other error if it failed.
	Next(ctx context.Context) ([]T, error)
	// Wake calls f once, when Next may have new items: immediately if it has some. f
	// runs on the caller's goroutine or on the one that reads for all streams, so it
	// must not block.
	Wake(f func())
	// Close ends the stream. A call of f that is under way may still happen.
	Close()
}

// Each calls send with every item of a stream until the stream ends, and closes it. It
// returns nil if the stream ended, or else the error of send, of the stream, or of ctx.
func Each[T any](ctx context.Context, s Stream[T], send func(T) error) error {
	defer s.Close()
	for {
		items, err := s.Next(ctx)
		for _, item := range items {
			if err := send(item); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(items) > 0:
			continue
		}
		more := make(chan struct{})
		s.Wake(func() { close(more) })
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
