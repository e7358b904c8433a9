package console

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/models"
	"golang.org/x/sync/errgroup"
)

// watchEvery is how often a job's page moves at most.
const watchEvery = 250 * time.Millisecond

// jobLive streams a job: its page's live part, and the events that the page has
// not shown. What the browser saw last is in Last-Event-ID when it comes back.
func (c *console) jobLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	job, err := c.Reader.Job(r.Context(), p, models.JobID(r.PathValue("id")))
	if err != nil {
		return err
	}
	loaded, _ := strconv.Atoi(r.URL.Query().Get("after"))
	seen, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	if err != nil {
		seen = loaded
	}
	prompts, err := c.Reader.Prompts(r.Context(), []models.JobID{job.ID})
	if err != nil {
		return err
	}
	v := &jobView{Job: &models.Job{}, Prompt: shownPrompt(r.Context(), prompts[job.ID]), Earlier: earlierEvents(job.ID, loaded-eventsShown)}
	return c.follow(w, r, func(ctx context.Context, s *stream) error {
		live := &liveJob{console: c, caller: p, stream: s, view: v, seen: max(seen, 0)}
		if err := live.watch(ctx, job.ID); err != nil {
			return err
		}
		if err := live.watchWebhooks(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		return s.end()
	})
}

// liveJob keeps one job's page current.
type liveJob struct {
	console *console
	caller  jobs.Principal
	stream  *stream

	mu   sync.Mutex // over what follows
	view *jobView
	seen int // the newest event that the page has
}

// watch sends what changes of the job until it is over.
func (l *liveJob) watch(ctx context.Context, id models.JobID) error {
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer stop()
		return l.console.Watcher.Job(ctx, l.caller, id, watchEvery, func(job *models.Job) error { return l.show(ctx, job) })
	})
	group.Go(func() error { return l.showWaiting(ctx) })
	return group.Wait()
}

func (l *liveJob) show(ctx context.Context, job *models.Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.console.advance(ctx, l.caller, l.view, job, l.seen); err != nil {
		return err
	}
	if len(l.view.Events) > 0 {
		l.seen = l.view.Events[0].Seq
	}
	return l.send(ctx)
}

// showWaiting looks again and again at what holds a waiting job back: that
// changes without any news of the job itself.
func (l *liveJob) showWaiting(ctx context.Context) error {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := l.lookAgain(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (l *liveJob) lookAgain(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := l.view.Waiting
	if err := l.console.readWaiting(ctx, l.view); err != nil || slices.Equal(shown, l.view.Waiting) {
		return err
	}
	l.view.Now, l.view.Events = time.Now(), nil
	return l.send(ctx)
}

// watchWebhooks sends what becomes of the webhooks of a job that has ended, until
// none is on its way.
func (l *liveJob) watchWebhooks(ctx context.Context) error {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for l.view.delivering() {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		shown := *l.view
		if err := l.console.readWebhooks(ctx, l.caller, l.view); err != nil {
			return err
		}
		if reflect.DeepEqual(shown.Webhooks, l.view.Webhooks) && reflect.DeepEqual(shown.Tries, l.view.Tries) {
			continue
		}
		l.view.Now, l.view.Events = time.Now(), nil
		if err := l.send(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *liveJob) send(ctx context.Context) error {
	return l.stream.send(ctx, strconv.Itoa(l.seen), jobNews(l.view))
}

// advance brings a view to where the job is now, with the events after seen.
func (c *console) advance(ctx context.Context, p jobs.Principal, v *jobView, job *models.Job, seen int) error {
	known := v.Job.EventSeq
	v.Job, v.Now, v.Events = job, time.Now(), nil
	if job.EventSeq != known {
		if err := c.readJobParts(ctx, p, v); err != nil {
			return err
		}
	}
	if job.EventSeq <= seen {
		return nil
	}
	for more := true; more; {
		page, err := c.Reader.Events(ctx, job.ID, seen, paging.Max)
		if err != nil {
			return err
		}
		v.Events = append(v.Events, page.Items...)
		if more = page.More; more {
			seen = page.Items[len(page.Items)-1].Seq
		}
	}
	slices.Reverse(v.Events)
	return nil
}
