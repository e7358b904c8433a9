package watch

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
)

// eventReader reads the events of all followed jobs in this process, of many jobs at once. The
// watcher's mu guards it.
type eventReader struct {
	shared
	w     *Watcher
	feeds map[models.JobID]*feed
	due   []*feed
}

// newEventReader makes the reader. The watcher's mu must be held.
func (w *Watcher) newEventReader() *eventReader {
	r := &eventReader{w: w, feeds: map[models.JobID]*feed{}}
	r.shared = shared{look: r.read, age: r.ageAll, fail: r.failAll}
	return r
}

// isDue makes the next look read a feed.
func (r *eventReader) isDue(f *feed) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if f.followers > 0 && !f.due {
		f.due = true
		r.due = append(r.due, f)
		r.notify()
	}
}

// forget makes the next follower of the job begin a new feed. The watcher's mu must be held.
func (r *eventReader) forget(f *feed) {
	if r.feeds[f.id] == f {
		delete(r.feeds, f.id)
	}
}

// read reads the new events of the jobs with notifications, or of all jobs. It compares with the jobs'
// own counters, so lost notifications do not matter.
func (r *eventReader) read(ctx context.Context, all bool) error {
	if all {
		for _, f := range r.all() {
			r.isDue(f)
		}
	}
	for {
		feeds := r.takeDue()
		if len(feeds) == 0 {
			return nil
		}
		if err := r.readFeeds(ctx, feeds); err != nil {
			return err
		}
	}
}

func (r *eventReader) takeDue() map[models.JobID]*feed {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	n := min(len(r.due), maxLook)
	taken := make(map[models.JobID]*feed, n)
	for _, f := range r.due[:n] {
		f.due = false
		taken[f.id] = f
	}
	if r.due = r.due[n:]; len(r.due) == 0 {
		r.due = nil
	}
	return taken
}

// readFeeds adds the new events of some jobs, page by page.
func (r *eventReader) readFeeds(ctx context.Context, feeds map[models.JobID]*feed) error {
	ids := make([]models.JobID, 0, len(feeds))
	for id := range feeds {
		ids = append(ids, id)
	}
	for len(ids) > 0 {
		heads, err := models.ListJobHeads(ctx, r.w.DB, ids)
		if err != nil {
			return fmt.Errorf("read how far the events of jobs are: %w", err)
		}
		for _, id := range ids {
			if _, there := heads[id]; !there {
				r.failOne(feeds[id], apierror.NotFound("job"))
			}
		}
		if ids, err = r.readPage(ctx, feeds, heads); err != nil {
			return err
		}
	}
	return nil
}

// readPage reads the next events of each job that has more than its feed, and returns the jobs
// that may have still more.
func (r *eventReader) readPage(ctx context.Context, feeds map[models.JobID]*feed,
	heads map[models.JobID]models.JobHead) (more []models.JobID, err error) {
	var behind []models.JobHead
	for id, head := range heads {
		if at := feeds[id].events.newest(); at < head.EventSeq {
			behind = append(behind, models.JobHead{ID: id, EventSeq: at})
		}
	}
	read := map[models.JobID][]*models.JobEvent{}
	if len(behind) > 0 {
		if read, err = models.ListEventsAfter(ctx, r.w.DB, behind, eventPage); err != nil {
			return nil, fmt.Errorf("read events of jobs: %w", err)
		}
	}
	for id, head := range heads {
		events := feeds[id].events
		events.add(read[id]...)
		if len(read[id]) == eventPage && events.newest() < head.EventSeq {
			more = append(more, id)
			continue
		}
		events.end(head.EventSeq, head.Status.Terminal() && events.newest() <= head.EventSeq)
	}
	return more, nil
}

func (r *eventReader) all() []*feed {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	feeds := make([]*feed, 0, len(r.feeds))
	for _, f := range r.feeds {
		feeds = append(feeds, f)
	}
	return feeds
}

func (r *eventReader) ageAll() {
	for _, f := range r.all() {
		f.events.age()
	}
}

// failAll ends all streams. The next follower of a job begins a new feed.
func (r *eventReader) failAll(err error) {
	r.w.mu.Lock()
	if r.w.events == r {
		r.w.events = nil
	}
	r.w.mu.Unlock()
	for _, f := range r.all() {
		r.failOne(f, err)
	}
}

func (r *eventReader) failOne(f *feed, err error) {
	r.w.mu.Lock()
	r.forget(f)
	r.w.mu.Unlock()
	f.events.fail(err)
}
