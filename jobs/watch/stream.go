package watch

import (
	"context"
	"errors"
	"io"
)

// Stream is something that is followed live. Whoever follows it asks for what is
// new when he is ready, and costs nothing while there is nothing. One goroutine
// at a time calls Next and Wake; Close may be called at any time.
type Stream[T any] interface {
	// Next returns what is new, in order, or nothing if there is nothing yet. It
	// returns io.EOF once the stream is over, and other errors when it failed.
	Next(ctx context.Context) ([]T, error)
	// Wake has f called once, on a goroutine of its own, when Next may have something
	// to say: at once if it has.
	Wake(f func())
	// Close ends it: f may be called no more, or once more.
	Close()
}

// Each calls send with everything that comes on a stream, until that is over, and
// closes it. It returns nil then, and else send's error, the stream's or ctx's.
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
