package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// fencedCall is one call that needs a live lease.
type fencedCall struct {
	p     jobs.Principal
	fence Fence
	// objects are the uploads that act may keep, as the store has them.
	objects []*models.Artifact
	// act changes the rows of the lease in memory.
	act func(ctx context.Context, l *lockedLease) error
	// writes means that act also writes other rows. Such a call has its own transaction, since
	// its failure would undo the calls of a batch.
	writes bool

	l   *lockedLease
	err error
}

// fenced runs a call in a transaction, batched with concurrent calls. It extends the lease, calls
// act to change it, and saves it.
func (h *Attempts) fenced(ctx context.Context, c *fencedCall) (*lockedLease, error) {
	return h.run(ctx, &h.keeping, c)
}

// finish is fenced for a call that ends the attempt. If the job's cancellation was requested, the
// attempt ends as cancelled, whatever the worker reports.
func (h *Attempts) finish(ctx context.Context, c *fencedCall) (*lockedLease, error) {
	act := c.act
	c.act = func(ctx context.Context, l *lockedLease) error {
		if !l.job.CancelRequestedAt.IsZero() {
			l.end(models.AttemptCancelled, "", "")
			return l.change.Cancelled()
		}
		return act(ctx, l)
	}
	return h.run(ctx, &h.ending, c)
}

func (h *Attempts) run(ctx context.Context, with *batch.Group[*fencedCall], c *fencedCall) (*lockedLease, error) {
	if err := c.fence.askedBy(c.p); err != nil {
		return nil, err
	}
	if c.writes {
		if err := h.transact(ctx, []*fencedCall{c}, 0); err != nil {
			return nil, err
		}
	} else if err := jobs.InTurn(ctx, with, c, h.transact); err != nil {
		return nil, err
	}
	return c.l, c.err
}

// transact runs calls in one transaction, which waits for each lock up to patience. A refused call
// changes nothing and does not affect the others. Only the rows of live leases are locked.
func (h *Attempts) transact(ctx context.Context, calls []*fencedCall, patience time.Duration) error {
	holds := make([]models.Fence, len(calls))
	for i, c := range calls {
		holds[i] = models.Fence{WorkerID: c.p.WorkerID, AttemptID: c.fence.AttemptID, Token: c.fence.Token}
	}
	var changed []*lockedLease
	var lost []*fencedCall
	err := jobs.InTx(ctx, h.DB, func(ctx context.Context, tx bun.Tx) error {
		all, err := lockLeases(ctx, tx, holds, patience)
		if err != nil {
			return err
		}
		if err := lookUp(ctx, tx, calls, all); err != nil {
			return err
		}
		changed, lost = nil, nil
		for _, c := range calls {
			l := all[c.fence.AttemptID]
			if l == nil || !l.attempt.EndedAt.IsZero() || c.fence.check(c.p, l.attempt) != nil {
				lost = append(lost, c) // or an earlier call of this batch ended the attempt
				continue
			}
			c.err = c.try(ctx, l)
			switch {
			case c.err != nil && c.writes:
				return c.err
			case c.err == nil && !slices.Contains(changed, l):
				changed = append(changed, l)
			}
		}
		if len(changed) == 0 {
			return nil
		}
		return saveLeases(ctx, tx, changed)
	})
	if err != nil {
		return jobs.BatchError(err)
	}
	var changes []*change.Change
	for _, l := range changed {
		changes = append(changes, l.change)
	}
	h.Leaser.Notifier.After(ctx, changes...)
	h.explain(ctx, lost)
	return nil
}

// lookUp reads what is known of the objects that calls with a lease name.
func lookUp(ctx context.Context, tx bun.Tx, calls []*fencedCall, all map[models.AttemptID]*lockedLease) error {
	var keys []string
	for _, c := range calls {
		for _, o := range c.objects {
			keys = append(keys, o.ObjectKey)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	known, err := models.LookUpObjects(ctx, tx, keys)
	if err != nil {
		return fmt.Errorf("look up the objects: %w", err)
	}
	for _, l := range all {
		l.objects = known
	}
	return nil
}

// explain sets the error of calls without a live lease. It runs after the commit, so that its
// failure does not affect the rest of the batch.
func (h *Attempts) explain(ctx context.Context, calls []*fencedCall) {
	if len(calls) == 0 {
		return
	}
	var ids []models.AttemptID
	for _, c := range calls {
		ids = append(ids, c.fence.AttemptID)
	}
	rows, err := models.GetAttempts(ctx, h.DB, ids)
	found := lo.KeyBy(rows, func(a *models.Attempt) models.AttemptID { return a.ID })
	for _, c := range calls {
		if err != nil {
			c.err = fmt.Errorf("read the attempt: %w", err)
		} else if c.err = c.fence.check(c.p, found[c.fence.AttemptID]); c.err == nil {
			c.err = apierror.ErrLeaseLost
		}
	}
}

// try calls act on the lease, and restores the lease if act fails.
func (c *fencedCall) try(ctx context.Context, l *lockedLease) error {
	before, worker, job, attempt, change := *l, *l.worker, *l.job, *l.attempt, *l.change
	l.extend()
	err := l.started()
	if err == nil {
		err = c.act(ctx, l)
	}
	if err != nil {
		*l, *l.worker, *l.job, *l.attempt, *l.change = before, worker, job, attempt, change
		return err
	}
	c.l = l
	return nil
}
