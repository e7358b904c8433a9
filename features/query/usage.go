package query

import (
	"context"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
)

// Usage is what jobs used that ended on some days. Sums leave out what is unpriced.
type Usage struct {
	Jobs, Completed, Failed      int64
	GPUSeconds, WastedGPUSeconds float64
	CostUSD                      float64
	Unpriced                     int64
	ByModel                      []*ModelUsage
}

// ModelUsage is the part of a model.
type ModelUsage struct {
	Model               string
	Jobs                int64
	CostUSD, GPUSeconds float64
}

// Usage sums up whole days: the report of costs by model, and the jobs that failed. CostUSD is what accounts pay, or for
// operators and viewers what all the time cost. It returns INVALID_INPUT for days that make no sense.
func (r *Costs) Usage(ctx context.Context, p jobs.Principal, from, to time.Time) (*Usage, error) {
	report, err := r.Report(ctx, p, CostRequest{From: from, To: to, By: costs.ByModel, First: MaxCostRows})
	if err != nil {
		return nil, err
	}
	failed, err := costs.CountFailed(ctx, r.db, costs.Filter{From: report.From, To: report.To, Account: p.Scope()})
	if err != nil {
		return nil, apierror.Wrap(err, "count failed jobs")
	}
	use := func(row *CostRow) (usd, seconds float64) {
		amount := row.ChargedUSD
		if cost := row.Cost(); cost != nil {
			amount = *cost
		}
		return amount.InexactFloat64(), row.UsefulSeconds + row.WastedSeconds
	}
	u := &Usage{Completed: report.Total.Completed, WastedGPUSeconds: report.Total.WastedSeconds, Unpriced: report.Total.Unpriced}
	u.CostUSD, u.GPUSeconds = use(report.Total)
	byModel := map[string]*ModelUsage{}
	for _, row := range report.Rows {
		m := &ModelUsage{Model: row.Key, Jobs: row.Completed}
		m.CostUSD, m.GPUSeconds = use(row)
		byModel[row.Key] = m
		u.ByModel = append(u.ByModel, m)
	}
	for _, f := range failed {
		u.Failed += f.Jobs
		if m := byModel[f.Model]; m != nil {
			m.Jobs += f.Jobs
		} else if len(u.ByModel) < MaxCostRows {
			u.ByModel = append(u.ByModel, &ModelUsage{Model: f.Model, Jobs: f.Jobs})
		}
	}
	u.Jobs = u.Completed + u.Failed
	return u, nil
}

// Tasks returns the attempts that ended in a span of at most a day and for which a hosted provider had a task, after an
// entry of the ledger. It is for operators and viewers.
func (r *Costs) Tasks(ctx context.Context, p jobs.Principal, from, to time.Time, after int64, first int) ([]*costs.Task, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	switch {
	case !to.After(from) || to.Sub(from) > day:
		return nil, apierror.Invalid("to", "to must be after from, and at most a day later.")
	case first < 1 || first > paging.Max:
		return nil, apierror.Invalid("first", "first must be from 1 to %d.", paging.Max)
	case after < 0:
		return nil, apierror.Invalid("after", "after must be the number of an entry, or 0.")
	}
	found, err := costs.ListTasks(ctx, r.db, from, to, after, first)
	return found, apierror.Wrap(err, "list the tasks of providers")
}

// OfWorkers returns what the attempts of these workers cost that have ended. It checks no tenancy: only a caller that may
// see the workers' costs asks.
func (r *Costs) OfWorkers(ctx context.Context, workers []models.WorkerID) ([]*costs.WorkerCost, error) {
	found, err := costs.OfWorkers(ctx, r.db, workers)
	return found, apierror.Wrap(err, "read the costs of workers")
}

// maxProviders bounds the providers of Today.
const maxProviders = 100

// Today sums up the ledger of today (UTC) by provider, the dearest first, for metrics.
func (r *Costs) Today(ctx context.Context) ([]*costs.Row, error) {
	today := time.Now().UTC().Truncate(day)
	found, err := costs.Report(ctx, r.db, costs.ByProvider, costs.Filter{From: today, To: today.AddDate(0, 0, 1)}, maxProviders)
	return slices.DeleteFunc(found, func(row *costs.Row) bool { return row.Total }), apierror.Wrap(err, "sum up the ledger of today")
}
