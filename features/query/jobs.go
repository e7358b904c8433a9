package query

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Jobs reads jobs and what belongs to them. Jobs that the caller may not see are NOT_FOUND, and
// missing in lists.
type Jobs struct {
	db        *bun.DB
	sealer    *seal.Sealer
	objects   jobs.Objects
	catalogue *catalogue.Catalogue
	estimates *estimate.Estimator
	fleet     *Fleet
	// Clock tells how long unfinished work has lasted.
	Clock *jobs.Clock

	reads batch.Group[*jobRead]
}

// Many clients poll the states of their jobs. If more than a few reads come at once, a read
// waits a moment so that more of them can share a statement, until there are enough of them.
const (
	readLinger   = 5 * time.Millisecond
	readSiblings = 4
	readsEnough  = 16
)

// CountLimit is where counting stops. A count of CountLimit+1 means more.
const CountLimit = 10_000

// jobRead is one requested job and its result.
type jobRead struct {
	id models.JobID
	// state means that the columns of models.GetJobStates are enough.
	state bool
	job   *models.Job
}

// Get returns a job, or NOT_FOUND. Concurrent calls share a statement, because a job's state
// is the most frequent read.
func (r *Jobs) Get(ctx context.Context, p jobs.Principal, id models.JobID) (*models.Job, error) {
	return r.get(ctx, p, &jobRead{id: id})
}

// State is Get for callers that need only the columns of models.GetJobStates.
func (r *Jobs) State(ctx context.Context, p jobs.Principal, id models.JobID) (*models.Job, error) {
	return r.get(ctx, p, &jobRead{id: id, state: true})
}

func (r *Jobs) get(ctx context.Context, p jobs.Principal, read *jobRead) (*models.Job, error) {
	if !read.id.Valid() {
		return nil, apierror.NotFound("job")
	}
	// The batch may contain reads of other callers: it must not wait for one caller's read.
	if err := r.reads.Do(postgres.WithoutRead(ctx), read, r.readJobs); err != nil {
		return nil, fmt.Errorf("read job %s: %w", read.id, err)
	}
	return jobs.Visible(p, read.id, read.job, nil)
}

func (r *Jobs) readJobs(ctx context.Context, all []*jobRead) error {
	ids := make([]models.JobID, len(all))
	get := models.GetJobStates
	for i, read := range all {
		ids[i] = read.id
		if !read.state {
			get = models.GetJobs
		}
	}
	rows, err := get(ctx, r.db, ids)
	if err != nil {
		return batch.Final(err)
	}
	found := lo.KeyBy(rows, func(j *models.Job) models.JobID { return j.ID })
	for _, read := range all {
		if job := found[read.id]; job != nil {
			read.job = new(*job) // callers of the same job each get their own copy
		}
	}
	return nil
}

// Count counts jobs up to CountLimit. CountLimit+1 means more, or that the count would
// have to examine too many rows.
func (r *Jobs) Count(ctx context.Context, p jobs.Principal, f joblist.JobFilter) (int, error) {
	f, err := Narrow(ctx, r.db, p, f)
	if err != nil {
		return 0, err
	}
	n, err := joblist.CountJobs(ctx, r.db, f, CountLimit+1)
	return n, apierror.Wrap(err, "count jobs")
}

// Takes returns the drafts of one request that the caller may see, in the order of their
// seeds. An unknown id has none.
func (r *Jobs) Takes(ctx context.Context, p jobs.Principal, id models.TakesID) ([]*models.Job, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("takes")
	}
	found, err := models.ListTakes(ctx, r.db, id)
	return seen(p, found), apierror.Wrap(err, "list the takes %s", id)
}

// Attempt returns an attempt whose job the caller may see, or NOT_FOUND.
func (r *Jobs) Attempt(ctx context.Context, p jobs.Principal, id models.AttemptID) (*models.Attempt, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("attempt")
	}
	a, err := models.GetAttempt(ctx, r.db, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "attempt"), "read attempt %s", id)
	}
	if _, err := jobs.VisibleJob(ctx, r.db, p, a.JobID); err != nil {
		return nil, apierror.Wrap(orHidden(err, "attempt"), "read attempt %s", id)
	}
	return a, nil
}

func orHidden(err error, what string) error {
	if apierror.HasCode(err, apierror.CodeNotFound) {
		return apierror.NotFound(what)
	}
	return err
}

// ByID returns those of the jobs that the caller may see, in any order.
func (r *Jobs) ByID(ctx context.Context, p jobs.Principal, ids []models.JobID) ([]*models.Job, error) {
	found, err := models.GetJobs(ctx, r.db, ids)
	return seen(p, found), apierror.Wrap(err, "read jobs")
}
