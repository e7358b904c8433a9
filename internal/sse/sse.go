// Package sse writes responses of server-sent events.
package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// ErrSlow means that the reader did not take what was sent.
var ErrSlow = errors.New("the reader is too slow, or gone")

// Stream is one response. It can be used by several goroutines.
type Stream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	err     error // why nothing can be sent any more
}

// Comment is a ping that clients do not notice.
const Comment = ":\n\n"

// Serve sends the response's header and runs run, which sends the events. In between it sends
// a ping every so often, a comment or an event, so that proxies do not close a silent stream.
// The context of run ends with ctx, and when the reader is gone. Serve returns the error of
// run once nothing of the stream is running.
func Serve(ctx context.Context, w http.ResponseWriter, every time.Duration, ping string, run func(context.Context, *Stream) error) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no")
	if header.Get("Cache-Control") == "" {
		header.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(http.StatusOK)
	s := &Stream{w: w, control: http.NewResponseController(w)}
	ctx, cancel := context.WithCancelCause(ctx)
	var pings sync.WaitGroup
	pings.Go(func() { s.ping(ctx, every, ping, cancel) })
	defer pings.Wait()
	defer cancel(nil)
	err := run(ctx, s)
	if gone := context.Cause(ctx); errors.Is(gone, ErrSlow) { // which run may tell as the end of its context
		return gone
	}
	return err
}

// ping sends pings until ctx ends, or ends it when they cannot be sent.
func (s *Stream) ping(ctx context.Context, every time.Duration, ping string, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := s.Send([]byte(ping)); err != nil {
				cancel(err)
				return
			}
		}
	}
}

// Send sends whole events. It fails with ErrSlow.
func (s *Stream) Send(events []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	_, err := s.w.Write(events)
	if err == nil {
		err = s.control.Flush()
	}
	if err != nil {
		s.err = fmt.Errorf("%w: %w", ErrSlow, err)
	}
	return s.err
}
