package erase

import (
	"context"
	"database/sql"
	"errors"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/models/erasure"
	"github.com/uptrace/bun"
)

// part is one kind of work of a deletion. do does one batch of it, counts in the deletion what it did, and returns 0 if
// it found nothing to do. It may be called again at any time.
type part struct {
	what string
	kind erasure.Kind
	do   func(ctx context.Context, tx bun.Tx, d *erasure.Deletion) (int, error)
}

const (
	cancelBatch = 20
	jobBatch    = 100
	ledgerBatch = 20_000
	dayBatch    = 50
)

// parts lists the parts in their order. The rows of jobs are deleted once all jobs have ended, since jobs take results
// from each other.
func (e *Eraser) parts() []part {
	all := batches(erasure.First)
	all = append(all,
		part{"cancel its jobs", erasure.Cancelled, e.cancel},
		part{"wait for its jobs", "", e.await},
		part{"delete its workflows", erasure.Workflows, workflows},
		part{"delete its jobs", erasure.Jobs, deleteJobs})
	all = append(all, batches(erasure.Last)...)
	return append(all,
		part{"remove users from its ledger", erasure.Users, forgetUsers},
		part{"merge the days of its users", erasure.Users, mergeUserSums},
		part{"end", "", e.finish})
}

func batches(all []erasure.Batch) []part {
	parts := make([]part, len(all))
	for i, b := range all {
		parts[i] = part{"delete " + string(b.Kind), b.Kind, func(ctx context.Context, tx bun.Tx, d *erasure.Deletion) (int, error) {
			n, err := b.Remove(ctx, tx, d.AccountID, b.Limit)
			if b.Kind != "" {
				d.Deleted[b.Kind] += n
			}
			return n, err
		}}
	}
	return parts
}

// cancel cancels jobs in transactions of their own. Those that end meanwhile are left.
func (e *Eraser) cancel(ctx context.Context, tx bun.Tx, d *erasure.Deletion) (int, error) {
	ids, err := erasure.ListToCancel(ctx, tx, d.AccountID, cancelBatch)
	if err != nil {
		return 0, err
	}
	// As an admin of the account itself, whose acts on its own jobs are not in the audit log.
	p := jobs.Principal{Role: access.RoleAdmin, AccountID: d.AccountID, KeyID: d.KeyID}
	for _, id := range ids {
		_, err := e.Canceller.CancelFor(ctx, p, id, "its account is being deleted")
		var refused *apierror.Error
		switch {
		case err == nil:
			d.Deleted[erasure.Cancelled]++
		case !errors.As(err, &refused):
			return 0, err
		}
	}
	return len(ids), nil
}

// await returns errWait while jobs have not ended: workers learn of the cancel, or their leases end.
func (e *Eraser) await(ctx context.Context, tx bun.Tx, d *erasure.Deletion) (int, error) {
	live, err := erasure.HasLive(ctx, tx, d.AccountID)
	if err == nil && live {
		err = errWait
	}
	return 0, err
}

func workflows(ctx context.Context, tx bun.Tx, d *erasure.Deletion) (int, error) {
	n, err := erasure.RemoveWorkflows(ctx, tx, d.AccountID)
	d.Deleted[erasure.Workflows] += n
	return n, err
}

// deleteJobs deletes jobs with everything that belongs to them, and queues their objects for deletion.
func deleteJobs(ctx context.Context, tx bun.Tx, d *erasure.Deletion) (int, error) {
	ids, err := erasure.LockJobs(ctx, tx, d.AccountID, jobBatch)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	objects, err := erasure.CountObjects(ctx, tx, ids)
	if err != nil {
		return 0, err
	}
	if err := erasure.EndDrafts(ctx, tx, ids); err != nil {
		return 0, err
	}
	if err := models.WasteDrafts(ctx, tx, ids); err != nil {
		return 0, err
	}
	if err := models.DoomObjectsOf(ctx, tx, ids); err != nil {
		return 0, err
	}
	d.Deleted[erasure.Jobs] += len(ids)
	d.Deleted[erasure.Objects] += objects
	return len(ids), models.DeleteJobs(ctx, tx, ids)
}

// forgetUsers removes the user from the account's rows of the ledger, and counts the rows.
func forgetUsers(ctx context.Context, tx bun.Tx, d *erasure.Deletion) (int, error) {
	s, err := costs.ForgetUsers(ctx, tx, d.AccountID, d.LedgerDone, ledgerBatch)
	if err != nil || s.Last == d.LedgerDone {
		return 0, err
	}
	d.LedgerDone = s.Last
	d.Kept[erasure.Ledger] += s.Rows
	d.Deleted[erasure.Users] += s.Users
	return 1, nil
}

func mergeUserSums(ctx context.Context, tx bun.Tx, d *erasure.Deletion) (int, error) {
	return costs.MergeUserSums(ctx, tx, d.AccountID, dayBatch)
}

// finish ends the deletion. If the account has rows again, such as those of a job that was retried meanwhile, the next
// pass begins with them.
func (e *Eraser) finish(ctx context.Context, tx bun.Tx, d *erasure.Deletion) (int, error) {
	n, err := mergeUserSums(ctx, tx, d)
	if err != nil || n > 0 {
		return n, err
	}
	kept, err := erasure.CountKept(ctx, tx, d.AccountID)
	if err != nil {
		return 0, err
	}
	for kind, n := range kept {
		d.Kept[kind] = n
	}
	if err := erasure.Finish(ctx, tx, d, DeletedName, e.ObjectsGone); errors.Is(err, sql.ErrNoRows) {
		return 0, errWait
	} else if err != nil {
		return 0, err
	}
	return 0, nil
}
