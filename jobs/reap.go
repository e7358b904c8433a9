package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Reaper takes back what vanished workers held.
type Reaper struct {
	DB       *bun.DB
	Notifier *Notifier
}

const (
	// reapBatch bounds one pass: the rest waits for the next.
	reapBatch = 200
	// silenceLimit is how long a worker without a lease may say nothing.
	silenceLimit = 90 * time.Second
	// bootLimit is how long a worker may take to come up.
	bootLimit = 10 * time.Minute
)

// Reap ends every live attempt whose lease ran out: the attempt and its worker
// are LOST, and the job is queued again in its old place. It returns how many
// there were. Any number of processes may reap at once.
func (r *Reaper) Reap(ctx context.Context) (int, error) {
	expired, err := models.ListExpiredAttempts(ctx, r.DB, reapBatch)
	if err != nil {
		return 0, fmt.Errorf("find expired leases: %w", err)
	}
	var reaped int
	var failed []error
	for _, attempt := range expired {
		done, err := r.reap(ctx, attempt)
		if err != nil {
			failed = append(failed, fmt.Errorf("reap attempt %s: %w", attempt.ID, err))
			continue
		}
		if done != nil {
			reaped++
			r.Notifier.after(ctx, done)
			slog.WarnContext(ctx, "lease lost, job requeued", "job", attempt.JobID, "attempt", attempt.ID, "worker", attempt.WorkerID)
		}
	}
	return reaped, errors.Join(failed...)
}

func (r *Reaper) reap(ctx context.Context, attempt *models.Attempt) (done *change, err error) {
	err = r.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		l, err := lockHeld(ctx, tx, attempt)
		if errors.Is(err, ErrLeaseLost) {
			return nil // it ended meanwhile
		}
		if err != nil {
			return err
		}
		if !l.attempt.LeaseExpiresAt.Before(l.change.now) {
			return nil // it was renewed meanwhile
		}
		if err := endUnfenced(l, models.AttemptLost, "its lease ran out"); err != nil {
			return err
		}
		if l.was != models.WorkerTerminated {
			l.worker.Status, l.worker.IdleSince = models.WorkerLost, time.Time{}
		}
		l.worker.LastHeartbeatAt = l.attempt.LastHeartbeatAt
		done = l.change
		return l.save(ctx)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// Silent ends the wait for workers without a lease that say nothing: idle and
// draining ones are LOST, those that never came up are over. It returns how many
// there were.
func (r *Reaper) Silent(ctx context.Context) (int, error) {
	ids, err := models.ListSilentWorkers(ctx, r.DB, silenceLimit, bootLimit, reapBatch)
	if err != nil {
		return 0, fmt.Errorf("find silent workers: %w", err)
	}
	for i, id := range ids {
		if err := r.silent(ctx, id); err != nil {
			return i, fmt.Errorf("end silent worker %s: %w", id, err)
		}
	}
	return len(ids), nil
}

func (r *Reaper) silent(ctx context.Context, id models.WorkerID) error {
	return r.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		w, err := models.LockWorker(ctx, tx, id)
		if err != nil {
			return err
		}
		now, err := models.Now(ctx, tx)
		if err != nil {
			return err
		}
		was := w.Status
		switch {
		case was == models.WorkerBooting && now.Sub(w.CreatedAt) > bootLimit:
			w.Status, w.EndedAt = models.WorkerTerminated, now
		case (was == models.WorkerIdle || was == models.WorkerDraining) && now.Sub(w.LastHeartbeatAt) > silenceLimit:
			w.Status, w.IdleSince = models.WorkerLost, time.Time{}
		default:
			return nil
		}
		return models.UpdateWorker(ctx, tx, w, was)
	})
}
