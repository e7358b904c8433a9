package query

import (
	"context"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// QueueStats is how the whole queue stands.
type QueueStats struct {
	Waiting   int // QUEUED, those in paused queues too
	Active    int // held by a worker
	Completed int // of the jobs that are kept
	Failed    int // of the jobs that are kept
	Delayed   int // SCHEDULED for later, or BLOCKED by other jobs
	// Pauses are the lanes, and models of lanes, that are paused.
	Pauses []models.Pause
}

// exactStats is up to how many jobs of a status are counted one by one.
const exactStats = 100_000

// QueueStats counts the jobs of all accounts, for operators only. Beyond 100,000
// jobs of a status the number is PostgreSQL's estimate.
func (r *Reader) QueueStats(ctx context.Context, p jobs.Principal) (*QueueStats, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	counts, err := models.CountStatuses(ctx, r.DB, exactStats)
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

// Pauses lists the lanes, and models of lanes, that operators paused. It is for
// operators.
func (r *Reader) Pauses(ctx context.Context) ([]models.Pause, error) {
	pauses, err := models.ListPauses(ctx, r.DB)
	return pauses, apierror.Wrap(err, "list pauses")
}
