package lease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Learner updates the averages on which estimates and checkpoint intervals are based.
type Learner struct {
	DB *bun.DB
}

const (
	// learnLag is how long a transaction may take before its job is missed. Missing a job does no
	// harm.
	learnLag = 2 * time.Second
	// learnSpan is how far back a pass looks if the last pass was long ago.
	learnSpan = 10 * time.Minute
	// learnBatch bounds the jobs that one pass learns render times from. It takes the newest.
	learnBatch = 2000
)

// Learn adds the jobs that completed or were submitted since the last pass to the averages, and
// returns the number of completed ones. Any number of processes may call it; one at a time does the
// work.
func (l *Learner) Learn(ctx context.Context) (int, error) {
	learnt := 0
	err := jobs.InTx(ctx, l.DB, func(ctx context.Context, tx bun.Tx) error {
		learnt = 0
		last, err := backlog.LockLearning(ctx, tx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		until := last.Now.Add(-learnLag)
		since := last.Until
		if oldest := until.Add(-learnSpan); since.Before(oldest) {
			since = oldest
		}
		if !until.After(since) {
			return nil
		}
		if learnt, err = learnRenders(ctx, tx, since, until); err != nil {
			return fmt.Errorf("learn render times: %w", err)
		}
		age := min(max(until.Sub(last.BeganAt), until.Sub(since)), estimate.ArrivalSpan)
		if err := backlog.CountArrivals(ctx, tx, since, until, estimate.ArrivalSpan, age); err != nil {
			return fmt.Errorf("count arrivals: %w", err)
		}
		if err := models.CountArrivalHours(ctx, tx, since, until); err != nil {
			return fmt.Errorf("count arrivals by hour: %w", err)
		}
		if err := models.CountCheckpoints(ctx, tx, since, until, checkpoints.Fade, checkpoints.NewestSaves, models.Deliberate()); err != nil {
			return fmt.Errorf("count checkpoints and losses: %w", err)
		}
		if err := models.CountModelLoads(ctx, tx, since, until, estimate.NewestLoads); err != nil {
			return fmt.Errorf("count loads of models: %w", err)
		}
		return backlog.SetLearned(ctx, tx, until)
	})
	return learnt, err
}

func learnRenders(ctx context.Context, tx bun.Tx, since, until time.Time) (int, error) {
	rendered, err := backlog.ListRendered(ctx, tx, since, until, learnBatch)
	if err != nil || len(rendered) == 0 {
		return 0, err
	}
	known, err := backlog.ListRenderTimes(ctx, tx)
	if err != nil {
		return 0, err
	}
	times := lo.KeyBy(known, func(t *backlog.RenderTime) estimate.RenderKey {
		return estimate.RenderKey{Kind: t.Kind, GpuType: t.GPUType}
	})
	changed := map[estimate.RenderKey]*backlog.RenderTime{}
	for _, r := range rendered {
		at := estimate.RenderKey{Kind: r.Kind, GpuType: r.GPUType}
		if times[at] == nil {
			times[at] = &backlog.RenderTime{Kind: r.Kind, GPUType: r.GPUType}
		}
		estimate.Learn(times[at], r)
		changed[at] = times[at]
	}
	return len(rendered), backlog.PutRenderTimes(ctx, tx, slices.Collect(maps.Values(changed)))
}
