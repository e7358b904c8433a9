package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// Jobs lists jobs, newest first. A page may be shorter than requested, or empty, although
// there are more jobs. Its End then marks how far it has searched.
func (r *Reader) Jobs(ctx context.Context, p jobs.Principal, f models.JobFilter, of paging.Request) (*paging.Page[*models.Job], error) {
	return r.JobsIn(ctx, p, models.OrderNewest, f, of)
}

// JobsIn is Jobs in another order. Most orders list only the jobs that they are about, such as
// those that wait.
func (r *Reader) JobsIn(
	ctx context.Context, p jobs.Principal, order models.JobOrder, f models.JobFilter, of paging.Request,
) (*paging.Page[*models.Job], error) {
	if !slices.Contains(models.JobOrders, order) {
		return nil, apierror.Invalid("order", "There is no order %q.", order)
	}
	list := paging.ListOf("job", p.Scope(), f)
	if order != models.OrderNewest {
		list = paging.ListOf("job", p.Scope(), f, order)
	}
	mark, err := list.Begin(of)
	if err != nil {
		return nil, err
	}
	if !order.ValidPlace(mark) {
		return nil, paging.ErrCursor
	}
	if f, err = Narrow(ctx, r.DB, p, f); err != nil {
		return nil, err
	}
	found, err := models.ListJobsIn(ctx, r.DB, order, f, mark, of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	some := paging.NewPage(list, found.Jobs, of.First, order.Place)
	if !some.More && found.End != "" {
		some.More, some.End = true, list.Cursor(found.End)
	}
	return some, nil
}

// LastWorkers returns the worker of the newest attempt of each of these jobs.
func (r *Reader) LastWorkers(ctx context.Context, ids []models.JobID) (map[models.JobID]models.WorkerID, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := models.ListLastWorkers(ctx, r.DB, ids)
	return found, apierror.Wrap(err, "find the workers of jobs")
}

// Pictures returns the newest still picture of each of these jobs: of its video if there is
// one, otherwise of the unfinished video.
func (r *Reader) Pictures(ctx context.Context, ids []models.JobID) (map[models.JobID]models.ArtifactID, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := models.ListArtifacts(ctx, r.DB, ids, models.ArtifactThumbnail, models.ArtifactPreview)
	if err != nil {
		return nil, fmt.Errorf("find pictures of jobs: %w", err)
	}
	pictures, final := map[models.JobID]models.ArtifactID{}, map[models.JobID]bool{}
	for _, a := range found { // oldest first
		isFinal := a.Type == models.ArtifactThumbnail
		if strings.HasPrefix(a.ContentType, "image/") && (isFinal || !final[a.JobID]) {
			pictures[a.JobID], final[a.JobID] = a.ID, isFinal
		}
	}
	return pictures, nil
}
