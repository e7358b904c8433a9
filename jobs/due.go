package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Scheduler starts what waits for its time, and ends what it came too late for.
type Scheduler struct {
	DB       *bun.DB
	Notifier *Notifier
}

// dueBatch bounds one pass: the rest waits for the next.
const dueBatch = 500

// Due queues every job that waited for nothing but its time, and returns how many
// there were. Any number of processes may do so at once.
func (s *Scheduler) Due(ctx context.Context) (int, error) {
	ids, err := models.ListDueJobs(ctx, s.DB, dueBatch)
	if err != nil {
		return 0, fmt.Errorf("find due jobs: %w", err)
	}
	return s.each(ctx, ids, func(c *Change) error {
		switch {
		case c.job.RunAt.After(c.now):
			return nil
		case c.job.Status == models.JobBlocked:
			return c.unblock()
		case c.job.Status != models.JobScheduled:
			return nil
		}
		// A retry keeps its place before the account's other jobs.
		if err := c.queued(c.job.AttemptNo > 0); err != nil {
			return err
		}
		c.note(models.EventQueued, Payload{"lane": c.job.Lane})
		return nil
	})
}

// Expire fails every job that was to be started by now and was not, and returns
// how many there were. Any number of processes may do so at once.
func (s *Scheduler) Expire(ctx context.Context) (int, error) {
	ids, err := models.ListExpiringJobs(ctx, s.DB, dueBatch)
	if err != nil {
		return 0, fmt.Errorf("find jobs that nobody started in time: %w", err)
	}
	return s.each(ctx, ids, func(c *Change) error {
		job := c.job
		if !job.Status.Waiting() || !job.StartedAt.IsZero() || job.ExpiresAt.IsZero() || job.ExpiresAt.After(c.now) {
			return nil
		}
		return c.failed(models.FailTimeout, "no worker had started it by "+job.ExpiresAt.UTC().Format(time.RFC3339)+", when it was to expire")
	})
}

// each makes one change to each of these waiting jobs, and returns how many did
// change.
func (s *Scheduler) each(ctx context.Context, ids []models.JobID, act func(*Change) error) (int, error) {
	var changed int
	var failed []error
	for _, id := range ids {
		done, err := changeDueJob(ctx, s.DB, id, act)
		if err != nil {
			failed = append(failed, fmt.Errorf("job %s: %w", id, err))
			continue
		}
		if done != nil {
			changed++
			s.Notifier.After(ctx, done)
		}
	}
	return changed, errors.Join(failed...)
}
