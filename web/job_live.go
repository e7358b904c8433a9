package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
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
	v := &jobView{Job: &models.Job{}, Prompt: prompts[job.ID], Earlier: earlierEvents(job.ID, loaded-eventsShown)}
	return follow(w, r, func(ctx context.Context, s *stream) error {
		err := c.Watcher.Job(ctx, p, job.ID, watchEvery, func(job *models.Job) error {
			if err := c.advance(ctx, v, job, max(seen, 0)); err != nil {
				return err
			}
			if len(v.Events) > 0 {
				seen = v.Events[0].Seq
			}
			return s.send(ctx, strconv.Itoa(seen), jobNews(v))
		})
		if err != nil {
			return err
		}
		return s.end()
	})
}

// advance brings a view to where the job is now, with the events after seen.
func (c *console) advance(ctx context.Context, v *jobView, job *models.Job, seen int) error {
	known := v.Job.EventSeq
	v.Job, v.Now, v.Events = job, time.Now(), nil
	if job.EventSeq != known {
		if err := c.readJobParts(ctx, v); err != nil {
			return err
		}
	}
	if job.EventSeq <= seen {
		return nil
	}
	for more := true; more; {
		page, err := c.Reader.Events(ctx, job.ID, jobs.PageOf{First: jobs.MaxPage, After: jobs.Cursor(strconv.Itoa(seen))})
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
