package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/sse"
	"github.com/reelay/reelay/jobs"
)

const (
	// streamTTL is how long a stream lives before the browser opens a new one,
	// and its login is checked again.
	streamTTL = 10 * time.Minute
	// beatEvery is the interval at which a stream sends an event even if nothing changed.
	// It keeps proxies from closing the stream, and tells the page that its data is
	// current: live.js waits for three of them.
	beatEvery = 5 * time.Second
	beat      = "event: beat\ndata: beat\n\n"
)

// Stream is the live part of a page.
type Stream struct{ *sse.Stream }

// Follow keeps a part of a page current with what run sends. It ends with run, with the
// request, with the login, and after streamTTL. The page is told if the login ended.
func (c *Shell) Follow(w http.ResponseWriter, r *http.Request, run func(ctx context.Context, s *Stream) error) error {
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
		err := run(ctx, &Stream{plain})
		cancel()
		watch.Wait()
		if loggedOut {
			return plain.Send([]byte("event: logout\ndata: logout\n\n")) // the next connection gets the status 401
		}
		return err
	})
	var known *apierror.Error
	if err != nil && ctx.Err() == nil && !errors.Is(err, sse.ErrSlow) && !errors.As(err, &known) {
		slog.ErrorContext(r.Context(), "console stream failed", "path", r.URL.Path, "error", err)
	}
	return nil
}

// SendPart swaps a component into the page. The browser repeats id in Last-Event-ID when it
// reconnects.
func (s *Stream) SendPart(ctx context.Context, id string, part templ.Component) error {
	var html bytes.Buffer
	if err := part.Render(ctx, &html); err != nil {
		return err
	}
	return s.Send(event(id, html.Bytes()))
}

// End tells the page that the stream is complete.
func (s *Stream) End() error { return s.Send([]byte("event: end\ndata: end\n\n")) }

// event frames HTML as one event. Carriage returns end lines, too.
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

// RefreshEvery is the interval at which a list is read again.
const RefreshEvery = 2 * time.Second

// listState is a list as it was read once.
type listState struct {
	began time.Time // when the read began
	// part is the list with times relative to one fixed moment: it changes only with the
	// list. now is the same with times relative to the read. The page itself keeps its
	// times current.
	part, now []byte
}

// readList reads a list for a caller, and returns its part of the page at a moment.
type readList func(ctx context.Context, p jobs.Principal) (func(now time.Time) templ.Component, error)

// Refresh keeps a list current. All viewers of a page with these arguments share its
// reads, each of which is charged to one of them. The page is at least as new as the
// viewer: what it shows was read after it was opened.
func (c *Shell) Refresh(w http.ResponseWriter, r *http.Request, p jobs.Principal, page string, read readList) error {
	key := fmt.Sprintf("%s %s %s %s", p.Scope(), p.Role, c.Origin(r), page)
	return c.Follow(w, r, func(ctx context.Context, s *Stream) error {
		opened := time.Now()
		var shown []byte
		return c.lists.Watch(ctx, key, p, read.publish, func(list listState) error {
			if list.began.Before(opened) || bytes.Equal(shown, list.part) {
				return nil
			}
			shown = list.part
			return s.Send(event("", ownTokens(r.Context(), list.now)))
		})
	})
}

// restBetween is the shortest time between two reads of a list. It bounds what viewers
// who come and go again can cost.
const restBetween = 250 * time.Millisecond

// publish reads the list every RefreshEvery, and soon after a viewer arrives.
func (read readList) publish(ctx context.Context, f *Feed[listState]) error {
	ticker := time.NewTicker(RefreshEvery)
	defer ticker.Stop()
	fixed := time.Now()
	for ctx.Err() == nil {
		if payer := f.payer(); payer != nil {
			list, err := read.state(ctx, payer.caller, fixed)
			var refused *apierror.Error
			if errors.As(err, &refused) {
				f.refuse(payer, err)
				continue
			}
			if err != nil {
				return err
			}
			f.Publish(list)
		}
		select {
		case <-ctx.Done():
		case <-time.After(restBetween):
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-f.arrived:
		}
	}
	return nil
}

func (read readList) state(ctx context.Context, p jobs.Principal, fixed time.Time) (listState, error) {
	began := time.Now()
	part, err := read(ctx, p)
	if err != nil {
		return listState{}, err
	}
	ctx = shared(ctx, p.Role)
	var unchanging, now bytes.Buffer
	if err := part(fixed).Render(ctx, &unchanging); err != nil {
		return listState{}, err
	}
	err = part(time.Now()).Render(ctx, &now)
	return listState{began: began, part: unchanging.Bytes(), now: now.Bytes()}, err
}
