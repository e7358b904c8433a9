package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/reports"
	"github.com/uptrace/bun"
)

// Reports makes the reports that operators read from time to time.
type Reports struct {
	db    *bun.DB
	jobs  *Jobs
	costs *Costs
	keep  func(reports.Kind) time.Duration
}

const (
	// maxReportDays bounds the days of a report.
	maxReportDays = 90
	oldestWaiting = 10
	// flakyRows bounds the rows of each group of Report.Flakiness.
	flakyRows = 100
)

// ReportSet are all reports, at one time. Retries and Flakiness are of the last Days.
type ReportSet struct {
	At   time.Time
	Days int
	// DeadLetters are the open ones. If More is true, there are others, of jobs that were submitted earlier.
	DeadLetters     []*reports.DeadLetters
	MoreDeadLetters bool
	// Waiting are the ten jobs that have waited longest, the first since the longest.
	Waiting []*WaitingJob
	Retries []*reports.Retries
	// Flakiness are the providers, regions and pools, each group in the order of its share of attempts that completed
	// nothing, the worst first.
	Flakiness []*Flakiness
	Retention []*Kept
}

// WaitingJob is a queued job, with the reasons why it waits.
type WaitingJob struct {
	Job *models.Job
	// Seconds is how long it has been queued.
	Seconds float64
	Reasons []WaitingReason
}

// Flakiness is how reliably jobs run at a place: a provider, a region or a pool.
type Flakiness struct {
	// By is PROVIDER, REGION or POOL.
	By costs.Group
	// Name is the place's name: empty for workers without a pool.
	Name string
	// Attempts is how many ended, Completed how many of them completed their jobs, and Cancelled how many ended because
	// their jobs were cancelled.
	Attempts, Completed, Cancelled int64
	WastedSeconds                  float64
}

// PerVideo is how many attempts each completed job took, or nil if none completed.
func (f *Flakiness) PerVideo() *float64 {
	if f.Completed == 0 {
		return nil
	}
	return new(float64(f.Attempts) / float64(f.Completed))
}

// FailureRate is the share of the attempts that did not complete their jobs, 0 to 1. It includes preempted ones. Those whose
// jobs were cancelled do not count: that says nothing of the place.
func (f *Flakiness) FailureRate() float64 {
	counted := f.Attempts - f.Cancelled
	if counted <= 0 {
		return 0
	}
	return max(1-float64(f.Completed)/float64(counted), 0)
}

// Kept is how much of a kind is kept, and for how long.
type Kept struct {
	*reports.Kept
	// For is 0 for what goes as soon as it can, and negative for what is kept for ever.
	For time.Duration
}

// KeptSeconds is For in seconds, or nil for what is kept for ever.
func (k *Kept) KeptSeconds() *float64 {
	if k.For < 0 {
		return nil
	}
	return new(k.For.Seconds())
}

// GoesAt is when the oldest goes, if its job has ended by then and nothing else uses it: zero for what is kept for
// ever, and without rows. It is past if the upkeep has not come to it.
func (k *Kept) GoesAt() time.Time {
	if k.For < 0 || k.OldestAt.IsZero() {
		return time.Time{}
	}
	return k.OldestAt.Add(k.For)
}

// Read makes the reports, for operators and viewers. It returns INVALID_INPUT unless days is from 1 to 90.
func (r *Reports) Read(ctx context.Context, p jobs.Principal, days int) (*ReportSet, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	if days < 1 || days > maxReportDays {
		return nil, apierror.Invalid("days", "days must be from 1 to %d.", maxReportDays)
	}
	now, err := postgres.Now(ctx, r.db)
	if err != nil {
		return nil, apierror.Wrap(err, "read the time")
	}
	set := &ReportSet{At: now, Days: days}
	if set.DeadLetters, err = reports.CountDeadLetters(ctx, r.db); err != nil {
		return nil, apierror.Wrap(err, "count dead letters by type")
	}
	counted := 0
	for _, d := range set.DeadLetters {
		counted += d.Count
	}
	set.MoreDeadLetters = counted >= reports.Examined
	if set.Waiting, err = r.waiting(ctx, p, now); err != nil {
		return nil, err
	}
	if set.Retries, err = reports.CountRetries(ctx, r.db, now.AddDate(0, 0, -days)); err != nil {
		return nil, apierror.Wrap(err, "count retries")
	}
	if set.Flakiness, err = r.flakiness(ctx, p, now, days); err != nil {
		return nil, err
	}
	kept, err := reports.ListKept(ctx, r.db)
	for _, k := range kept {
		set.Retention = append(set.Retention, &Kept{k, r.keep(k.Kind)})
	}
	return set, apierror.Wrap(err, "count what is kept")
}

// waiting returns the jobs that have waited longest.
func (r *Reports) waiting(ctx context.Context, p jobs.Principal, now time.Time) ([]*WaitingJob, error) {
	page, err := r.jobs.ListIn(ctx, p, joblist.OrderWaiting, joblist.JobFilter{}, paging.Request{First: oldestWaiting})
	if err != nil || len(page.Items) == 0 {
		return nil, err
	}
	edges, err := r.jobs.Of(p, page.Items...)
	if err != nil {
		return nil, err
	}
	reasons, err := r.jobs.WaitingFor(ctx, edges)
	if err != nil {
		return nil, err
	}
	found := make([]*WaitingJob, len(page.Items))
	for i, job := range page.Items {
		found[i] = &WaitingJob{Job: job, Seconds: max(now.Sub(job.QueuedAt).Seconds(), 0), Reasons: reasons[job.ID]}
	}
	return found, nil
}

// flakiness derives the figures from the ledger: what Costs reports, of the last days with today.
func (r *Reports) flakiness(ctx context.Context, p jobs.Principal, now time.Time, days int) (found []*Flakiness, err error) {
	tomorrow := now.UTC().Truncate(day).AddDate(0, 0, 1)
	for _, by := range []costs.Group{costs.ByProvider, costs.ByRegion, costs.ByPool} {
		report, err := r.costs.Report(ctx, p, CostRequest{From: tomorrow.AddDate(0, 0, -days), To: tomorrow, By: by, First: flakyRows})
		if err != nil {
			return nil, err
		}
		first := len(found)
		for _, row := range report.Rows {
			found = append(found, &Flakiness{
				By: by, Name: row.Key, Attempts: row.Attempts, Completed: row.Completed, Cancelled: row.Cancelled, WastedSeconds: row.WastedSeconds,
			})
		}
		slices.SortStableFunc(found[first:], func(a, b *Flakiness) int { return cmp.Compare(b.FailureRate(), a.FailureRate()) })
	}
	return found, nil
}
