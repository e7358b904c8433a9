package query

import (
	"context"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// Edges reads what belongs to some jobs: their prompts, attempts, artifacts and events, why they wait,
// and the jobs around them. Its reads check no tenancy, so only Jobs.Of makes one, after its check. The
// zero Edges has no jobs.
type Edges struct {
	jobs   *Jobs
	caller jobs.Principal
	rows   []*models.Job
}

// Of returns the edges of jobs, or NOT_FOUND if the caller may not see one of them. It reads nothing.
func (r *Jobs) Of(p jobs.Principal, rows ...*models.Job) (Edges, error) {
	if !lo.EveryBy(rows, func(job *models.Job) bool { return p.Sees(job.AccountID) }) {
		return Edges{}, apierror.NotFound("job")
	}
	return Edges{jobs: r, caller: p, rows: rows}, nil
}

// ids returns the ids of the jobs, each once.
func (e Edges) ids() []models.JobID {
	return lo.Uniq(lo.Map(e.rows, func(job *models.Job, _ int) models.JobID { return job.ID }))
}

// seen returns those of the jobs that the caller may see.
func seen(p jobs.Principal, rows []*models.Job) []*models.Job {
	return slices.DeleteFunc(rows, func(job *models.Job) bool { return !p.Sees(job.AccountID) })
}

// Parents returns the parents of the jobs that the caller may see, by child.
func (e Edges) Parents(ctx context.Context) (map[models.JobID][]*models.Job, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	edges, err := models.ListDependencies(ctx, e.jobs.db, e.ids())
	if err != nil || len(edges) == 0 {
		return nil, apierror.Wrap(err, "list dependencies")
	}
	on := lo.Map(edges, func(edge models.JobDependency, _ int) models.JobID { return edge.DependsOn })
	rows, err := e.jobs.ByID(ctx, e.caller, on)
	if err != nil {
		return nil, err
	}
	byID := lo.KeyBy(rows, func(job *models.Job) models.JobID { return job.ID })
	parents := make(map[models.JobID][]*models.Job, len(e.rows))
	for _, edge := range edges {
		if parent := byID[edge.DependsOn]; parent != nil {
			parents[edge.JobID] = append(parents[edge.JobID], parent)
		}
	}
	return parents, nil
}

// Continuations returns the jobs that continue these drafts and that the caller may see, in any order.
func (e Edges) Continuations(ctx context.Context) ([]*models.Job, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	found, err := models.FindContinuations(ctx, e.jobs.db, e.ids())
	return seen(e.caller, found), apierror.Wrap(err, "find what continues drafts")
}

// Attempts returns the attempts of the jobs, oldest first.
func (e Edges) Attempts(ctx context.Context) ([]*models.Attempt, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	found, err := models.ListAttempts(ctx, e.jobs.db, e.ids())
	return found, apierror.Wrap(err, "list attempts")
}

// LastWorkers returns the worker of the newest attempt of each of the jobs.
func (e Edges) LastWorkers(ctx context.Context) (map[models.JobID]models.WorkerID, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	found, err := models.ListLastWorkers(ctx, e.jobs.db, e.ids())
	return found, apierror.Wrap(err, "find the workers of jobs")
}

// InputFiles returns the files that the jobs start from, as far as they exist.
func (e Edges) InputFiles(ctx context.Context) ([]*models.InputFile, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	found, err := models.ListInputFiles(ctx, e.jobs.db, e.ids())
	return found, apierror.Wrap(err, "list the files of jobs")
}
