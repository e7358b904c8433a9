package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Scheduler queues jobs at their start time, moves those whose slack has ended, and fails those
// that no worker started before they expired.
type Scheduler struct {
	DB        *bun.DB
	Notifier  *Notifier
	Catalogue *catalogue.Catalogue
}

const (
	// dueBatch bounds the jobs of one transaction, which locks their accounts.
	dueBatch = 100
	// dueLimit bounds the jobs of one pass. The next pass takes the rest.
	dueLimit = 500
)

// Due queues every job that waited only for its start time, and returns how many it queued. If
// a batch fails, the jobs are queued one by one, and only those that fail remain for the next
// pass. Any number of processes may call it at once.
func (s *Scheduler) Due(ctx context.Context) (int, error) {
	var failing []models.JobID
	var failed []error
	total, size := 0, dueBatch
	for total+len(failing) < dueLimit {
		due, released, err := s.release(ctx, size, failing)
		switch {
		case err == nil:
			s.Notifier.After(ctx, released...)
			total += len(released)
			if len(due) < size {
				return total, errors.Join(failed...)
			}
		case len(due) == 0 || ctx.Err() != nil || models.IsOutage(err):
			return total, errors.Join(append(failed, fmt.Errorf("release due jobs: %w", err))...)
		case size > 1:
			size = 1
		default:
			failing = append(failing, due[0].ID)
			failed = append(failed, fmt.Errorf("release due job %s: %w", due[0].ID, err))
		}
	}
	return total, errors.Join(failed...)
}

// release queues up to limit due jobs, except some, in one transaction. It returns the jobs
// that were due also if it fails.
func (s *Scheduler) release(ctx context.Context, limit int, except []models.JobID) (due []*models.Job, released []*Change, err error) {
	err = InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		released = nil
		var err error
		due, err = models.LockDueJobs(ctx, tx, limit, except)
		if err != nil || len(due) == 0 {
			return err
		}
		// The accounts are locked although their counters stay the same: a transaction that
		// enters several lanes of several accounts must hold their locks.
		_, now, err := models.LockAccounts(ctx, tx, accountsOf(due))
		if err != nil {
			return fmt.Errorf("lock the accounts: %w", err)
		}
		for _, job := range due {
			c := changeAt(tx, now, job)
			// A retry keeps its place before the account's other jobs.
			if err := c.queued(job.Status == models.JobScheduled && job.AttemptNo > 0); err != nil {
				return err
			}
			c.note(models.EventQueued, Payload{"lane": job.Lane})
			released = append(released, c)
		}
		return saveAll(ctx, tx, released, models.Writes{})
	})
	return due, released, err
}

func accountsOf(jobs []*models.Job) []models.AccountID {
	return lo.Uniq(lo.Map(jobs, func(j *models.Job, _ int) models.AccountID { return j.AccountID }))
}

// Expire fails every job that no worker started before it expired, and returns how many it
// failed. Each fails in its own transaction, together with its dependents. Any number of
// processes may call it at once.
func (s *Scheduler) Expire(ctx context.Context) (int, error) {
	ids, err := models.ListExpiringJobs(ctx, s.DB, dueLimit)
	if err != nil {
		return 0, fmt.Errorf("find jobs that expired: %w", err)
	}
	var expired int
	var failed []error
	for _, id := range ids {
		done, err := changeDueJob(ctx, s.DB, id, func(c *Change) error { return c.expire() })
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

// expire fails a waiting job that has expired, unless a worker has started it.
func (c *Change) expire() error {
	job := c.job
	if !job.Status.Waiting() || !job.StartedAt.IsZero() || job.ExpiresAt.IsZero() || job.ExpiresAt.After(c.now) {
		return nil
	}
	return c.failed(models.FailTimeout, "no worker had started it by "+job.ExpiresAt.UTC().Format(time.RFC3339)+", when it was to expire")
}
