package lease

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	// firstBootPause is how long a pool boots no machine after NotBootingAfter machines in a row
	// did not start. Each pause in a row doubles it, up to longestBootPause.
	firstBootPause   = time.Minute
	longestBootPause = time.Hour
)

// CountBootFailure counts a machine that did not start. exits means that its agent had registered.
// A machine that was created before the newest pause starts no further pause, because machines that
// boot together fail together.
func CountBootFailure(b *capacity.PoolBoots, now, created time.Time, cause string, exits bool) {
	b.BootFailures++
	b.BootFailure, b.BootFailedAt, b.BootExits = cause, now, exits
	if !b.NotBooting() || b.BootRetryAt.After(now) || !b.BootPausedAt.IsZero() && created.Before(b.BootPausedAt) {
		return
	}
	b.BootPauses++
	pause := longestBootPause
	if n := b.BootPauses - 1; n < 10 {
		pause = min(firstBootPause<<n, longestBootPause)
	}
	b.BootPausedAt, b.BootRetryAt = now, now.Add(pause)
}

// EndBoot terminates a booting worker that will not register, and counts its machine as not
// started. The recorded cause is the API's refusal of the registration if there was one, and cause
// otherwise; an empty cause means that the boot took too long. EndBoot reports false if the worker
// no longer boots.
func EndBoot(ctx context.Context, db *bun.DB, w *models.Worker, cause string) (ended bool, err error) {
	err = jobs.InTx(ctx, db, func(ctx context.Context, tx bun.Tx) error {
		ended = false
		pool, err := lockBootPool(ctx, tx, w.PoolID)
		if err != nil {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		if w, err = models.LockWorker(ctx, tx, w.ID); err != nil || w.Status != models.WorkerBooting {
			return err
		}
		w.BootFailure = causeOf(cmp.Or(w.BootFailure, cause, fmt.Sprintf("its agent did not register within %s",
			text.Duration(now.Sub(w.CreatedAt).Round(time.Second)))))
		w.Status, w.EndedAt, ended = models.WorkerTerminated, now, true
		if err := models.UpdateWorker(ctx, tx, w, models.WorkerBooting); err != nil {
			return err
		}
		return countFailure(ctx, tx, pool, w, now, false)
	})
	if err == nil && ended {
		slog.WarnContext(ctx, "a machine did not start", "pool", w.PoolID, "machine", text.Clip(w.ProviderInstanceID, 64), "cause", w.BootFailure)
	}
	return ended && err == nil, err
}

// CountExit counts a machine whose worker ended soon after it had registered. The worker must be
// terminated, and its pool locked.
func CountExit(ctx context.Context, tx bun.Tx, pool *capacity.Pool, id models.WorkerID, cause string) error {
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return err
	}
	w, err := models.LockWorker(ctx, tx, id)
	if err != nil {
		return err
	}
	w.BootFailure = causeOf(cause)
	if err := models.UpdateWorker(ctx, tx, w, models.WorkerTerminated); err != nil {
		return err
	}
	return countFailure(ctx, tx, pool, w, now, true)
}

func causeOf(cause string) string { return text.Clip(text.Printable(cause), MaxMessageBytes) }

// lockBootPool locks a worker's pool before the worker, as the scaler does. It returns nil for a worker
// without a pool.
func lockBootPool(ctx context.Context, tx bun.Tx, id models.PoolID) (*capacity.Pool, error) {
	if id == "" {
		return nil, nil
	}
	pool, err := capacity.LockAnyPool(ctx, tx, id, capacity.PoolsToWrite)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return pool, err
}

func countFailure(ctx context.Context, tx bun.Tx, pool *capacity.Pool, w *models.Worker, now time.Time, exits bool) error {
	if pool == nil {
		return nil
	}
	if pool.WorkersPerMachine > 1 {
		if counted, err := capacity.MachineFailed(ctx, tx, w); err != nil || counted {
			return err
		}
	}
	CountBootFailure(&pool.PoolBoots, now, w.CreatedAt, w.BootFailure, exits)
	return capacity.SetPoolBoots(ctx, tx, pool)
}
