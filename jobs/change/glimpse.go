package change

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Glimpse holds the jobs that a transaction has read and that have not ended. They are not locked:
// their workers would wait until it has written all. It locks them last, when it confirms what it
// has read.
type Glimpse map[models.JobID]*models.Job

// Read returns jobs in the order of their ids. Those that have ended are locked against changes.
// Unknown ids are left out.
func (g Glimpse) Read(ctx context.Context, tx bun.Tx, ids []models.JobID) ([]*models.Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := models.GetJobs(ctx, tx, lo.Uniq(ids))
	if err != nil {
		return nil, err
	}
	open, ended := lo.FilterReject(found, func(j *models.Job, _ int) bool { return !j.Status.Terminal() })
	if len(ended) > 0 {
		ended, err = models.ShareJobs(ctx, tx, lo.Map(ended, func(j *models.Job, _ int) models.JobID { return j.ID }))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(ended, func(j *models.Job) bool { return !j.Status.Terminal() }) {
			return nil, fmt.Errorf("a job began another run: %w", postgres.ErrLostRace)
		}
	}
	for _, job := range open {
		if g[job.ID] == nil {
			g[job.ID] = job
		}
	}
	all := append(open, ended...)
	slices.SortFunc(all, func(a, b *models.Job) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// Confirm locks the jobs until the transaction ends. What has ended since it was read is left to the
// Settler: the new runs still wait for it. It reports whether there is any.
func (g Glimpse) Confirm(ctx context.Context, tx bun.Tx, runs []models.JobID) (unsettled bool, err error) {
	if len(g) == 0 {
		return false, nil
	}
	now, err := models.ShareStates(ctx, tx, slices.Collect(maps.Keys(g)))
	if err != nil {
		return false, fmt.Errorf("lock the jobs that were read: %w", err)
	}
	var ended []models.JobID
	for _, job := range now {
		if job.Run != g[job.ID].Run {
			return false, fmt.Errorf("job %s began another run: %w", job.ID, postgres.ErrLostRace)
		}
		if job.Status.Terminal() {
			ended = append(ended, job.ID)
		}
	}
	if len(now) < len(g) || len(ended) == 0 {
		return false, lo.Ternary(len(now) < len(g), postgres.ErrLostRace, nil)
	}
	left, err := models.LeaveUnsettledOf(ctx, tx, runs, ended)
	return left > 0, err
}
