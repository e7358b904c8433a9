package query

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
)

// List lists jobs, newest first. A page may be shorter than requested, or empty, although
// there are more jobs. Its End then marks how far it has searched.
func (r *Jobs) List(ctx context.Context, p jobs.Principal, f joblist.JobFilter, of paging.Request) (*paging.Page[*models.Job], error) {
	return r.ListIn(ctx, p, joblist.OrderNewest, f, of)
}

// ListIn is Jobs in another order. Most orders list only the jobs that they are about, such as
// those that wait.
func (r *Jobs) ListIn(
	ctx context.Context, p jobs.Principal, order joblist.JobOrder, f joblist.JobFilter, of paging.Request,
) (*paging.Page[*models.Job], error) {
	if !slices.Contains(joblist.JobOrders, order) {
		return nil, apierror.Invalid("order", "There is no order %q.", order)
	}
	list := paging.ListOf("job", p.Scope(), f)
	if order != joblist.OrderNewest {
		list = paging.ListOf("job", p.Scope(), f, order)
	}
	mark, err := list.Begin(of)
	if err != nil {
		return nil, err
	}
	if !order.ValidPlace(mark) {
		return nil, paging.ErrCursor
	}
	if f, err = Narrow(ctx, r.db, p, f); err != nil {
		return nil, err
	}
	found, err := joblist.ListJobsIn(ctx, r.db, order, f, mark, of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	some := paging.NewPage(list, found.Jobs, of.First, order.Place)
	if !some.More && found.End != "" {
		some.More, some.End = true, list.Cursor(found.End)
	}
	return some, nil
}
