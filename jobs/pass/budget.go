package pass

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/budgets"
	"github.com/uptrace/bun"
)

// Purser counts what budgets have spent, tells accounts that parts of them were reached, and holds the waiting jobs of
// those who have spent a hard one.
type Purser struct {
	DB       *bun.DB
	Notifier *change.Notifier
}

const (
	// purserAccounts and purserJobs bound one pass. The next one takes the rest.
	purserAccounts = 200
	purserJobs     = 500
)

// Pass does what is due, and returns how much. Any number of processes may call it at once.
func (b *Purser) Pass(ctx context.Context) (int, error) {
	accounts, err := budgets.Entered(ctx, b.DB, purserAccounts)
	if err != nil {
		return 0, fmt.Errorf("find the accounts that spent something: %w", err)
	}
	var failed []error
	for _, account := range accounts {
		failed = append(failed, apierror.Wrap(b.settle(ctx, account), "count what account %s has spent", account))
	}
	over, err := budgets.Over(ctx, b.DB, purserAccounts)
	failed = append(failed, apierror.Wrap(err, "find the budgets that begin anew"))
	for _, account := range over {
		err := jobs.InTx(ctx, b.DB, func(ctx context.Context, tx bun.Tx) error { return budgets.Reconsider(ctx, tx, account) })
		failed = append(failed, apierror.Wrap(err, "begin the budgets of account %s anew", account))
	}
	held, err := b.holdJobs(ctx)
	failed = append(failed, err)
	freed, err := b.freeJobs(ctx)
	return len(accounts) + len(over) + held + freed, errors.Join(append(failed, err)...)
}

func (b *Purser) settle(ctx context.Context, account models.AccountID) error {
	return jobs.InTx(ctx, b.DB, func(ctx context.Context, tx bun.Tx) error {
		due, err := budgets.Settle(ctx, tx, account)
		if err != nil || len(due) == 0 {
			return err
		}
		return change.AnnounceBudgets(ctx, tx, account, due)
	})
}

// holdJobs holds or cancels the queued jobs of those who have spent a budget.
func (b *Purser) holdJobs(ctx context.Context) (int, error) {
	ids, err := budgets.ToHold(ctx, b.DB, purserJobs)
	if err != nil {
		return 0, fmt.Errorf("find the jobs to hold: %w", err)
	}
	return b.each(ctx, ids, func(ctx context.Context, tx bun.Tx, c *change.Change) error {
		holds, err := budgets.ListHolds(ctx, tx, []models.AccountID{c.Job.AccountID})
		if err != nil {
			return err
		}
		if hold := holds.Cancels(c.Job); hold != nil {
			c.Job.CancelBy, c.Job.CancelReason, c.Job.CancelRequestedAt = jobs.HostName, jobs.BudgetSpent(hold), c.Now
			return c.Cancelled()
		}
		if holds.Of(c.Job) != nil {
			c.Job.Needs = c.Job.Needs.Held()
		}
		return nil
	})
}

// freeJobs lets held jobs start whose budgets are not spent any more.
func (b *Purser) freeJobs(ctx context.Context) (int, error) {
	ids, err := budgets.ToRelease(ctx, b.DB, purserJobs)
	if err != nil || len(ids) == 0 {
		return 0, apierror.Wrap(err, "find the jobs to let go")
	}
	found, err := models.GetJobs(ctx, b.DB, ids)
	if err != nil {
		return 0, fmt.Errorf("read the jobs to let go: %w", err)
	}
	p, err := change.ReadPace(ctx, b.DB, found)
	if err != nil {
		return 0, err
	}
	return b.each(ctx, ids, func(ctx context.Context, tx bun.Tx, c *change.Change) error {
		holds, err := budgets.ListHolds(ctx, tx, []models.AccountID{c.Job.AccountID})
		if err != nil || holds.Of(c.Job) != nil || !c.Job.Needs.IsHeld() {
			return err
		}
		c.Job.Needs = c.Job.Needs.Also(c.Job.Spent())
		if c.Job.FinishBy.IsZero() {
			return nil
		}
		return p.Place(ctx, tx, c.Job, c.Now)
	})
}

// each changes the jobs that are still queued, and saves those that changed. It returns how many.
func (b *Purser) each(ctx context.Context, ids []models.JobID, act func(context.Context, bun.Tx, *change.Change) error) (n int, err error) {
	var failed []error
	for _, id := range ids {
		var done *change.Change
		err := change.DoLocked(ctx, b.DB, id, models.LockFreeJob, func(ctx context.Context, tx bun.Tx, c *change.Change) error {
			done = nil
			if c.Job.Status != models.JobQueued {
				return nil // it moved meanwhile
			}
			if err := act(ctx, tx, c); err != nil || c.Job.Status == c.From && c.Job.Needs == c.Before.Needs {
				return err
			}
			done = c
			return c.Save(ctx)
		})
		switch {
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			failed = append(failed, fmt.Errorf("look at the budget of job %s: %w", id, err))
		case done != nil:
			n++
			b.Notifier.After(ctx, done)
		}
	}
	return n, errors.Join(failed...)
}
