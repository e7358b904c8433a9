package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Scheduler starts what waits for its time.
type Scheduler struct {
	DB       *bun.DB
	Notifier *Notifier
}

// dueBatch bounds one pass: the rest waits for the next.
const dueBatch = 500

// Due queues every SCHEDULED job whose time has come, and returns how many there
// were. Any number of processes may do so at once.
func (s *Scheduler) Due(ctx context.Context) (int, error) {
	ids, err := models.ListDueJobs(ctx, s.DB, dueBatch)
	if err != nil {
		return 0, fmt.Errorf("find due jobs: %w", err)
	}
	var queued int
	var failed []error
	for _, id := range ids {
		done, err := s.due(ctx, id)
		if err != nil {
			failed = append(failed, fmt.Errorf("queue due job %s: %w", id, err))
			continue
		}
		if done != nil {
			queued++
			s.Notifier.after(ctx, done)
		}
	}
	return queued, errors.Join(failed...)
}

func (s *Scheduler) due(ctx context.Context, id models.JobID) (done *change, err error) {
	seen, err := models.GetJob(ctx, s.DB, id)
	if err != nil {
		return nil, err
	}
	err = s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := models.LockAccount(ctx, tx, seen.AccountID); err != nil {
			return err
		}
		job, err := models.LockJob(ctx, tx, id)
		if err != nil {
			return err
		}
		c, err := newChange(ctx, tx, job)
		if err != nil || job.Status != models.JobScheduled || job.RunAt.After(c.now) {
			return err
		}
		// A retry keeps its place before the account's other jobs.
		if err := c.queued(job.AttemptNo > 0); err != nil {
			return err
		}
		c.note(models.EventQueued, payload{"lane": job.Lane})
		done = c
		return c.save(ctx)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}
