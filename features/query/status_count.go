package query

import (
	"context"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/joblist"
)

// facetsExamined is how many jobs the counts by status examine if they need more than an index.
const facetsExamined = 2_000

// CountFacets counts jobs by status. The counts are exact up to CountLimit, or, of a search
// that no index answers, up to 2,000 jobs in all. Beyond that they are lower bounds.
func (r *Jobs) CountFacets(ctx context.Context, p jobs.Principal, f joblist.JobFilter) (*joblist.StatusCounts, error) {
	f.Status = nil
	f, err := Narrow(ctx, r.db, p, f)
	if err != nil {
		return nil, err
	}
	if !f.OfKinds() {
		counts, err := joblist.CountFacets(ctx, r.db, f, facetsExamined)
		return counts, apierror.Wrap(err, "count jobs by status")
	}
	if f.All() {
		found, err := joblist.CountStatuses(ctx, r.db, CountLimit)
		counts := &joblist.StatusCounts{Jobs: map[models.JobStatus]int{}}
		for _, c := range found {
			counts.Jobs[c.Status] = min(c.Jobs, CountLimit+1)
		}
		return counts, apierror.Wrap(err, "count jobs by status")
	}
	counts := &joblist.StatusCounts{Jobs: map[models.JobStatus]int{}}
	for _, status := range models.JobStatuses {
		f.Status = []models.JobStatus{status}
		if counts.Jobs[status], err = joblist.CountJobs(ctx, r.db, f, CountLimit+1); err != nil {
			return nil, apierror.Wrap(err, "count jobs by status")
		}
	}
	return counts, nil
}

// totalsExamined is how many jobs a sum examines: more than the rows of the largest usual batch. It
// takes about a second.
const totalsExamined = 200_000

// Totals sums up the jobs of a filter.
func (r *Jobs) Totals(ctx context.Context, p jobs.Principal, f joblist.JobFilter) (*joblist.JobTotals, error) {
	f, err := Narrow(ctx, r.db, p, f)
	if err != nil {
		return nil, err
	}
	totals, err := joblist.SumJobs(ctx, r.db, f, totalsExamined)
	return totals, apierror.Wrap(err, "sum up jobs")
}

// FailureSources returns the models, accounts and hosts of which the most jobs failed within that
// time, at most most. It is for operators.
func (r *Jobs) FailureSources(ctx context.Context, within time.Duration, most int) ([]alerts.FailureSource, error) {
	found, err := alerts.ListFailureSources(ctx, r.db, within, most)
	return found, apierror.Wrap(err, "read why jobs fail")
}
