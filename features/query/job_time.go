package query

import (
	"context"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
)

// Times returns where the time of the runs of the jobs went, until now. Jobs of which that is
// unknown are left out.
func (e Edges) Times(ctx context.Context) (map[models.JobID]*models.JobTime, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	r, rows := e.jobs, e.rows
	now := r.Clock.Now()
	paused, err := r.paused(ctx, rows, now)
	if err != nil {
		return nil, err
	}
	found := make(map[models.JobID]*models.JobTime, len(rows))
	for _, job := range rows {
		if t := job.Time(now, paused[job.ID].Seconds); t != nil {
			found[job.ID] = t
		}
	}
	return found, nil
}

// JobWait is how long a run has been queued, all its waits together, without the time in which its queue
// was paused: from Since until now or, if Since is zero, Seconds.
type JobWait struct {
	Since   time.Time
	Seconds float64
}

// Waits returns the waits of the runs of the jobs. Jobs of which they are unknown are left out.
func (e Edges) Waits(ctx context.Context) (map[models.JobID]JobWait, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	r, rows := e.jobs, e.rows
	now := r.Clock.Now()
	paused, err := r.paused(ctx, rows, now)
	if err != nil {
		return nil, err
	}
	found := make(map[models.JobID]JobWait, len(rows))
	for _, job := range rows {
		t := job.Time(now, paused[job.ID].Seconds)
		switch {
		case t == nil:
		case job.Status != models.JobQueued || paused[job.ID].Now:
			found[job.ID] = JobWait{Seconds: t.QueuedSeconds}
		default: // the same however late it is read
			before := *job.QueuedSeconds - job.PausedSeconds - paused[job.ID].Seconds
			found[job.ID] = JobWait{Since: job.QueuedAt.Add(-time.Duration(before * float64(time.Second))).Round(time.Millisecond)}
		}
	}
	return found, nil
}

// paused returns for how long the queues of those of the jobs that are QUEUED were closed in their
// current wait.
func (r *Jobs) paused(ctx context.Context, rows []*models.Job, now time.Time) (map[models.JobID]backlog.Paused, error) {
	var ids []models.JobID
	var waits []backlog.Wait
	for _, job := range rows {
		if job.Status == models.JobQueued && job.QueuedAt.Before(now) {
			ids, waits = append(ids, job.ID), append(waits, backlog.Wait{Lane: job.Lane, Model: job.Model, Since: job.QueuedAt, Until: now})
		}
	}
	all, err := backlog.ListPaused(ctx, r.db, waits)
	if err != nil {
		return nil, apierror.Wrap(err, "read for how long queues were closed")
	}
	found := make(map[models.JobID]backlog.Paused, len(ids))
	for i, id := range ids {
		found[id] = all[i]
	}
	return found, nil
}
