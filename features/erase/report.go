package erase

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/erasure"
	"github.com/samber/lo"
)

// Report says how far the deletion of an account is, and what it did.
type Report struct {
	*erasure.Deletion
	// Name is the account's name; of a deleted account, DeletedName.
	Name string
	// JobsLeft are the jobs that are not deleted yet, and Unfinished those of them that have not ended. Both stop at
	// CountLimit.
	JobsLeft, Unfinished int
	// Pools are those that are dedicated to the account, by name.
	Pools []capacity.Dedicated
}

// Count is the number of rows of a kind.
type Count struct {
	Kind  erasure.Kind
	Count int
}

const (
	// DeletedName is the name of each deleted account.
	DeletedName = "(deleted account)"
	// CountLimit bounds the counts of jobs that are left.
	CountLimit = 100_000
	maxReports = 100
)

// Removed counts what was deleted, in the order of the report.
func (r *Report) Removed() []Count { return counts(erasure.Deleted, r.Deletion.Deleted) }

// Remaining counts what is kept, in the order of the report.
func (r *Report) Remaining() []Count { return counts(erasure.Kept, r.Deletion.Kept) }

func counts(kinds []erasure.Kind, of map[erasure.Kind]int) []Count {
	return lo.Map(kinds, func(kind erasure.Kind, _ int) Count { return Count{kind, of[kind]} })
}

// Current is the kind that was deleted last. It is nil before the first, and at the end.
func (r *Report) Current() *erasure.Kind {
	if r.Doing == "" {
		return nil
	}
	return &r.Doing
}

// Finished reports whether everything is deleted.
func (r *Report) Finished() bool { return !r.FinishedAt.IsZero() }

// Get returns the report of the deletion of an account. It is for VIEWER. It returns NOT_FOUND for an account that is
// not being deleted.
func (e *Eraser) Get(ctx context.Context, p jobs.Principal, id models.AccountID) (*Report, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, apierror.NotFound("deletion of an account")
	}
	d, err := erasure.Get(ctx, e.DB, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "deletion of an account"), "read the deletion of account %s", id)
	}
	all, err := e.reports(ctx, []*erasure.Deletion{d})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// List returns the reports of the newest deletions, at most 100. It is for VIEWER.
func (e *Eraser) List(ctx context.Context, p jobs.Principal) ([]*Report, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	found, err := erasure.List(ctx, e.DB, maxReports)
	if err != nil {
		return nil, fmt.Errorf("list the deletions of accounts: %w", err)
	}
	return e.reports(ctx, found)
}

func (e *Eraser) reports(ctx context.Context, found []*erasure.Deletion) ([]*Report, error) {
	ids := lo.Map(found, func(d *erasure.Deletion, _ int) models.AccountID { return d.AccountID })
	accounts, err := models.GetAccounts(ctx, e.DB, ids)
	if err != nil {
		return nil, fmt.Errorf("read the accounts: %w", err)
	}
	pools, err := capacity.ListDedicated(ctx, e.DB, ids)
	if err != nil {
		return nil, fmt.Errorf("list the pools that are dedicated to the accounts: %w", err)
	}
	dedicated := lo.GroupBy(pools, func(p capacity.Dedicated) models.AccountID { return p.AccountID })
	names := lo.SliceToMap(accounts, func(a *models.Account) (models.AccountID, string) { return a.ID, a.Name })
	all := make([]*Report, len(found))
	for i, d := range found {
		all[i] = &Report{Deletion: d, Name: names[d.AccountID], Pools: dedicated[d.AccountID]}
		if all[i].Finished() {
			continue
		}
		if all[i].JobsLeft, all[i].Unfinished, err = erasure.CountJobs(ctx, e.DB, d.AccountID, CountLimit); err != nil {
			return nil, fmt.Errorf("count the jobs that are left: %w", err)
		}
	}
	return all, nil
}
