package query

import (
	"context"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
)

// Shares returns the accounts with waiting or running jobs in a lane, or in each lane if it is
// empty: the most waiting jobs first, at most first (1 to 200) of each lane. It is for operators.
func (r *Queues) Shares(ctx context.Context, lane models.Tier, first int) ([]*backlog.LaneShare, error) {
	if err := paging.ValidFirst(first); err != nil {
		return nil, err
	}
	found, err := backlog.ListLaneShares(ctx, r.db, lane, first)
	return found, apierror.Wrap(err, "read the shares of lanes")
}

// Heads returns the next job of each of the accounts whose turn is next in a lane, in the order
// in which they start if workers can run all of them, at most first (1 to 200).
func (r *Queues) Heads(ctx context.Context, lane models.Tier, first int) ([]*models.Job, error) {
	if err := paging.ValidFirst(first); err != nil {
		return nil, err
	}
	heads, err := backlog.ListLaneHeads(ctx, r.db, lane, first)
	if err != nil {
		return nil, apierror.Wrap(err, "read the next jobs of a lane")
	}
	heads = heads[:min(len(heads), first)]
	if len(heads) == 0 {
		return nil, nil
	}
	ids := lo.Map(heads, func(j backlog.QueuedJob, _ int) models.JobID { return j.ID })
	found, err := models.GetJobs(ctx, r.db, ids)
	if err != nil {
		return nil, apierror.Wrap(err, "read the next jobs of a lane")
	}
	slices.SortFunc(found, func(a, b *models.Job) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return found, nil
}
