package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/reelay/reelay/models"
)

const (
	// eventPage is how many events are read at once.
	eventPage = 200
	// maxEvents bounds the events of a job that are held for those who are slow.
	maxEvents = 256
)

// Events calls send with every event of a job after afterSeq, in order, each
// once: first those of the past, then live ones. It returns nil after the newest
// event was sent, if that one ended the job, and send's error if it fails. Events
// that retention removed are not sent.
//
// It returns NOT_FOUND for a job that the caller may not see, and INVALID_INPUT
// for an afterSeq below 0 or beyond the newest event.
//
// PostgreSQL alone says what comes next: news only tell when to look, so it does
// not matter which of them are lost, or through which process the caller came
// before. All followers of a job in one process share one reader; whoever cannot
// keep up with it reads his pages himself.
func (w *Watcher) Events(ctx context.Context, p Principal, id models.JobID, afterSeq int64, send func(*models.JobEvent) error) error {
	job, err := w.Reader.Job(ctx, p, id)
	if err != nil {
		return err
	}
	if afterSeq < 0 || afterSeq > int64(job.EventSeq) {
		return invalid("afterSeq", "afterSeq must be from 0 to the seq of the job's newest event, which is %d; it is %d.", job.EventSeq, afterSeq)
	}
	f := w.join(id)
	defer w.leave(f)
	at := int(afterSeq)
	for {
		heard := f.events.after(at)
		if heard.behind {
			if heard.items, err = models.ListJobEvents(ctx, w.Reader.DB, id, at, eventPage); err != nil {
				return fmt.Errorf("read events of job %s: %w", id, err)
			}
			if len(heard.items) == 0 {
				at = heard.floor // they were removed
			}
		}
		for _, e := range heard.items {
			if err := send(e); err != nil {
				return err
			}
			at = e.Seq
		}
		if heard.behind || len(heard.items) > 0 {
			continue
		}
		if heard.over || heard.err != nil {
			return heard.err
		}
		select {
		case <-heard.more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// feed reads one job's events for all who follow them in this process.
type feed struct {
	shared
	id     models.JobID
	events *ring[*models.JobEvent]
}

// join follows a job's feed.
func (w *Watcher) join(id models.JobID) *feed {
	w.mu.Lock()
	f := w.feeds[id]
	if f == nil {
		f = w.newFeed(id)
		w.feeds[id] = f
	}
	f.enter(w.News)
	w.mu.Unlock()
	<-f.ready
	return f
}

func (w *Watcher) newFeed(id models.JobID) *feed {
	if w.feeds == nil {
		w.feeds = map[models.JobID]*feed{}
	}
	f := &feed{id: id, events: newRing(maxEvents, func(e *models.JobEvent) int { return e.Seq })}
	f.shared = shared{
		topic: string(id), age: f.events.age,
		look: func(ctx context.Context) error { return f.read(ctx, w.Reader) },
		fail: func(err error) {
			w.mu.Lock()
			w.forget(f)
			w.mu.Unlock()
			f.events.fail(err)
		},
	}
	return f
}

func (w *Watcher) leave(f *feed) {
	w.mu.Lock()
	f.followers--
	last := f.followers == 0
	if last {
		w.forget(f)
	}
	w.mu.Unlock()
	if last {
		f.stop()
		<-f.done
	}
}

// forget has the next follower of the job begin a new feed. The watcher's mu is
// held.
func (w *Watcher) forget(f *feed) {
	if w.feeds[f.id] == f {
		delete(w.feeds, f.id)
	}
}

// read adds what is new up to the job's own counter, which no lost news can
// change. The first look only notes where the feed begins.
func (f *feed) read(ctx context.Context, r *Reader) error {
	job, err := models.GetJob(ctx, r.DB, f.id)
	if errors.Is(err, sql.ErrNoRows) {
		return notFound("job")
	}
	if err != nil {
		return fmt.Errorf("read job %s: %w", f.id, err)
	}
	if !f.hasBegun() {
		f.events.begin(job.EventSeq)
	}
	for f.events.head < job.EventSeq { // only this goroutine writes it
		events, err := models.ListJobEvents(ctx, r.DB, f.id, f.events.head, eventPage)
		if err != nil {
			return fmt.Errorf("read events of job %s: %w", f.id, err)
		}
		if len(events) == 0 {
			break
		}
		f.events.add(events...)
	}
	f.events.end(job.EventSeq, job.Status.Terminal() && f.events.head <= job.EventSeq)
	return nil
}
