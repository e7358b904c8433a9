package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Reaper requeues the jobs of workers that vanished.
type Reaper struct {
	DB        *bun.DB
	Notifier  *change.Notifier
	Catalogue *catalogue.Catalogue
}

const (
	// reapBatch bounds one pass: the rest waits for the next.
	reapBatch = 200
	// silenceLimit is how long a worker without a lease may be silent.
	silenceLimit = 90 * time.Second
)

// Reap ends every live attempt whose lease expired: the attempt and its worker are LOST, and the
// job is queued again in its old place. After an outage, during which no worker can renew, each
// gets the time of a whole lease to come back. Reap returns how many attempts it ended. Any number
// of processes may call it at once.
func (r *Reaper) Reap(ctx context.Context) (int, error) {
	expired, err := models.ListExpiredAttempts(ctx, r.DB, reapBatch)
	if err != nil {
		return 0, fmt.Errorf("find expired leases: %w", err)
	}
	return r.endAll(ctx, expired, "lease lost", r.reap)
}

// reap ends an attempt if its lease has expired.
func (r *Reaper) reap(ctx context.Context, l *lockedLease) (ended bool, err error) {
	if !l.attempt.LeaseExpiresAt.Before(l.change.Now) {
		return false, nil // it was renewed meanwhile
	}
	l.worker.LastHeartbeatAt = l.attempt.LastHeartbeatAt
	return true, endUnfenced(ctx, l, Loss{Reason: "its lease ran out"})
}

// endAll ends attempts and makes their workers LOST. Each attempt has its own transaction, in which
// end decides. endAll returns how many ended, and logs each with the message.
func (r *Reaper) endAll(ctx context.Context, attempts []*models.Attempt, message string, end func(context.Context, *lockedLease) (bool,
	error)) (ended int, err error) {
	away, err := getOutage(ctx, r.DB)
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, attempt := range attempts {
		if away.excuses(attempt.LastHeartbeatAt, LeaseTTL) {
			continue
		}
		done, err := r.endOne(ctx, attempt, end)
		if err != nil {
			failed = append(failed, fmt.Errorf("end attempt %s: %w", attempt.ID, err))
		} else if done != nil {
			ended++
			r.Notifier.After(ctx, done)
			slog.WarnContext(ctx, message, "job", attempt.JobID, "attempt", attempt.ID, "worker", attempt.WorkerID)
		}
	}
	return ended, errors.Join(failed...)
}

func (r *Reaper) endOne(ctx context.Context, attempt *models.Attempt, end func(context.Context, *lockedLease) (bool,
	error)) (done *change.Change, err error) {
	err = jobs.InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) error {
		done = nil
		l, err := lockLease(ctx, tx, attempt)
		if errors.Is(err, apierror.ErrLeaseLost) {
			return nil // it ended meanwhile
		}
		if err != nil {
			return err
		}
		if ended, err := end(ctx, l); err != nil || !ended {
			return err
		}
		l.giveUpWorker()
		done = l.change
		return l.save(ctx)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// giveUpWorker makes the worker LOST. The worker's next call makes it idle again.
func (h *lockedLease) giveUpWorker() {
	if h.wasWorker.Status != models.WorkerTerminated {
		h.worker.Status, h.worker.IdleSince, h.worker.LostAt = models.WorkerLost, time.Time{}, h.change.Now
	}
}

// Silent gives up silent workers without a lease: idle and draining ones become LOST, and those
// that never started are terminated. It returns how many there were.
func (r *Reaper) Silent(ctx context.Context) (int, error) {
	away, err := getOutage(ctx, r.DB)
	if err != nil {
		return 0, err
	}
	ids, err := models.ListSilentWorkers(ctx, r.DB, silenceLimit, reapBatch)
	if err != nil {
		return 0, fmt.Errorf("find silent workers: %w", err)
	}
	var ended int
	var failed []error
	for _, id := range ids {
		done, err := r.silent(ctx, id, away)
		if err != nil {
			failed = append(failed, fmt.Errorf("end silent worker %s: %w", id, err))
		}
		ended += lo.Ternary(done, 1, 0)
	}
	return ended, errors.Join(failed...)
}

func (r *Reaper) silent(ctx context.Context, id models.WorkerID, away outage) (ended bool, err error) {
	w, err := jobs.GetWorker(ctx, r.DB, id)
	if err != nil {
		return false, err
	}
	if w.Status == models.WorkerBooting { // a boot is not given more time
		return EndBoot(ctx, r.DB, w, "")
	}
	err = jobs.InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) error {
		ended = false
		w, err := models.LockWorker(ctx, tx, id)
		if err != nil {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		was := w.Status
		switch {
		case away.excuses(w.LastHeartbeatAt, silenceLimit):
			return nil
		case (was == models.WorkerIdle || was == models.WorkerDraining) && now.Sub(w.LastHeartbeatAt) > silenceLimit:
			w.Status, w.IdleSince, w.LostAt = models.WorkerLost, time.Time{}, now
		default:
			return nil
		}
		ended = true
		return models.UpdateWorker(ctx, tx, w, was)
	})
	return ended && err == nil, err
}

const (
	// stallLimit is how long a render may show no progress.
	stallLimit = 5 * time.Minute
	// agentGrace is how much longer than the agent the server waits before it ends an attempt
	// that took too long, stalled, or was cancelled. The agent ends it more cleanly.
	agentGrace = time.Minute
)

// Overdue ends the attempts that their agents should have ended: those that exceed their timeout,
// show no progress for five minutes, or run long after a cancel. It returns how many it ended. Any
// number of processes may call it at once.
func (r *Reaper) Overdue(ctx context.Context) (int, error) {
	overdue, err := models.ListOverdueAttempts(ctx, r.DB, stallLimit, agentGrace, reapBatch)
	if err != nil {
		return 0, fmt.Errorf("find overdue attempts: %w", err)
	}
	return r.endAll(ctx, overdue, "overdue attempt ended", r.overdue)
}

// overdue ends an attempt if its agent should have ended it.
func (r *Reaper) overdue(ctx context.Context, l *lockedLease) (ended bool, err error) {
	why := l.overdue()
	switch {
	case why == "":
		return false, nil
	case !l.job.CancelRequestedAt.IsZero():
		l.end(models.AttemptCancelled, "", "")
		return true, l.change.Cancelled()
	}
	l.end(models.AttemptFailed, models.FailTimeout, why)
	return true, l.failed(ctx, r.Catalogue.Current(), Failure{Class: models.FailTimeout, Message: why})
}

// overdue returns why the attempt must end now, or "".
func (l *lockedLease) overdue() string {
	now, limit := l.change.Now, time.Duration(l.job.TimeoutSeconds)*time.Second
	switch {
	case !l.job.CancelRequestedAt.IsZero() && now.Sub(l.job.CancelRequestedAt) > agentGrace:
		return "its worker went on after it was cancelled"
	case !l.attempt.StartedAt.IsZero() && now.Sub(l.attempt.StartedAt) > limit+agentGrace:
		return fmt.Sprintf("the attempt took longer than its %s", limit)
	case l.job.Progress.Phase == models.PhaseRendering && now.Sub(l.job.Progress.UpdatedAt) > stallLimit+agentGrace:
		return fmt.Sprintf("the render showed no progress for %s", stallLimit)
	}
	return ""
}
