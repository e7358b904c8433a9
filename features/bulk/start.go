package bulk

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	// MaxBulkIDs is the maximum number of jobs that a request may list by their ids.
	MaxBulkIDs = 5_000
	// maxRequestKey is the maximum length of an idempotency key.
	maxRequestKey = 200
)

var errTooManyJobs = apierror.Invalid("filter", "The filter matches or scans more than %d jobs: narrow it, for example by time of submit.",
	MaxBulkJobs)

var (
	notEnded = []models.JobStatus{
		models.JobScheduled, models.JobBlocked, models.JobQueued, models.JobAssigned, models.JobRunning, models.JobCompleting,
	}
	// eligible holds the statuses that an action applies to.
	eligible = map[joblist.BulkAction][]models.JobStatus{
		joblist.BulkCancel:      notEnded,
		joblist.BulkSetTier:     notEnded,
		joblist.BulkSetPriority: notEnded,
		joblist.BulkRetry:       {models.JobFailed, models.JobCancelled},
		joblist.BulkRedrive:     {models.JobFailed},
		joblist.BulkDelete:      {models.JobCompleted, models.JobFailed, models.JobCancelled},
	}
)

// Start begins an operation on the jobs that the request names and that the caller may see. It
// returns FORBIDDEN for an action that the caller may not perform, INVALID_INPUT for a filter
// that matches more than MaxBulkJobs, CONFLICT if the key belongs to an operation with another
// action, and QUOTA_EXCEEDED if too many operations are unfinished.
func (b *Bulk) Start(ctx context.Context, p jobs.Principal, r Request) (*joblist.BulkOperation, error) {
	for _, id := range r.IDs {
		switch {
		case id.Valid():
		case models.IDKind(string(id)) != "": // there is no job with the id of something else
			return nil, apierror.NotFound("job")
		default:
			return nil, apierror.Invalid("ids", "%q is not the id of a job.", text.Clip(string(id), 64))
		}
	}
	if len(r.IDs) > MaxBulkIDs {
		return nil, apierror.Invalid("ids", "ids may list %d jobs; it lists %d. Use a filter instead.", MaxBulkIDs, len(r.IDs))
	}
	filter, err := query.Narrow(ctx, b.DB, p, r.Filter)
	if err != nil {
		return nil, err
	}
	op, err := b.newOperation(p, r)
	if err != nil {
		return nil, err
	}
	if r.DryRun {
		return b.preview(ctx, op, filter, r)
	}
	filter = narrowed(filter, r)
	as := any(filter)
	if len(r.IDs) > 0 {
		as = struct {
			joblist.JobFilter
			IDs int `json:"ids"`
		}{filter, len(r.IDs)}
	}
	err = b.start(ctx, p, "startBulkOperation", op, as, func(ctx context.Context, tx bun.Tx) (int, error) {
		if len(r.IDs) > 0 {
			return joblist.InsertBulkIDs(ctx, tx, op.ID, r.IDs, filter)
		}
		return joblist.InsertBulkJobs(ctx, tx, op.ID, filter, MaxBulkJobs+1)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return b.repeated(ctx, op)
	}
	return op, err
}

// repeated returns the operation that an earlier request with the same key started.
func (b *Bulk) repeated(ctx context.Context, of *joblist.BulkOperation) (*joblist.BulkOperation, error) {
	op, err := joblist.GetBulkByRequest(ctx, b.DB, of.AccountID, of.RequestKey)
	if err != nil {
		return nil, fmt.Errorf("read the bulk operation of an idempotency key: %w", err)
	}
	if op.Action != of.Action || op.Tier != of.Tier || !same(op.Priority, of.Priority) || op.Role != of.Role {
		return nil, apierror.Conflict("This idempotency key belongs to another bulk operation: %s.", op.ID)
	}
	return op, nil
}

func same(a, b *int) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

// narrowed restricts a filter to the jobs that the request's action is for.
func narrowed(f joblist.JobFilter, r Request) joblist.JobFilter {
	f.Dead = r.Action == joblist.BulkRedrive
	if r.Eligible {
		f = ofStatus(f, eligible[r.Action]...)
	}
	return f
}

func ofStatus(f joblist.JobFilter, statuses ...models.JobStatus) joblist.JobFilter {
	facet := joblist.Facet{Column: "status"}
	for _, status := range statuses {
		facet.Values = append(facet.Values, string(status))
	}
	f.Terms.Facets = append(slices.Clone(f.Terms.Facets), facet)
	return f
}

// preview performs a dry run. It returns a finished operation, which is not stored.
func (b *Bulk) preview(ctx context.Context, op *joblist.BulkOperation, f joblist.JobFilter, r Request) (*joblist.BulkOperation, error) {
	count := b.countMatches
	if len(r.IDs) > 0 {
		count = b.countIDs
	}
	if err := count(ctx, op, f, r); err != nil {
		return nil, err
	}
	var err error
	if op.FinishedAt, err = postgres.Now(ctx, b.DB); err != nil {
		return nil, fmt.Errorf("end a dry run: %w", err)
	}
	return op, nil
}

func (b *Bulk) countMatches(ctx context.Context, op *joblist.BulkOperation, f joblist.JobFilter, r Request) error {
	var err error
	if op.Matched, err = joblist.CountJobs(ctx, b.DB, narrowed(f, r), MaxBulkJobs+1); err != nil {
		return fmt.Errorf("count the jobs of a dry run: %w", err)
	}
	if op.Matched > MaxBulkJobs {
		return errTooManyJobs
	}
	if !r.Eligible {
		return nil
	}
	count := b.countLeftOut
	if f.OfKinds() {
		count = b.countLeftOutByIndex
	}
	return apierror.Wrap(count(ctx, op, f, r.Action), "count the jobs that a dry run leaves out")
}

// leftOutExamined bounds how many jobs are examined to count what a dry run leaves out. That takes
// up to a tenth of a second.
const leftOutExamined = 20_000

// countLeftOut counts the jobs of all statuses in one pass over the matching jobs.
func (b *Bulk) countLeftOut(ctx context.Context, op *joblist.BulkOperation, f joblist.JobFilter, action joblist.BulkAction) error {
	counts, err := joblist.CountFacets(ctx, b.DB, f, leftOutExamined)
	if err != nil {
		return err
	}
	for _, status := range models.JobStatuses {
		if !slices.Contains(eligible[action], status) {
			op.Skip(status, counts.Jobs[status], counts.Partly)
		}
	}
	return nil
}

// countLeftOutByIndex counts the jobs of each status from the index of kinds.
func (b *Bulk) countLeftOutByIndex(ctx context.Context, op *joblist.BulkOperation, f joblist.JobFilter, action joblist.BulkAction) error {
	for _, status := range models.JobStatuses {
		if slices.Contains(eligible[action], status) {
			continue
		}
		n, err := joblist.CountJobs(ctx, b.DB, ofStatus(f, status), query.CountLimit+1)
		if err != nil {
			return err
		}
		op.Skip(status, min(n, query.CountLimit), n > query.CountLimit)
	}
	return nil
}

func (b *Bulk) countIDs(ctx context.Context, op *joblist.BulkOperation, f joblist.JobFilter, r Request) error {
	all, err := joblist.CountJobsByStatus(ctx, b.DB, r.IDs, f)
	if err != nil {
		return fmt.Errorf("count the chosen jobs: %w", err)
	}
	matched, err := joblist.CountJobsByStatus(ctx, b.DB, r.IDs, narrowed(f, r))
	if err != nil {
		return fmt.Errorf("count the jobs of a dry run: %w", err)
	}
	left := map[models.JobStatus]int{}
	for _, c := range matched {
		op.Matched += c.Jobs
		left[c.Status] = c.Jobs
	}
	for _, c := range all {
		op.Skip(c.Status, c.Jobs-left[c.Status], false)
	}
	return nil
}
