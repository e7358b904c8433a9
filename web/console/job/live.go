package job

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"golang.org/x/sync/errgroup"
)

// watchEvery is the shortest time between two updates of a job's page.
const watchEvery = 250 * time.Millisecond

// jobLive streams the live part of a job's page, and the events that the page does not
// show yet. A browser that reconnects sends the newest event that it has in
// Last-Event-ID. All viewers of a job share what is read of it.
func (c *controller) jobLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	job, err := c.Reads.Jobs.Get(r.Context(), p, models.JobID(r.PathValue("id")))
	if err != nil {
		return err
	}
	loaded, _ := strconv.Atoi(r.URL.Query().Get("after"))
	seen, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	if err != nil {
		seen = loaded
	}
	seen = max(seen, 0)
	return c.Follow(w, r, func(ctx context.Context, s *shell.Stream) error {
		key := string(p.Scope()) + " " + string(job.ID)
		err := c.jobPages.Watch(ctx, key, p, c.followJob(p, job), func(v *jobView) error {
			if v.EventSeq < job.EventSeq {
				return nil // the page is newer
			}
			shown := *v
			shown.Now, shown.Earlier = time.Now(), earlierEvents(job.ID, loaded-eventsShown)
			if shown.Events, err = c.eventsAfter(ctx, p, v, seen); err != nil {
				return err
			}
			if len(shown.Events) > 0 {
				seen = shown.Events[0].Seq
			}
			return s.SendPart(ctx, strconv.Itoa(seen), jobNews(&shown))
		})
		if err != nil || ctx.Err() != nil {
			return err
		}
		return s.End()
	})
}

// eventsAfter returns a job's events after one of that number, newest first. The view
// has the newest events; older ones are read.
func (c *controller) eventsAfter(ctx context.Context, p jobs.Principal, v *jobView, seen int) ([]*models.JobEvent, error) {
	if v.EventSeq <= seen {
		return nil, nil
	}
	if oldest := len(v.Events) - 1; oldest >= 0 && v.Events[oldest].Seq <= seen+1 {
		newer := slices.IndexFunc(v.Events, func(e *models.JobEvent) bool { return e.Seq <= seen })
		if newer < 0 {
			return v.Events, nil
		}
		return v.Events[:newer], nil
	}
	return c.readEventsAfter(ctx, p, v.Job, seen)
}

// liveJob reads one job for all viewers of its page.
type liveJob struct {
	pages  *controller
	caller jobs.Principal
	feed   *shell.Feed[*jobView]

	mu   sync.Mutex // guards what follows
	view *jobView   // with the newest events
}

// followJob publishes a job's page until the job has ended and none of its webhooks is
// pending.
func (c *controller) followJob(p jobs.Principal, job *models.Job) shell.Source[*jobView] {
	return func(ctx context.Context, f *shell.Feed[*jobView]) error {
		edges, err := c.Reads.Jobs.Of(p, job)
		if err != nil {
			return err
		}
		prompts, err := edges.Prompts(ctx)
		if err != nil {
			return err
		}
		live := &liveJob{pages: c, caller: p, feed: f, view: &jobView{Job: &models.Job{}, Prompt: shownPrompt(ctx, prompts[job.ID])}}
		if err := live.watch(ctx, job.ID); err != nil {
			return err
		}
		return live.watchWebhooks(ctx)
	}
}

// watch publishes what changes of the job until it has ended.
func (l *liveJob) watch(ctx context.Context, id models.JobID) error {
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer stop()
		return l.pages.Watcher.Job(ctx, l.caller, id, watchEvery, func(job *models.Job) error { return l.advance(ctx, job) })
	})
	group.Go(func() error { return l.watchWaiting(ctx) })
	return group.Wait()
}

// advance brings the view to the job's current state.
func (l *liveJob) advance(ctx context.Context, job *models.Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.view.EventSeq
	l.view.Job = job
	if job.EventSeq != known {
		if err := l.pages.readJobParts(ctx, l.caller, l.view); err != nil {
			return err
		}
		read := job.EventSeq - eventsShown
		if len(l.view.Events) > 0 {
			read = max(read, l.view.Events[0].Seq)
		}
		newer, err := l.pages.readEventsAfter(ctx, l.caller, job, max(read, 0))
		if err != nil {
			return err
		}
		events := append(newer, l.view.Events...)
		l.view.Events = events[:min(len(events), eventsShown)]
		if err := l.pages.readEventKeys(ctx, l.caller, l.view); err != nil {
			return err
		}
	}
	l.publish()
	return nil
}

// watchWaiting rereads what holds a waiting job back, which changes without an event of
// the job.
func (l *liveJob) watchWaiting(ctx context.Context) error {
	ticker := time.NewTicker(shell.RefreshEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := l.rereadWaiting(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (l *liveJob) rereadWaiting(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := l.view.Waiting
	if err := l.pages.readWaiting(ctx, l.caller, l.view); err != nil || slices.Equal(shown, l.view.Waiting) {
		return err
	}
	l.publish()
	return nil
}

// watchWebhooks publishes the webhooks of a job that has ended until none is pending.
func (l *liveJob) watchWebhooks(ctx context.Context) error {
	ticker := time.NewTicker(shell.RefreshEvery)
	defer ticker.Stop()
	for l.view.delivering() {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		shown := *l.view
		if err := l.pages.readWebhooks(ctx, l.caller, l.view); err != nil {
			return err
		}
		if !reflect.DeepEqual(shown.Webhooks, l.view.Webhooks) || !reflect.DeepEqual(shown.Tries, l.view.Tries) {
			l.publish()
		}
	}
	return nil
}

func (l *liveJob) publish() {
	published := *l.view
	l.feed.Publish(&published)
}

// readEventsAfter reads all of a job's events after one of that number, newest first.
func (c *controller) readEventsAfter(ctx context.Context, p jobs.Principal, job *models.Job, seen int) ([]*models.JobEvent, error) {
	edges, err := c.Reads.Jobs.Of(p, job)
	if err != nil {
		return nil, err
	}
	var events []*models.JobEvent
	for more := true; more; {
		pages, err := edges.Events(ctx, seen, paging.Max)
		if err != nil {
			return nil, err
		}
		page := pages[job.ID]
		events = append(events, page.Items...)
		if more = page.More; more {
			seen = page.Items[len(page.Items)-1].Seq
		}
	}
	slices.Reverse(events)
	return events, nil
}
