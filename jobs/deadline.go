package jobs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// A job with FinishBy runs anywhere while it has slack: while it could still lose a worker and
// be complete in time. Without slack it runs on on-demand capacity only. Once FinishBy is past it
// runs anywhere again: it cannot be saved any more, and must not wait for capacity that may never
// come. Its slack is reckoned when it enters a queue, and again when it should end. A running job
// stays where it is.

const (
	// slackShare is the part of the remaining render time that is kept in reserve, and
	// slackReserve what a start takes on a worker that is there: to load the model, fetch the
	// checkpoint and upload the video.
	slackShare   = 0.1
	slackReserve = 30 * time.Second
	// slackRecheck is after how long the capacity for a job without slack is looked at again.
	slackRecheck = time.Minute
)

// pace is what the slack of jobs is reckoned from: how long renders take, and the seconds until
// a new worker of on-demand capacity has booted, by model.
type pace struct {
	times estimate.RenderTimes
	boots map[string]float64
}

func readPace(ctx context.Context, db bun.IDB, names []string) (*pace, error) {
	known, err := models.ListRenderTimes(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("read how long renders take: %w", err)
	}
	boots, err := models.OnDemandBoots(ctx, db, names)
	if err != nil {
		return nil, fmt.Errorf("read how long workers boot: %w", err)
	}
	return &pace{times: estimate.NewRenderTimes(known), boots: boots}, nil
}

// slackUntil is the last moment at which a job can start on a new worker and be complete in
// time. done is its progress in percent.
func (p *pace) slackUntil(job *models.Job, done float64) time.Time {
	render := p.times.Seconds(job) * (1 - done/100) * (1 + slackShare)
	return job.FinishBy.Add(-seconds(render+p.boots[job.Model]) - slackReserve).Truncate(time.Microsecond)
}

// placeAll decides where the jobs that enter a queue may run, and records it. Jobs with a
// deadline and no slack run on on-demand capacity only; the pass Slack soon looks whether there
// is any that can run them.
func placeAll(ctx context.Context, tx bun.Tx, changes []*Change) error {
	entering := lo.Filter(changes, func(c *Change, _ int) bool {
		return c.job.Status == models.JobQueued && c.before.Status != models.JobQueued
	})
	pressed := lo.Filter(entering, func(c *Change, _ int) bool { return !c.job.FinishBy.IsZero() })
	if len(pressed) > 0 {
		p, err := readPace(ctx, tx, lo.Uniq(lo.Map(pressed, func(c *Change, _ int) string { return c.job.Model })))
		if err != nil {
			return err
		}
		for _, c := range pressed {
			done, err := saved(ctx, tx, c.job)
			if err != nil {
				return err
			}
			switch c.job.SlackUntil = p.slackUntil(c.job, done); {
			case !c.job.FinishBy.After(c.now):
				c.job.SlackUntil = time.Time{}
			case !c.job.SlackUntil.After(c.now):
				c.job.Needs, c.job.SlackUntil = c.job.Needs.Also(true), c.now
			}
		}
	}
	for _, c := range entering {
		c.sayCapacity("it has slack again, or a new run")
	}
	return nil
}

// saved returns the progress of a job's newest checkpoint, in percent.
func saved(ctx context.Context, db bun.IDB, job *models.Job) (float64, error) {
	if job.LatestCheckpointID == "" {
		return 0, nil
	}
	found, err := models.ListCheckpoints(ctx, db, job.ID, 1)
	if err != nil || len(found) == 0 || found[0].Percent == nil {
		return 0, err
	}
	return *found[0].Percent, nil
}

