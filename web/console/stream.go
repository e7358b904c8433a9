package console

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/internal/sse"
	"github.com/reelay/reelay/jobs/apierror"
)

const (
	// streamTTL is how long a stream lives before the browser opens a new one,
	// and its login is checked again.
	streamTTL = 10 * time.Minute
	// beatEvery is how often a stream sends an event even if nothing changed. It
	// keeps proxies from closing the stream, and tells the page that its data are
	// current: live.js waits for three of them.
	beatEvery = 5 * time.Second
	beat      = "event: beat\ndata: beat\n\n"
)

// stream is the live part of a page.
type stream struct{ *sse.Stream }

// follow keeps a part of a page current: what run sends is swapped into it. It
// ends with run, with the request, with the login, and after streamTTL. If the
// login ends, the page is told so.
func (c *console) follow(w http.ResponseWriter, r *http.Request, run func(ctx context.Context, s *stream) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), streamTTL)
	defer cancel()
	err := sse.Serve(ctx, w, beatEvery, beat, func(ctx context.Context, plain *sse.Stream) error {
		ctx, cancel := context.WithCancel(ctx)
		var loggedOut bool
		var watch sync.WaitGroup
		watch.Go(func() {
			if loggedOut = c.loginEnds(ctx, r); loggedOut {
				cancel()
			}
		})
		err := run(ctx, &stream{plain})
		cancel()
		watch.Wait()
		if loggedOut {
			return plain.Send([]byte("event: logout\ndata: logout\n\n")) // the next connection learns it by its status
		}
		return err
	})
	var known *apierror.Error
	if err != nil && ctx.Err() == nil && !errors.Is(err, sse.ErrSlow) && !errors.As(err, &known) {
		slog.ErrorContext(r.Context(), "console stream failed", "path", r.URL.Path, "error", err)
	}
	return nil
}

// send swaps a component into the page. id is what the browser repeats in
// Last-Event-ID when it comes back.
func (s *stream) send(ctx context.Context, id string, part templ.Component) error {
	var html bytes.Buffer
	if err := part.Render(ctx, &html); err != nil {
		return err
	}
	return s.Send(event(id, html.Bytes()))
}

// end tells the page that nothing more will come.
func (s *stream) end() error { return s.Send([]byte("event: end\ndata: end\n\n")) }

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

// refresh keeps a list current: it reads the list again and again, and sends it
// when it changed. A part shows times relative to now. The page itself keeps those
// current, so that a part which differs in nothing else is not sent again.
func (c *console) refresh(w http.ResponseWriter, r *http.Request, read func(ctx context.Context) (func(now time.Time) templ.Component, error)) error {
	return c.follow(w, r, func(ctx context.Context, s *stream) error {
		ticker := time.NewTicker(refreshEvery)
		defer ticker.Stop()
		begin := time.Now()
		var known []byte
		for {
			part, err := read(ctx)
			if err != nil {
				return err
			}
			var html bytes.Buffer
			if err := part(begin).Render(ctx, &html); err != nil {
				return err
			}
			if !bytes.Equal(known, html.Bytes()) {
				if err := s.send(ctx, "", part(time.Now())); err != nil {
					return err
				}
				known = html.Bytes()
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	})
}
