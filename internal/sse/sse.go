// Package sse writes streams of server-sent events.
package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// ErrSlow means that the client did not read what was sent.
var ErrSlow = errors.New("the client reads too slowly or has disconnected")

// Stream is one response. It is safe for concurrent use.
type Stream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	err     error // why nothing more can be sent
}

// Comment is a ping that clients ignore.
const Comment = ":\n\n"

// Serve sends the response's header and calls run, which sends the events. At the interval
// every it also sends ping, a comment or an event, so that proxies do not close a silent
// stream. The context of run ends when ctx ends or a ping cannot be sent. Serve returns
// after run and the pings have ended: ErrSlow if a ping could not be sent, otherwise the
// error of run.
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
	if gone := context.Cause(ctx); errors.Is(gone, ErrSlow) { // run may have returned only ctx.Err()
		return gone
	}
	return err
}

// ping sends pings until ctx ends. If a ping cannot be sent, it cancels ctx.
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

// Send sends complete events. All its errors wrap ErrSlow.
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