// sayCapacity records in the newest event that the job moved to on-demand capacity, or back
// for that reason.
func (c *Change) sayCapacity(back string) {
	if len(c.events) == 0 || c.job.Needs.OnDemand() == c.before.Needs.OnDemand() {
		return
	}
	capacity, reason := models.CapacityOnDemand, "moved to on-demand capacity: "+c.job.WhyOnDemand()
	if !c.job.Needs.OnDemand() {
		capacity, reason = "ANY", "moved back to any capacity: "+back
	}
	event := c.events[len(c.events)-1]
	var payload Payload
	if err := json.Unmarshal(event.Payload, &payload); err != nil {
		panic(fmt.Sprintf("event %s: %v", event.Type, err)) // this process has just encoded it
	}
	payload["capacity"], payload["reason"] = capacity, reason
	event.Payload, _ = json.Marshal(payload)
	c.job.Progress.Message, c.job.Progress.UpdatedAt = reason, c.now
}

// Slack looks at the queued jobs whose slack should end: those that have none run on on-demand
// capacity only, if there is any that can run them. It returns how many jobs it moved. Any
// number of processes may call it at once.
func (s *Scheduler) Slack(ctx context.Context) (int, error) {
	due, err := models.ListSlackEnding(ctx, s.DB, dueLimit)
	if err != nil {
		return 0, fmt.Errorf("find jobs without slack: %w", err)
	}
	if len(due) == 0 {
		return 0, nil
	}
	names := lo.Uniq(lo.Map(due, func(j *models.Job, _ int) string { return j.Model }))
	w := slackWatch{known: s.Catalogue.Current()}
	if w.pace, err = readPace(ctx, s.DB, names); err != nil {
		return 0, err
	}
	if w.capacity, err = models.ListCapacity(ctx, s.DB, names); err != nil {
		return 0, fmt.Errorf("list the capacity: %w", err)
	}
	moved := 0
	var failed []error
	for _, job := range due {
		done, err := w.look(ctx, s.DB, job.ID)
		if err != nil {
			failed = append(failed, fmt.Errorf("look at the slack of job %s: %w", job.ID, err))
		} else if done != nil {
			moved++
			s.Notifier.After(ctx, done)
		}
	}
	return moved, errors.Join(failed...)
}

// slackWatch decides on jobs whose slack should end.
type slackWatch struct {
	*pace
	known    *catalogue.Snapshot
	capacity []models.Capacity
}

// look moves a job if its slack has ended, and back if no capacity can run it where it was moved
// to or its FinishBy is past. It returns nil if the job stays.
func (w *slackWatch) look(ctx context.Context, db *bun.DB, id models.JobID) (moved *Change, err error) {
	err = changeJob(ctx, db, id, func(ctx context.Context, tx bun.Tx, c *Change) error {
		moved = nil
		job := c.job
		if job.Status != models.JobQueued || job.SlackUntil.IsZero() || job.SlackUntil.After(c.now) {
			return nil // it moved meanwhile
		}
		done, err := saved(ctx, tx, job)
		if err != nil {
			return err
		}
		back := "no on-demand capacity can run it"
		switch job.SlackUntil = w.slackUntil(job, done); {
		case !job.FinishBy.After(c.now):
			job.Needs, job.SlackUntil, back = job.Needs.Also(job.Spent()), time.Time{}, "its finishBy is past"
		case !job.SlackUntil.After(c.now):
			job.Needs = job.Needs.Also(job.Spent() || w.safe(job))
			job.SlackUntil = slices.MinFunc([]time.Time{c.now.Add(slackRecheck), job.FinishBy}, time.Time.Compare)
		}
		if job.Needs != c.before.Needs {
			c.note(models.EventQueued, Payload{"lane": job.Lane})
			c.sayCapacity(back)
			moved = c
		}
		return c.save(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return moved, err
}

// safe reports whether on-demand capacity can run a job.
func (w *slackWatch) safe(job *models.Job) bool {
	q := job.Queue()
	q.Needs = q.Needs.Also(true)
	return slices.ContainsFunc(w.capacity, func(c models.Capacity) bool {
		return c.Booting+c.Idle+c.Busy+c.Opens > 0 && w.known.CapabilityOf(c.Offer).Serves(q, job.AccountID)
	})
}
