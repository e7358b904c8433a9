package query

import (
	"context"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// facetsExamined is how many jobs the counts by status examine if they need more than an index.
const facetsExamined = 2_000

// CountFacets counts jobs by status. The counts are exact up to CountLimit, or, of a search
// that no index answers, up to 2,000 jobs in all. Beyond that they are lower bounds.
func (r *Reader) CountFacets(ctx context.Context, p jobs.Principal, f models.JobFilter) (*models.StatusCounts, error) {
	f.Status = nil
	f, err := Narrow(ctx, r.DB, p, f)
	if err != nil {
		return nil, err
	}
	if !f.OfKinds() {
		counts, err := models.CountFacets(ctx, r.DB, f, facetsExamined)
		return counts, apierror.Wrap(err, "count jobs by status")
	}
	if f.All() {
		found, err := models.CountStatuses(ctx, r.DB, CountLimit)
		counts := &models.StatusCounts{Jobs: map[models.JobStatus]int{}}
		for _, c := range found {
			counts.Jobs[c.Status] = min(c.Jobs, CountLimit+1)
		}
		return counts, apierror.Wrap(err, "count jobs by status")
	}
	counts := &models.StatusCounts{Jobs: map[models.JobStatus]int{}}
	for _, status := range models.JobStatuses {
		f.Status = []models.JobStatus{status}
		if counts.Jobs[status], err = models.CountJobs(ctx, r.DB, f, CountLimit+1); err != nil {
			return nil, apierror.Wrap(err, "count jobs by status")
		}
	}
	return counts, nil
}

// totalsExamined is how many jobs a sum examines: more than the rows of the largest usual batch. It
// takes about a second.
const totalsExamined = 200_000

// JobTotals sums up the jobs of a filter.
func (r *Reader) JobTotals(ctx context.Context, p jobs.Principal, f models.JobFilter) (*models.JobTotals, error) {
	f, err := Narrow(ctx, r.DB, p, f)
	if err != nil {
		return nil, err
	}
	totals, err := models.SumJobs(ctx, r.DB, f, totalsExamined)
	return totals, apierror.Wrap(err, "sum up jobs")
}
