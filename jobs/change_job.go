package jobs

import (
	"context"
	"database/sql"
	"errors"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// changeJob locks a job and calls act to change it. It returns sql.ErrNoRows if the job does
// not exist.
func changeJob(ctx context.Context, db *bun.DB, id models.JobID, act func(context.Context, bun.Tx, *Change) error) error {
	return InTx(ctx, db, func(ctx context.Context, tx bun.Tx) error {
		job, err := models.LockJob(ctx, tx, id)
		if err != nil {
			return err
		}
		c, err := newChange(ctx, tx, job)
		if err != nil {
			return err
		}
		return act(ctx, tx, c)
	})
}

// changeDueJob is changeJob for a periodic pass: it saves the change. It returns nil if act
// noted no event, or the job no longer exists.
func changeDueJob(ctx context.Context, db *bun.DB, id models.JobID, act func(*Change) error) (done *Change, err error) {
	err = changeJob(ctx, db, id, func(ctx context.Context, _ bun.Tx, c *Change) error {
		done = nil
		if err := act(c); err != nil || len(c.events) == 0 {
			return err
		}
		done = c
		return c.save(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return done, nil
}
