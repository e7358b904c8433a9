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

// A job with FinishBy waits for cheap capacity while it has slack: while it could still lose a
// worker and be complete in time. Without slack the scaler boots a worker for it at once: a cheap one if
// the loss of that would hardly make the job late, because such workers live long or it renders in much
// less time than it may, and otherwise one of on-demand capacity. While such capacity has no room, because
// it is busy, refused, paused or does not boot, it runs on any: that may be taken away, but a job that
// waits is late for certain. Once FinishBy is past it runs anywhere: it cannot be saved any more, and must
// not wait for capacity that may never come. Its slack is reckoned when it enters a queue, and again when
// it should end. A running job stays where it is.

const (
	// slackReserve is what a start takes beyond that: to fetch the checkpoint and upload the video,
	// and if boots and loads are slower than usual, or were never measured.
	slackReserve = 4 * time.Minute
	// slackRecheck is after how long the capacity for a job without slack is looked at again.
	slackRecheck = time.Minute
	// mostRisk is the highest probability that a job without slack is late because it lost a spot
	// worker.
	mostRisk = 0.02
	// lossReserve is what the loss of a worker takes beyond the start of another one: until it is
	// noticed, and the work since the newest checkpoint.
	lossReserve = 2 * time.Minute
)

// SlackUntil is the last moment at which a job can start on a new worker and be complete at
// finishBy: render is what is left to render if that is slow, and start how long a worker boots and
// loads the model.
func SlackUntil(finishBy time.Time, render, start time.Duration) time.Time {
	return finishBy.Add(-render - start - slackReserve).Truncate(time.Microsecond)
}

// Risk returns the probability that a job without slack is late because it starts on a spot worker of one of
// these pools and loses it: of the pool whose workers live shortest, from 0 to 1. mean and slow are how
// long its render takes on average and if it is slow, start how long a worker boots and loads the model,
// and left the time until its deadline.
func Risk(pools []estimate.Survival, mean, slow, start, left time.Duration) float64 {
	lost := 0.0
	for _, p := range pools {
		lost = max(lost, p.Lost(mean))
	}
	return lost * estimate.LateByLoss(mean, slow, left-start, start+lossReserve)
}

// Bearable reports whether a job may start on spot capacity at a risk.
func Bearable(risk float64) bool { return risk <= mostRisk }

// Pace is what the slack of jobs is reckoned from, and what decides where they run: how long
// renders and starts of new workers take, and the capacity.
type Pace struct {
	models     []string
	times      estimate.RenderTimes
	newWorkers estimate.NewWorkers
	lives      []*capacity.Lives // nil until a job needs them
}

// ReadPace reads the pace for jobs.
func ReadPace(ctx context.Context, db bun.IDB, of []*models.Job) (*Pace, error) {
	return ReadPaceOf(ctx, db, lo.Uniq(lo.Map(of, func(j *models.Job, _ int) string { return j.Model })))
}

// ReadPaceOf reads the pace for jobs of models.
func ReadPaceOf(ctx context.Context, db bun.IDB, names []string) (*Pace, error) {
	known, err := backlog.ListRenderTimes(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("read how long renders take: %w", err)
	}
	p := &Pace{models: names, times: estimate.NewRenderTimes(known)}
	p.newWorkers, err = estimate.ReadNewWorkers(ctx, db, names)
	return p, err
}

// Place reckons a queued job's slack, and decides where the job runs.
func (p *Pace) Place(ctx context.Context, db bun.IDB, job *models.Job, now time.Time) error {
	done, err := saved(ctx, db, job)
	if err != nil {
		return err
	}
	mean, slow := jobs.Seconds(p.times.Seconds(job)*(1-done/100)), jobs.Seconds(p.times.SlowSeconds(job)*(1-done/100))
	start := jobs.Seconds(p.newWorkers.Seconds(job.Model))
	job.SlackUntil = SlackUntil(job.FinishBy, slow, start)
	if job.StartedAt.IsZero() && !job.ExpiresAt.IsZero() { // a worker must start it by then
		job.SlackUntil = slices.MinFunc([]time.Time{job.SlackUntil, SlackUntil(job.ExpiresAt, 0, start)}, time.Time.Compare)
	}
	anywhere := job.Needs.Also(job.Spent())
	switch {
	case !job.FinishBy.After(now):
		job.Needs, job.SlackUntil = anywhere, time.Time{}
	case !job.SlackUntil.After(now):
		safe := job.Spent() || p.has(job, job.Needs.Also(true), estimate.Room)
		if safe && !job.Spent() {
			spot, err := p.survivals(ctx, db, job)
			if err != nil {
				return err
			}
			safe = len(spot) == 0 || !Bearable(Risk(spot, mean, slow, start, job.FinishBy.Sub(now)))
		}
		job.Needs = job.Needs.WithoutSlack(safe)
		job.SlackUntil = slices.MinFunc([]time.Time{now.Add(slackRecheck), job.FinishBy}, time.Time.Compare)
	case !job.Spent() && p.has(job, job.Needs.WithSlack(), possible):
		job.Needs = job.Needs.WithSlack()
	default:
		job.Needs = anywhere
	}
	return nil
}

// Pressed reports whether a job without a worker has no slack left: even on a new worker of its model it could miss FinishBy,
// which is not over.
func (p *Pace) Pressed(job *models.Job, now time.Time) bool {
	return job.FinishBy.After(now) && !SlackUntil(job.FinishBy, jobs.Seconds(p.times.SlowSeconds(job)),
		jobs.Seconds(p.newWorkers.Seconds(job.Model))).After(now)
}

// possible returns how many workers of a kind there are, or can be at another time.
func possible(c capacity.Capacity) int { return c.Booting + c.Idle + c.Busy + c.Most }

// has reports whether there is capacity for what a job may need. Which capacity has a larger GPU is not
// known here: a job that needs one may run on any.
func (p *Pace) has(job *models.Job, needs models.Needs, room func(capacity.Capacity) int) bool {
	q := job.Queue()
	return job.GPURank == 0 && slices.ContainsFunc(p.newWorkers.Capacity, func(c capacity.Capacity) bool {
		return room(c) > 0 && c.Runs(job.Model, job.Lane, job.AccountID, needs, q.Region)
	})
}

// survivals returns how long the workers of the spot pools live that can run a job.
func (p *Pace) survivals(ctx context.Context, db bun.IDB, job *models.Job) (found []estimate.Survival, err error) {
	if p.lives == nil {
		if p.lives, err = capacity.ListLives(ctx, db, p.models, estimate.NewestLives, models.Deliberate()); err != nil {
			return nil, fmt.Errorf("read how long spot workers live: %w", err)
		}
	}
	q := job.Queue()
	for _, l := range p.lives {
		if !l.Runs(job.Model, job.Lane, job.AccountID, job.Needs.Also(false), q.Region) {
			continue
		}
		lives := make([]estimate.Life, len(l.Seconds))
		for i, s := range l.Seconds {
			lives[i] = estimate.Life{Lived: jobs.Seconds(s), Taken: l.Taken[i]}
		}
		found = append(found, estimate.NewSurvival(lives))
	}
	return found, nil
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
