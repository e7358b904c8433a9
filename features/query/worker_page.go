package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
)

const (
	// hostWindow is how far back the ranking of hosts and the reclamations go.
	hostWindow = 24 * time.Hour
	// hostsRanked and reclamationsListed are how many of them there are at most.
	hostsRanked, reclamationsListed = 20, 50
	// reclamationQuiet ends a reclamation: a loss after that time begins another.
	reclamationQuiet = 10 * time.Minute
)

// WorkerAttempts lists the ended attempts of a worker, newest first. It is for operators.
func (r *Fleet) WorkerAttempts(ctx context.Context, id models.WorkerID, of paging.Request) (*paging.Page[*models.Attempt], error) {
	all := paging.ListOf("watt", id)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	found, err := models.ListWorkerAttempts(ctx, r.db, id, models.AttemptID(mark), of.First+1)
	if err != nil {
		return nil, apierror.Wrap(err, "list the attempts of worker %s", id)
	}
	return paging.NewPage(all, found, of.First, func(a *models.Attempt) string { return string(a.ID) }), nil
}

// MostOutcomes is how many attempts the outcomes of a worker count.
const MostOutcomes = 2_000

// WorkerOutcomes counts the newest MostOutcomes ended attempts of a worker by how they ended.
func (r *Fleet) WorkerOutcomes(ctx context.Context, id models.WorkerID) ([]models.AttemptSum, error) {
	found, err := models.SumWorkerAttempts(ctx, r.db, id, MostOutcomes)
	return found, apierror.Wrap(err, "count the attempts of worker %s", id)
}

// LiveAttempt returns the attempt that a worker holds, or nil.
func (r *Fleet) LiveAttempt(ctx context.Context, id models.WorkerID) (*models.Attempt, error) {
	a, err := models.FindLiveAttempt(ctx, r.db, id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return a, apierror.Wrap(err, "read the attempt of worker %s", id)
}

// WorkerActs returns the newest acts of operators on a worker, newest first.
func (r *Fleet) WorkerActs(ctx context.Context, id models.WorkerID, first int) ([]*access.AuditEntry, error) {
	found, err := access.ListAudit(ctx, r.db, string(id), "", first)
	return found, apierror.Wrap(err, "list what operators did to worker %s", id)
}

// WorkerGroups counts the workers that have not ended by pool, GPU type, region and zone.
func (r *Fleet) WorkerGroups(ctx context.Context) ([]*models.WorkerGroup, error) {
	found, err := models.ListWorkerGroups(ctx, r.db, lease.SignEvery.Seconds())
	return found, apierror.Wrap(err, "count workers")
}

// EatingHosts returns the hosts that lost or crashed the most attempts within the last 24 hours, the
// worst first, at most 20. What operators, the scaler and preemptions ended does not count. Drills do
// not make a host worse.
func (r *Fleet) EatingHosts(ctx context.Context) ([]*capacity.EatingHost, error) {
	found, err := capacity.ListEatingHosts(ctx, r.db, hostWindow, models.Deliberate(), r.drills(), hostsRanked)
	return found, apierror.Wrap(err, "rank hosts by lost attempts")
}

// drillRuntime is the runtime that crashes and loses work as its jobs ask for.
const drillRuntime = "drill"

// drills returns the models of drills.
func (r *Fleet) drills() []string {
	names := []string{}
	for _, m := range r.catalogue.Current().Models() {
		if m.Runtime == drillRuntime {
			names = append(names, m.Name)
		}
	}
	return names
}

// Reclamations returns the reclamations of spot machines within the last 24 hours, of one pool or of
// all if it is empty, newest first, at most 50.
func (r *Fleet) Reclamations(ctx context.Context, pool models.PoolID) ([]*capacity.Reclamation, error) {
	asked := slices.DeleteFunc(models.Deliberate(), func(reason string) bool { return reason == models.LeavesPreempted })
	found, err := capacity.ListReclamations(ctx, r.db, pool, hostWindow, reclamationQuiet, asked, models.LeavesPreempted, reclamationsListed)
	return found, apierror.Wrap(err, "list reclamations")
}

// WorkersByID returns workers by their ids, in any order.
func (r *Fleet) WorkersByID(ctx context.Context, ids []models.WorkerID) ([]*models.Worker, error) {
	found, err := models.GetWorkers(ctx, r.db, ids)
	return found, apierror.Wrap(err, "read workers")
}

// SilentWorkers returns those of these workers whose next sign of life is overdue, by
// PostgreSQL's clock.
func (r *Fleet) SilentWorkers(ctx context.Context, ids []models.WorkerID) ([]models.WorkerID, error) {
	silent, err := models.FilterSilentWorkers(ctx, r.db, ids, lease.SignEvery)
	return silent, apierror.Wrap(err, "find silent workers")
}

// CurrentJobs returns those of the jobs that workers hold that the caller may see, by worker.
func (r *Fleet) CurrentJobs(ctx context.Context, p jobs.Principal, ids []models.WorkerID) (map[models.WorkerID]*models.Job, error) {
	held, err := models.ListLeasedJobs(ctx, r.db, ids)
	if err != nil {
		return nil, fmt.Errorf("read held jobs: %w", err)
	}
	current := make(map[models.WorkerID]*models.Job, len(held))
	for _, h := range held {
		if p.Sees(h.AccountID) {
			current[h.WorkerID] = &h.Job
		}
	}
	return current, nil
}
