package change

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// A job with FinishBy runs on cheap capacity while it has slack: while it could still lose a
// worker and be complete in time. Without slack it runs on on-demand capacity, and the scaler
// boots a worker for it at once. While such capacity has no room, because it is busy, refused, paused or does
// not boot, it runs on any: that may be taken away, but a job that waits is late for certain. Once FinishBy is
// past it runs anywhere: it cannot be saved any more, and must not wait for capacity that may never
// come. Its slack is reckoned when it enters a queue, and again when it should end. A running job
// stays where it is.

const (
	// slackReserve is what a start takes beyond that: to fetch the checkpoint and upload the video,
	// and if boots and loads are slower than usual, or were never measured.
	slackReserve = 2 * time.Minute
	// slackRecheck is after how long the capacity for a job without slack is looked at again.
	slackRecheck = time.Minute
)

// SlackUntil is the last moment at which a job can start on a new worker and be complete at
// finishBy: render is what is left to render if that is slow, and start how long a worker boots and
// loads the model.
func SlackUntil(finishBy time.Time, render, start time.Duration) time.Time {
	return finishBy.Add(-render - start - slackReserve).Truncate(time.Microsecond)
}

// Pace is what the slack of jobs is reckoned from, and what decides where they run: how long
// renders and starts of new workers take, and the capacity.
type Pace struct {
	times      estimate.RenderTimes
	newWorkers estimate.NewWorkers
}

// ReadPace reads the pace for jobs.
func ReadPace(ctx context.Context, db bun.IDB, of []*models.Job) (*Pace, error) {
	names := lo.Uniq(lo.Map(of, func(j *models.Job, _ int) string { return j.Model }))
	known, err := backlog.ListRenderTimes(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("read how long renders take: %w", err)
	}
	p := &Pace{times: estimate.NewRenderTimes(known)}
	p.newWorkers, err = estimate.ReadNewWorkers(ctx, db, names)
	return p, err
}

// Place reckons a queued job's slack, and decides where the job runs.
func (p *Pace) Place(ctx context.Context, db bun.IDB, job *models.Job, now time.Time) error {
	done, err := saved(ctx, db, job)
	if err != nil {
		return err
	}
	render := p.times.SlowSeconds(job) * (1 - done/100)
	start := jobs.Seconds(p.newWorkers.Seconds(job.Model))
	job.SlackUntil = SlackUntil(job.FinishBy, jobs.Seconds(render), start)
	if job.StartedAt.IsZero() && !job.ExpiresAt.IsZero() { // a worker must start it by then
		job.SlackUntil = slices.MinFunc([]time.Time{job.SlackUntil, SlackUntil(job.ExpiresAt, 0, start)}, time.Time.Compare)
	}
	anywhere := job.Needs.Also(job.Spent())
	switch {
	case !job.FinishBy.After(now):
		job.Needs, job.SlackUntil = anywhere, time.Time{}
	case !job.SlackUntil.After(now):
		safe := job.Spent() || p.has(job, job.Needs.Also(true), estimate.Room)
		job.Needs = job.Needs.WithoutSlack(safe)
		job.SlackUntil = slices.MinFunc([]time.Time{now.Add(slackRecheck), job.FinishBy}, time.Time.Compare)
	case !job.Spent() && p.has(job, job.Needs.WithSlack(), possible):
		job.Needs = job.Needs.WithSlack()
	default:
		job.Needs = anywhere
	}
	return nil
}

// possible returns how many workers of a kind there are, or can be at another time.
func possible(c capacity.Capacity) int { return c.Booting + c.Idle + c.Busy + c.Most }

// has reports whether there is capacity for what a job may need. Which capacity has a larger GPU is not known here: a job that needs one may run on any.
func (p *Pace) has(job *models.Job, needs models.Needs, room func(capacity.Capacity) int) bool {
	q := job.Queue()
	return job.GPURank == 0 && slices.ContainsFunc(p.newWorkers.Capacity, func(c capacity.Capacity) bool {
		return room(c) > 0 && c.Runs(job.Model, job.Lane, job.AccountID, needs, q.Region)
	})
}

// PlaceAll decides where the jobs that enter a queue may run, and records it.
func PlaceAll(ctx context.Context, tx bun.Tx, changes []*Change) error {
	entering := lo.Filter(changes, func(c *Change, _ int) bool {
		return c.Job.Status == models.JobQueued && c.Before.Status != models.JobQueued
	})
	pressed := lo.Filter(entering, func(c *Change, _ int) bool { return !c.Job.FinishBy.IsZero() })
	if len(pressed) > 0 {
		p, err := ReadPace(ctx, tx, lo.Map(pressed, func(c *Change, _ int) *models.Job { return c.Job }))
		if err != nil {
			return err
		}
		for _, c := range pressed {
			if err := p.Place(ctx, tx, c.Job, c.Now); err != nil {
				return err
			}
		}
	}
	for _, c := range entering {
		c.SayCapacity("it has slack again, or a new run")
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

// SayCapacity records in the newest event that the job moved to on-demand capacity, or back
// for that reason.
func (c *Change) SayCapacity(back string) {
	if len(c.Events) == 0 || c.Job.Needs.OnDemand() == c.Before.Needs.OnDemand() {
		return
	}
	capacity, reason := models.CapacityOnDemand, "moved to on-demand capacity: "+c.Job.WhyOnDemand()
	if !c.Job.Needs.OnDemand() {
		capacity, reason = "ANY", "moved back to any capacity: "+back
	}
	event := c.Events[len(c.Events)-1]
	var payload jobs.Payload
	if err := json.Unmarshal(event.Payload, &payload); err != nil {
		panic(fmt.Sprintf("event %s: %v", event.Type, err)) // this process has just encoded it
	}
	payload["capacity"], payload["reason"] = capacity, reason
	event.Payload, _ = json.Marshal(payload)
	c.Job.Progress.Message, c.Job.Progress.UpdatedAt = reason, c.Now
}
