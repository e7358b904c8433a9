package web

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/jobs"
)

const (
	// streamTTL is how long a stream lives before the browser opens a new one,
	// and its login is checked again.
	streamTTL = 10 * time.Minute
	// beatEvery keeps proxies from closing a silent stream.
	beatEvery = 15 * time.Second
	// writeLimit is how long a browser may take to read an event.
	writeLimit = 10 * time.Second
)

// stream is one response of server-sent events.
type stream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
}

// follow keeps a part of a page current: what run sends is swapped into it. It
// ends with run, with the request, and after streamTTL.
func follow(w http.ResponseWriter, r *http.Request, run func(ctx context.Context, s *stream) error) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	s := &stream{w: w, control: http.NewResponseController(w)}
	ctx, cancel := context.WithTimeout(r.Context(), streamTTL)
	var beats sync.WaitGroup
	beats.Go(func() { s.beat(ctx, cancel) })

	err := run(ctx, s)
	cancel()
	beats.Wait()
	// The connection may serve other requests after this one.
	_ = s.control.SetWriteDeadline(time.Time{})
	var known *jobs.Error
	if err != nil && ctx.Err() == nil && !errors.As(err, &known) {
		slog.ErrorContext(r.Context(), "console stream failed", "path", r.URL.Path, "error", err)
	}
	return nil
}

// beat sends comments until ctx ends, or ends it when they cannot be sent.
func (s *stream) beat(ctx context.Context, cancel context.CancelFunc) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if s.write([]byte(":\n\n")) != nil {
				cancel()
				return
			}
		}
	}
}

// send swaps a component into the page. id is what the browser repeats in
// Last-Event-ID when it comes back.
func (s *stream) send(ctx context.Context, id string, part templ.Component) error {
	var html bytes.Buffer
	if err := part.Render(ctx, &html); err != nil {
		return err
	}
	return s.write(event(id, html.Bytes()))
}

// end tells the page that nothing more will come.
func (s *stream) end() error { return s.write([]byte("event: end\ndata: end\n\n")) }

func (s *stream) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.control.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return err
	}
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}

// event frames HTML. A carriage return would end a line, as a line feed does.
func event(id string, html []byte) []byte {
	var b bytes.Buffer
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	html = bytes.ReplaceAll(html, []byte("\r\n"), []byte("\n"))
	html = bytes.ReplaceAll(html, []byte("\r"), []byte("\n"))
	for line := range bytes.SplitSeq(html, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// refreshEvery is how often a list looks for what changed.
const refreshEvery = 2 * time.Second

// refresh keeps a list current: it reads it again and again, and sends it when
// it looks different.
func refresh(w http.ResponseWriter, r *http.Request, read func(ctx context.Context) (templ.Component, error)) error {
	return follow(w, r, func(ctx context.Context, s *stream) error {
		ticker := time.NewTicker(refreshEvery)
		defer ticker.Stop()
		var shown []byte
		for {
			part, err := read(ctx)
			if err != nil {
				return err
			}
			var html bytes.Buffer
			if err := part.Render(ctx, &html); err != nil {
				return err
			}
			if !bytes.Equal(shown, html.Bytes()) {
				if err := s.write(event("", html.Bytes())); err != nil {
					return err
				}
				shown = html.Bytes()
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	})
}
