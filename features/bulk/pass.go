package bulk

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	// bulkAtOnce is how many accounts one round of a pass serves.
	bulkAtOnce = 20
	// bulkBatch is how many items one pass does for an account, whatever the number of its
	// operations: a few seconds' work.
	bulkBatch = 200
	// bulkTurn is how many items of an operation are done before another account has its turn.
	bulkTurn = 20
	// bulkBurst is how much unused time an operation may make up for: a little more than
	// passes between two passes.
	bulkBurst = 5 * time.Second
	// bulkPause bounds how long an operation waits after a temporary refusal.
	bulkPause = time.Minute
	// bulkTries is how often an item may fail because of an internal error.
	bulkTries = 5
	// bulkAge is how long an operation is kept after its end.
	bulkAge = 30 * 24 * time.Hour
	// bulkSweep bounds the rows that one sweep deletes.
	bulkSweep = 5_000
)

// Pass does a batch of the due items of each account, and returns how many items it did. Any number
// of processes may call it at once: they share the pace, and never do the same item.
//
// Accounts take turns, and the operations of an account take its turns: no number of operations of one
// account delays those of another.
func (b *Bulk) Pass(ctx context.Context) (int, error) {
	var failed []error
	var served []models.BulkID   // without more to do in this pass
	var spent []models.AccountID // with a full batch
	batch := map[models.AccountID]int{}
	done := 0
	for ctx.Err() == nil {
		due, err := joblist.ListDueBulk(ctx, b.DB, served, spent, bulkAtOnce)
		if err != nil {
			failed = append(failed, fmt.Errorf("find due bulk operations: %w", err))
		}
		if len(due) == 0 {
			break
		}
		for _, one := range due {
			n, err := b.serve(ctx, one.ID)
			done += n
			if err != nil {
				failed = append(failed, fmt.Errorf("bulk operation %s: %w", one.ID, err))
			}
			if err != nil || n < bulkTurn {
				served = append(served, one.ID)
			}
			if batch[one.AccountID] += n; batch[one.AccountID] >= bulkBatch {
				spent = append(spent, one.AccountID)
			}
		}
	}
	return done, errors.Join(failed...)
}

// Sweep deletes rows of operations that ended long ago, and returns how many it deleted. One
// call has a limit.
func (b *Bulk) Sweep(ctx context.Context) (int, error) {
	n, err := joblist.DeleteOldBulk(ctx, b.DB, bulkAge, bulkSweep)
	return n, apierror.Wrap(err, "delete old bulk operations")
}

// turn is a process's share of an operation now: that many of its items, among the first upTo.
type turn struct {
	op    *joblist.BulkOperation
	p     jobs.Principal
	items int
	upTo  int
}

func (b *Bulk) serve(ctx context.Context, id models.BulkID) (int, error) {
	t, err := b.take(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("take a turn: %w", err)
	}
	for i := range t.items {
		more, err := b.next(ctx, t)
		if err != nil || !more {
			return i, err
		}
	}
	return t.items, nil
}

