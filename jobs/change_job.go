package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// changeTries is how often a job is looked for that others hold, before it is waited
// for with its account.
const changeTries = 5

// changeJob has act change a job whose account is locked with it. A claim or an end that
// holds the job may wait for the account (see lockingOf): meanwhile, changeJob does
// not hold that. It returns sql.ErrNoRows if there is no such job.
func changeJob(ctx context.Context, db *bun.DB, id models.JobID, act func(context.Context, bun.Tx, *Change) error) error {
	for lock, try := models.LockFreeJob, 1; ; try++ {
		if try == changeTries {
			lock = models.LockJob
		}
		had := false
		err := InTx(ctx, db, func(ctx context.Context, tx bun.Tx) error {
			c, err := lockChange(ctx, tx, id, lock)
			if err != nil {
				return err
			}
			had = true
			return act(ctx, tx, c)
		})
		if had || try == changeTries || !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		err = InTx(ctx, db, func(ctx context.Context, tx bun.Tx) error {
			_, err := models.LockJob(ctx, tx, id)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// changeFreeJob has act change a job, with its account, if nobody else holds it now: it
// returns nil if somebody does, if there is no such job, or if act notes nothing.
func changeFreeJob(ctx context.Context, db *bun.DB, id models.JobID, act func(*Change) error) (done *Change, err error) {
	err = InTx(ctx, db, func(ctx context.Context, tx bun.Tx) error {
		done = nil
		c, err := lockChange(ctx, tx, id, models.LockFreeJob)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // it is being given out, or gone
		}
		if err != nil {
			return err
		}
		if err := act(c); err != nil || len(c.events) == 0 {
			return err
		}
		done = c
		return c.save(ctx)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// lockChange begins a change of a job, which lock locks, and whose account is locked
// with it.
func lockChange(ctx context.Context, tx bun.Tx, id models.JobID, lock func(context.Context, bun.Tx, models.JobID) (*models.Job, error)) (*Change, error) {
	seen, err := models.GetJob(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if _, err := models.LockAccount(ctx, tx, seen.AccountID); err != nil {
		return nil, fmt.Errorf("lock the account: %w", err)
	}
	job, err := lock(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	return newChange(ctx, tx, job)
}
