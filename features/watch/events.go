package watch

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

const (
	// eventPage is how many events are read at once.
	eventPage = 200
	// maxEvents bounds the events of a job that are held for slow followers.
	maxEvents = 256
	// maxLook bounds the jobs that one look reads.
	maxLook = 1000
)

// Events follows the events of a job after afterSeq: first the past ones, then live ones, in
// order, each once. The stream ends after the newest event if that event ended the job. It
// omits events that retention removed.
//
// It returns NOT_FOUND for a job that the caller may not see, and INVALID_INPUT for an
// afterSeq below 0 or beyond the newest event.
//
// PostgreSQL alone decides what comes next. A notification only says when to look, so it does not matter
// whether notifications are lost, or which process the caller used before. All followers in one process
// share one reader, which reads all jobs with notifications at once. A follower that cannot keep up
// with it reads its own pages.
func (w *Watcher) Events(ctx context.Context, p jobs.Principal, id models.JobID, afterSeq int64) (Stream[*models.JobEvent], error) {
	job, err := w.Jobs.Get(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if afterSeq < 0 || afterSeq > int64(job.EventSeq) {
		return nil, apierror.Invalid("afterSeq", "afterSeq must be from 0 to the seq of the job's newest event, which is %d; it is %d.",
			job.EventSeq, afterSeq)
	}
	return &eventStream{w: w, feed: w.join(ctx, job), at: int(afterSeq)}, nil
}

// eventStream is one follower of a job.
type eventStream struct {
	w      *Watcher
	feed   *feed
	at     int
	closed atomic.Bool
}

// Next implements Stream.
func (s *eventStream) Next(ctx context.Context) ([]*models.JobEvent, error) {
	for {
		heard := s.feed.events.after(s.at)
		if heard.behind {
			var err error
			if heard.items, err = models.ListJobEvents(ctx, s.w.DB, s.feed.id, s.at, eventPage); err != nil {
				return nil, fmt.Errorf("read events of job %s: %w", s.feed.id, err)
			}
			if len(heard.items) == 0 {
				s.at = heard.floor // they were removed
				continue
			}
		}
		switch n := len(heard.items); {
		case n > 0:
			s.at = heard.items[n-1].Seq
			return heard.items, nil
		case heard.err != nil:
			return nil, heard.err
		case heard.over:
			return nil, io.EOF
		}
		return nil, nil
	}
}

// Wake implements Stream.
func (s *eventStream) Wake(f func()) {
	s.feed.events.wake(s, s.at, f)
	if s.closed.Load() { // an event came meanwhile
		s.feed.events.forget(s)
	}
}

// Close implements Stream.
func (s *eventStream) Close() {
	if s.closed.CompareAndSwap(false, true) {
		s.feed.events.forget(s)
		s.w.leave(s.feed)
	}
}

// feed holds the newest events of one job that has followers in this process.
type feed struct {
	reader *eventReader
	id     models.JobID
	events *ring[*models.JobEvent]

	// guarded by the watcher's mu
	followers int
	quit      func() // ends the subscription to notifications; nil before it began
	due       bool   // the next look reads this feed
}

// join follows a job from the state that was just read.
func (w *Watcher) join(ctx context.Context, job *models.Job) *feed {
	w.mu.Lock()
	if w.events == nil {
		w.events = w.newEventReader()
	}
	r := w.events
	r.enter()
	f := r.feeds[job.ID]
	first := f == nil
	if first {
		f = &feed{reader: r, id: job.ID, events: newRing(maxEvents, func(e *models.JobEvent) int { return e.Seq })}
		f.events.begin(job.EventSeq)
		r.feeds[job.ID] = f
	}
	f.followers++
	w.mu.Unlock()
	if first {
		w.listen(ctx, f)
	}
	return f
}

// listen subscribes to notifications of the job, and reads the feed once at the start, so that nothing
// since the job was read is missed.
func (w *Watcher) listen(ctx context.Context, f *feed) {
	told := func() { f.reader.isDue(f) }
	quit := w.Notifications.Subscribe(ctx, string(f.id), told)
	w.mu.Lock()
	gone := f.followers == 0
	if !gone {
		f.quit = quit
	}
	w.mu.Unlock()
	if gone {
		quit()
		return
	}
	told()
}

// leave ends a feed without followers.
func (w *Watcher) leave(f *feed) {
	w.mu.Lock()
	r, quit := f.reader, func() {}
	if f.followers--; f.followers == 0 {
		r.forget(f)
		if f.quit != nil {
			quit = f.quit
		}
	}
	r.followers--
	last := r.followers == 0
	if last && w.events == r {
		w.events = nil
	}
	w.mu.Unlock()
	quit()
	if last {
		r.stop()
		<-r.done
	}
}
