package query

import (
	"context"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/uptrace/bun"
)

// Queues reads what waits, and what keeps it waiting: queues by lane and model, pauses and halts.
type Queues struct {
	db        *bun.DB
	catalogue *catalogue.Catalogue
	estimates *estimate.Estimator
	timeline  *history.Timeline
	fleet     *Fleet
}

// QueueStats counts all jobs by their state.
type QueueStats struct {
	Waiting   int // QUEUED, including those in paused queues
	Active    int // held by a worker
	Completed int // of the jobs that are still stored
	Failed    int // of the jobs that are still stored
	Delayed   int // SCHEDULED for later, or BLOCKED by other jobs
	// Pauses are the paused lanes, and the paused models of lanes.
	Pauses []models.Pause
}

// exactStats is up to how many jobs of a status are counted exactly.
const exactStats = 100_000

// Stats counts the jobs of all accounts, for operators only. Beyond 100,000 jobs of a
// status the number is PostgreSQL's estimate.
func (r *Queues) Stats(ctx context.Context, p jobs.Principal) (*QueueStats, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	counts, err := joblist.CountStatuses(ctx, r.db, exactStats)
	if err != nil {
		return nil, apierror.Wrap(err, "count jobs by status")
	}
	s := &QueueStats{}
	for _, c := range counts {
		switch {
		case c.Status == models.JobQueued:
			s.Waiting += c.Jobs
		case c.Status.Live():
			s.Active += c.Jobs
		case c.Status == models.JobCompleted:
			s.Completed += c.Jobs
		case c.Status == models.JobFailed:
			s.Failed += c.Jobs
		case c.Status.Waiting():
			s.Delayed += c.Jobs
		}
	}
	s.Pauses, err = r.Pauses(ctx)
	return s, err
}

// Pauses lists the paused lanes, and the paused models of lanes. It is for operators.
func (r *Queues) Pauses(ctx context.Context) ([]models.Pause, error) {
	pauses, err := models.ListPauses(ctx, r.db)
	return pauses, apierror.Wrap(err, "list pauses")
}
