package pass

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Releaser queues jobs at their start time, moves those whose slack has ended, and fails those
// that no worker started before they expired.
type Releaser struct {
	DB        *bun.DB
	Notifier  *change.Notifier
	Catalogue *catalogue.Catalogue
}

const (
	// dueBatch bounds the jobs of one transaction, which locks their accounts for a moment.
	dueBatch = 500
	// dueBatches bounds the batches of one pass. The next pass begins with the first lane again,
	// and finds jobs that were committed late.
	dueBatches = 100
	// dueLimit bounds the jobs of one pass of Expire and Slack. The next pass takes the rest.
	dueLimit = 500
)

// Due queues the jobs that waited only for their start time, in the order of the lanes, and
// returns how many it queued: 50,000 at most. If a batch fails, its jobs are queued one by one,
// and only those that fail remain for the next pass. Any number of processes may call it at
// once.
func (s *Releaser) Due(ctx context.Context) (int, error) {
	var failed []error
	total, alone, after := 0, 0, places{}
	for total < dueBatches*dueBatch {
		size := dueBatch
		if alone > 0 {
			size, alone = 1, alone-1
		}
		due, err := s.release(ctx, size, after)
		switch {
		case err == nil:
			s.Notifier.After(ctx, due.released...)
			total, after = total+len(due.released), due.last
			if len(due.released) < size {
				return total, errors.Join(failed...)
			}
		case len(due.ids) == 0 || ctx.Err() != nil || postgres.IsOutage(err):
			return total, errors.Join(append(failed, fmt.Errorf("release due jobs: %w", err))...)
		case len(due.ids) > 1:
			alone = len(due.ids)
		default:
			after = due.last
			failed = append(failed, fmt.Errorf("release due job %s: %w", due.ids[0], err))
		}
	}
	return total, errors.Join(failed...)
}

// places is how far a pass has come in each lane.
type places map[models.Tier]models.DuePlace

// due is a batch of due jobs: their ids, the last places among them and before them, and their
// changes if they were released.
type due struct {
	ids      []models.JobID
	last     places
	released []*change.Change
}

// release queues up to limit due jobs that come after these places in one transaction, those of
// the highest lanes first. It returns the ids also if it fails.
func (s *Releaser) release(ctx context.Context, limit int, after places) (found due, err error) {
	err = jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		found = due{last: maps.Clone(after)}
		var rows []*models.Job
		err := models.ReadInOrder(ctx, tx, func() error {
			for _, lane := range models.Tiers {
				some, err := models.LockDueJobs(ctx, tx, lane, after[lane], limit-len(rows))
				if err != nil {
					return err
				}
				if len(some) > 0 {
					found.last[lane] = some[len(some)-1].DuePlace()
				}
				if rows = append(rows, some...); len(rows) == limit {
					break
				}
			}
			return nil
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		found.ids = lo.Map(rows, func(j *models.Job, _ int) models.JobID { return j.ID })
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		for _, job := range rows {
			c := change.At(tx, now, job)
			// A retry keeps its place before the account's other jobs.
			if err := c.Queued(job.Status == models.JobScheduled && job.AttemptNo > 0); err != nil {
				return err
			}
			c.Note(models.EventQueued, jobs.Payload{"lane": job.Lane})
			found.released = append(found.released, c)
		}
		return change.SaveAll(ctx, tx, found.released, models.Writes{})
	})
	return found, err
}

// Expire fails every job that no worker started before it expired, and returns how many it
// failed. Each fails in its own transaction, together with its dependents. Any number of
// processes may call it at once.
func (s *Releaser) Expire(ctx context.Context) (int, error) {
	ids, err := models.ListExpiringJobs(ctx, s.DB, dueLimit)
	if err != nil {
		return 0, fmt.Errorf("find jobs that expired: %w", err)
	}
	var expired int
	var failed []error
	for _, id := range ids {
		done, err := change.DoDue(ctx, s.DB, id, func(c *change.Change) error { return expireRun(c) })
		if err != nil {
			failed = append(failed, fmt.Errorf("expire job %s: %w", id, err))
			continue
		}
		if done != nil {
			expired++
			s.Notifier.After(ctx, done)
		}
	}
	return expired, errors.Join(failed...)
}

// expireRun fails a waiting job that has expired, unless a worker has started it.
func expireRun(c *change.Change) error {
	job := c.Job
	if !job.Status.Waiting() || !job.StartedAt.IsZero() || job.ExpiresAt.IsZero() || job.ExpiresAt.After(c.Now) {
		return nil
	}
	return c.Failed(models.FailTimeout, "no worker had started it by "+text.MomentToSecond(job.ExpiresAt.UTC(), c.Now)+
		", when it was to expire")
}

// Slack looks at the queued jobs whose slack should end, and places them again. It returns how
// many jobs need other capacity than before. Any number of processes may call it at once.
func (s *Releaser) Slack(ctx context.Context) (int, error) {
	due, err := models.ListSlackEnding(ctx, s.DB, dueLimit)
	if err != nil {
		return 0, fmt.Errorf("find jobs without slack: %w", err)
	}
	if len(due) == 0 {
		return 0, nil
	}
	p, err := change.ReadPace(ctx, s.DB, due)
	if err != nil {
		return 0, err
	}
	moved := 0
	var failed []error
	for _, job := range due {
		done, err := lookAtSlack(ctx, s.DB, p, job.ID)
		if err != nil {
			failed = append(failed, fmt.Errorf("look at the slack of job %s: %w", job.ID, err))
		} else if done != nil {
			moved++
			s.Notifier.After(ctx, done)
		}
	}
	return moved, errors.Join(failed...)
}

// lookAtSlack places a job again if its slack should have ended. It returns nil if the job stays.
func lookAtSlack(ctx context.Context, db *bun.DB, p *change.Pace, id models.JobID) (moved *change.Change, err error) {
	err = change.DoLocked(ctx, db, id, models.LockFreeJob, func(ctx context.Context, tx bun.Tx, c *change.Change) error {
		moved = nil
		job := c.Job
		if job.Status != models.JobQueued || job.Needs.IsHeld() || job.SlackUntil.IsZero() || job.SlackUntil.After(c.Now) {
			return nil // it moved meanwhile
		}
		if err := p.Place(ctx, tx, job, c.Now); err != nil {
			return err
		}
		if job.Needs != c.Before.Needs {
			moved = c
		}
		if job.Needs.OnDemand() != c.Before.Needs.OnDemand() {
			c.Note(models.EventQueued, jobs.Payload{"lane": job.Lane})
			back := "no on-demand capacity has room for it"
			if !job.FinishBy.After(c.Now) {
				back = "its finishBy is in the past"
			}
			c.SayCapacity(back)
		}
		return c.Save(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return moved, err
}
