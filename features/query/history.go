package query

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// History reads the figures of all of Reelay, over time and as they are now, and what changed in it.
type History struct {
	db *bun.DB
	// Timeline has the figures of the past.
	Timeline *history.Timeline
	queues   *Queues
}

// HistoryRequest asks for figures over time.
type HistoryRequest struct {
	Metrics  []history.Name
	From, To time.Time
	// Step is a minute, ten minutes, an hour or a day; 0 chooses one by the length.
	Step time.Duration
	history.Selection
}

// HistorySeries is a figure over time.
type HistorySeries struct {
	Metric history.Name
	Title  string
	Unit   string
	From   time.Time
	// StepSeconds is the time from one value to the next. A nil value is unknown.
	StepSeconds int
	Values      []*float64
}

// maxHistoryMetrics bounds the metrics of a request.
const maxHistoryMetrics = 40

// StepFor returns a resolution at which a time has 60 to 300 points.
func StepFor(length time.Duration) time.Duration {
	switch {
	case length <= 3*time.Hour:
		return time.Minute
	case length <= 48*time.Hour:
		return 10 * time.Minute
	case length <= 14*24*time.Hour:
		return time.Hour
	}
	return 24 * time.Hour
}

// Of returns figures over time, one series for each metric. It is for operators.
func (r *History) Of(ctx context.Context, p jobs.Principal, of HistoryRequest) ([]*HistorySeries, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	if len(of.Metrics) == 0 || len(of.Metrics) > maxHistoryMetrics {
		return nil, apierror.Invalid("metrics", "Name 1 to %d metrics.", maxHistoryMetrics)
	}
	if of.Step == 0 {
		of.Step = StepFor(of.To.Sub(of.From))
	}
	all, err := r.Timeline.Series(ctx, of.From, of.To, of.Step)
	if err != nil {
		return nil, err
	}
	for i, f := range all {
		all[i] = f.Of(of.Selection)
	}
	found := make([]*HistorySeries, 0, len(of.Metrics))
	for _, name := range of.Metrics {
		metric, ok := history.MetricOf(name)
		if !ok {
			return nil, apierror.Invalid("metrics", "There is no metric %q.", name)
		}
		if argument, why := metric.Refuses(of.Selection); why != "" {
			return nil, apierror.Invalid(argument, "%s", why)
		}
		series := &HistorySeries{
			Metric: name, Title: metric.Title, Unit: string(metric.Unit), From: all[0].From,
			StepSeconds: int(of.Step / time.Second), Values: make([]*float64, len(all)),
		}
		for i, f := range all {
			series.Values[i] = metric.Of(f)
		}
		found = append(found, series)
	}
	return found, nil
}

// maxPaidHours is how far back paid time goes: 30 days.
const maxPaidHours = 30 * 24

// Paid returns what the machines of the last hours, 1 to 720, were paid for, by the name of their pool.
// It is for operators.
func (r *History) Paid(ctx context.Context, p jobs.Principal, hours int) (map[string]models.Paid, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	if hours < 1 || hours > maxPaidHours {
		return nil, apierror.Invalid("hours", "hours must be from 1 to %d.", maxPaidHours)
	}
	now, err := postgres.Now(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("read what was paid for: %w", err)
	}
	f, err := r.Timeline.Window(ctx, now.Add(-time.Duration(hours)*time.Hour), now)
	if err != nil {
		return nil, err
	}
	found := map[string]models.Paid{}
	for _, row := range f.Pools {
		sum := found[row.Pool]
		sum.Add(row.Paid)
		found[row.Pool] = sum
	}
	return found, nil
}

// PaidTotals returns what the machines of each pool were paid for since the installation.
func (r *History) PaidTotals(ctx context.Context) ([]*models.PaidTotal, error) {
	totals, err := models.ListPaidTotals(ctx, r.db)
	return totals, apierror.Wrap(err, "read what was paid for")
}

// maxHeatHours is how far back a heat map can go: a week.
const maxHeatHours = 168

// HeatMap returns the use and the trouble of each type of GPU in each region over the last hours,
// 1 to 168. It is for operators.
func (r *History) HeatMap(ctx context.Context, p jobs.Principal, hours int) ([]*history.HeatCell, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	if hours < 1 || hours > maxHeatHours {
		return nil, apierror.Invalid("hours", "hours must be from 1 to %d.", maxHeatHours)
	}
	now, err := postgres.Now(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("read the heat map: %w", err)
	}
	f, err := r.Timeline.Window(ctx, now.Add(-time.Duration(hours)*time.Hour), now)
	if err != nil {
		return nil, err
	}
	_, workers, err := models.SampleHistory(ctx, r.db, 1)
	if err != nil {
		return nil, fmt.Errorf("count workers: %w", err)
	}
	queues, err := r.queues.Counts(ctx)
	if err != nil {
		return nil, err
	}
	known, err := capacity.ListPools(ctx, r.db, capacity.NoPoolLock)
	if err != nil {
		return nil, fmt.Errorf("list pools: %w", err)
	}
	pools := make([]history.HeatPool, len(known))
	for i, pool := range known {
		pools[i] = history.HeatPool{Pool: pool, Paused: !pool.PausedAt.IsZero(), Refused: pool.BackoffUntil.After(now)}
	}
	halts, err := models.ListHalts(ctx, r.db)
	if err != nil {
		return nil, fmt.Errorf("read the halts: %w", err)
	}
	halted := slices.ContainsFunc(halts, func(h models.Halt) bool { return h.What == models.HaltLeases })
	return history.HeatMap(f, pools, workers, queues, halted), nil
}
