package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
)

// countOwn bounds how many of an account's jobs are counted between two requested ones.
const countOwn = 10_000

// Estimates forecasts the start and the completion of each of the jobs. It omits ended
// jobs, and jobs without a forecast. It takes the same few statements for one job as for many,
// and none if the forecast is unknown.
func (e Edges) Estimates(ctx context.Context) (map[models.JobID]estimate.JobEstimate, error) {
	r, rows := e.jobs, e.rows
	found := map[models.JobID]estimate.JobEstimate{}
	accounts := map[models.AccountID]*models.Account{}
	var queued, pressed []models.JobID
	for _, job := range rows {
		if !job.Status.Terminal() {
			accounts[job.AccountID] = nil
		}
		if job.Status == models.JobQueued {
			queued = append(queued, job.ID)
		}
		if job.Status.Waiting() && !job.FinishBy.IsZero() && job.LatestCheckpointID != "" {
			pressed = append(pressed, job.ID)
		}
	}
	if len(accounts) == 0 || !r.estimates.Knows() {
		return found, nil
	}
	now, err := postgres.Now(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("estimate jobs: %w", err)
	}
	known, err := models.GetAccounts(ctx, r.db, slices.Collect(maps.Keys(accounts)))
	if err != nil {
		return nil, fmt.Errorf("estimate jobs: %w", err)
	}
	accounts = lo.KeyBy(known, func(a *models.Account) models.AccountID { return a.ID })
	ahead := map[models.JobID]backlog.OwnAhead{}
	if len(queued) > 0 {
		counted, err := backlog.CountOwnAhead(ctx, r.db, queued, countOwn)
		if err != nil {
			return nil, fmt.Errorf("count what is ahead: %w", err)
		}
		ahead = lo.KeyBy(counted, func(a backlog.OwnAhead) models.JobID { return a.JobID })
	}
	saved, err := models.SavedPercents(ctx, r.db, pressed)
	if err != nil {
		return nil, fmt.Errorf("read what is saved: %w", err)
	}
	r.estimates.Look(func(o *estimate.Forecast) {
		for _, job := range rows {
			if account := accounts[job.AccountID]; account != nil {
				if e, ok := o.Job(job, account, ahead[job.ID].Count, saved[job.ID], now); ok {
					found[job.ID] = e
				}
			}
		}
	})
	return found, nil
}

// QueueWait is how long the jobs of a tier and model waited that started within the last hour, in
// seconds. Time in which their queue was closed does not count.
type QueueWait struct {
	Lane     models.Tier
	Model    string
	P50, P95 float64
}

// Waits returns how long recently started jobs waited, by tier and model. An empty model
// stands for the whole tier. It reads the history, as the overview and the charts do.
func (r *Queues) Waits(ctx context.Context) (waits []QueueWait, err error) {
	now, err := postgres.Now(ctx, r.db)
	if err != nil {
		return nil, apierror.Wrap(err, "read how long jobs waited")
	}
	hour, err := r.timeline.Window(ctx, now.UTC().Truncate(time.Minute).Add(-hourSpan), now)
	if err != nil {
		return nil, err
	}
	add := func(lane models.Tier, model string) {
		of := hour.Of(history.Selection{Lane: lane, Model: model})
		if p50, p95 := of.Wait(0.5), of.Wait(0.95); p50 != nil && p95 != nil {
			waits = append(waits, QueueWait{lane, model, *p50, *p95})
		}
	}
	for _, lane := range models.Tiers {
		add(lane, "")
	}
	for _, j := range hour.Jobs {
		add(j.Lane, j.Model)
	}
	return waits, nil
}