// take reserves a part of the operation's pace for this process. A process that dies with it
// only slows the operation down.
func (b *Bulk) take(ctx context.Context, id models.BulkID) (t turn, err error) {
	err = jobs.InTx(ctx, b.DB, func(ctx context.Context, tx bun.Tx) error {
		t = turn{}
		op, err := joblist.LockBulkOperation(ctx, tx, id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		// An action that this process does not know is left to a newer process.
		if err != nil || op.Paused || !op.FinishedAt.IsZero() || b.Verbs[op.Action] == nil {
			return err
		}
		key, err := access.GetAPIKey(ctx, tx, op.StartedBy)
		if errors.Is(err, sql.ErrNoRows) {
			return stop(ctx, tx, op, apierror.CodeUnauthenticated, "The key that started this operation is no longer good: start another one.")
		}
		if err != nil {
			return err
		}
		t = turn{op: op, p: jobs.PrincipalOf(key), items: bulkTurn, upTo: op.Matched}
		t.p.Bulk = op.ID
		if !op.CanaryOver {
			if err := t.canary(ctx, tx); err != nil || op.Paused {
				return err
			}
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		t.items, op.NextAt = pace(now, op.NextAt, op.PerMinute, t.items)
		return joblist.SteerBulkOperation(ctx, tx, op)
	})
	return t, err
}

// canary limits a turn to the canary items until their results are known, and stops the
// operation if one of them failed.
func (t *turn) canary(ctx context.Context, tx bun.Tx) error {
	canary, err := joblist.CheckBulkCanary(ctx, tx, t.op)
	switch {
	case err != nil:
		return err
	case canary.Failed > 0:
		t.items, t.op.CanaryOver = 0, true
		return stop(ctx, tx, t.op, apierror.CodeConflict, fmt.Sprintf(
			"Paused: %d of the first %d jobs failed. Resume the operation to continue with the others.",
			canary.Failed, min(t.op.Canary, t.op.Matched)))
	case canary.Pending > 0:
		t.items, t.upTo = min(t.items, canary.Pending), t.op.Canary
	case canary.Open > 0:
		t.items = 0
	default:
		t.op.CanaryOver = true
	}
	return nil
}

// stop pauses a locked operation and records the reason.
func stop(ctx context.Context, tx bun.Tx, op *joblist.BulkOperation, code apierror.Code, why string) error {
	op.Paused = true
	op.Errors = append(op.Errors[:min(len(op.Errors), joblist.MaxBulkErrors-1)], &joblist.BulkError{Code: string(code), Message: why})
	return joblist.SteerBulkOperation(ctx, tx, op)
}

// pace returns how many items of an operation may be done now, up to most, and when the item
// after them is due. next is when the first of them is due.
func pace(now, next time.Time, perMinute, most int) (int, time.Time) {
	gap := time.Minute / time.Duration(perMinute)
	if late := bulkBurst / gap * gap; now.Sub(next) > late {
		next = now.Add(-late)
	}
	if next.After(now) {
		return 0, next
	}
	n := min(most, 1+int(now.Sub(next)/gap))
	return n, next.Add(time.Duration(n) * gap)
}

// next does one item, and reports whether there may be more to do now.
func (b *Bulk) next(ctx context.Context, t turn) (more bool, err error) {
	var fault error
	err = jobs.InTx(ctx, b.DB, func(ctx context.Context, tx bun.Tx) error {
		more, fault = false, nil
		item, err := joblist.LockBulkItem(ctx, tx, t.op.ID, t.upTo)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		var refused *apierror.Error
		switch err := b.act(ctx, t, item); {
		case err == nil:
			more = true
			return over(ctx, tx, item, nil)
		case !errors.As(err, &refused):
			fault = fmt.Errorf("%s job %s: %w", t.op.Action, item.JobID, err)
			return faulty(ctx, tx, item)
		case refused.RetryAfterSeconds > 0:
			more = item.Tries == 0
			return later(ctx, tx, item, refused)
		}
		more = true
		return over(ctx, tx, item, refused)
	})
	if err != nil {
		return false, err
	}
	return more, fault
}

// act applies the action to one job. It leaves a job unchanged that has begun another run since
// it was matched: either an action that opens runs ran already, or another caller was faster.
func (b *Bulk) act(ctx context.Context, t turn, item *joblist.BulkItem) error {
	job, err := jobs.VisibleJob(ctx, b.DB, t.p, item.JobID)
	switch {
	case err != nil:
		return err
	case job.Run != item.Run && t.op.Action.Reopens():
		return nil
	case job.Run != item.Run:
		return apierror.Conflict("This job has started another run since the operation began.")
	}
	return b.Verbs[t.op.Action](ctx, t.p, t.op, item)
}

// over ends an item, successfully if refused is nil.
func over(ctx context.Context, tx bun.Tx, item *joblist.BulkItem, refused *apierror.Error) error {
	item.State = joblist.BulkDone
	var why *joblist.BulkError
	if refused != nil {
		item.State = joblist.BulkFailed
		why = &joblist.BulkError{Code: string(refused.Code), Message: refused.Message, Field: []string{string(item.JobID)}}
	}
	if err := joblist.UpdateBulkItem(ctx, tx, item); err != nil {
		return err
	}
	return joblist.CountBulkItem(ctx, tx, item.OperationID, why)
}

// later moves an item behind the others after a temporary refusal. If it was last already, the
// whole operation waits.
func later(ctx context.Context, tx bun.Tx, item *joblist.BulkItem, refused *apierror.Error) error {
	if item.Tries > 0 {
		return joblist.PostponeBulk(ctx, tx, item.OperationID, min(time.Duration(refused.RetryAfterSeconds)*time.Second, bulkPause))
	}
	item.Tries = 1
	return joblist.UpdateBulkItem(ctx, tx, item)
}

// faulty moves an item behind the others after an internal error, or gives it up.
func faulty(ctx context.Context, tx bun.Tx, item *joblist.BulkItem) error {
	if item.Tries++; item.Tries >= bulkTries {
		return over(ctx, tx, item, apierror.New(apierror.CodeInternal,
			"This job failed because of an internal error. Operators can find it in the log."))
	}
	return joblist.UpdateBulkItem(ctx, tx, item)
}
