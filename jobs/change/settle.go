package change

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Settler changes the jobs that wait for others which ended, as far as the ends themselves did not:
// thousands can wait for one job. An end records them, and the Settler takes them in parts, so that
// no transaction holds many rows.
type Settler struct {
	DB       *bun.DB
	Notifier *Notifier
}

// Settle settles all dependencies that ends have left, each part in its own transaction, and returns
// how many there were. Any number of processes may call it at once.
func (s *Settler) Settle(ctx context.Context) (int, error) {
	total := 0
	for {
		n, err := s.Part(ctx, nil)
		if err != nil || n == 0 {
			return total, err
		}
		total += n
	}
}

// Part settles up to settleMost dependencies: on these jobs, or on any if on is nil. What fails with
// them can leave others.
func (s *Settler) Part(ctx context.Context, on []models.JobID) (taken int, err error) {
	var done []*Change
	err = jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		var edges []models.JobDependency
		done = nil
		if taken, edges, err = models.TakeUnsettled(ctx, tx, on, settleMost); err != nil || len(edges) == 0 {
			return err
		}
		done, err = settleEdges(ctx, tx, edges)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("settle what jobs wait for: %w", err)
	}
	s.Notifier.After(ctx, done...)
	return taken, nil
}

// settleEdges settles dependencies on jobs that have ended.
func settleEdges(ctx context.Context, tx bun.Tx, edges []models.JobDependency) ([]*Change, error) {
	awaited := lo.Uniq(lo.Map(edges, func(e models.JobDependency, _ int) models.JobID { return e.DependsOn }))
	over, err := endedJobs(ctx, tx, awaited)
	if err != nil {
		return nil, err
	}
	edges = slices.DeleteFunc(edges, func(e models.JobDependency) bool { return over[e.DependsOn] == nil })
	var waiting, failing []models.JobID
	for _, e := range edges {
		waiting = append(waiting, e.JobID)
		if over[e.DependsOn].Job.Status != models.JobCompleted && e.OnFailure != models.FailureContinue {
			failing = append(failing, e.JobID)
		}
	}
	st := Settlement{Over: over, Final: true, taken: edges}
	if err := st.lock(ctx, tx, waiting, nil, lo.Uniq(failing)); err != nil {
		return nil, err
	}
	if err := st.settle(ctx, tx, slices.Collect(maps.Keys(over))); err != nil || len(st.changed) == 0 {
		return nil, err
	}
	if err := Reuse(ctx, tx, st.changed); err != nil {
		return nil, err
	}
	if err := leaveDependents(ctx, tx, st.changed); err != nil {
		return nil, err
	}
	if err := PlaceAll(ctx, tx, st.changed); err != nil {
		return nil, err
	}
	return st.changed, WriteAll(ctx, tx, st.changed, models.Writes{}, nil)
}

// endedJobs reads jobs that have ended, as if they ended by changes of this transaction.
func endedJobs(ctx context.Context, tx bun.Tx, ids []models.JobID) (map[models.JobID]*Change, error) {
	found, err := models.GetJobs(ctx, tx, ids)
	if err != nil {
		return nil, fmt.Errorf("read the jobs that have ended: %w", err)
	}
	thumbnails, err := models.HasThumbnails(ctx, tx, ids)
	if err != nil {
		return nil, fmt.Errorf("look for thumbnails: %w", err)
	}
	now, err := postgres.Now(ctx, tx)
	over := map[models.JobID]*Change{}
	for _, job := range found {
		over[job.ID] = At(tx, now, job)
	}
	for _, id := range thumbnails {
		over[id].Thumbnail = true
	}
	return over, err
}
