package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

const (
	// stallLimit is how long a render may show no progress.
	stallLimit = 5 * time.Minute
	// agentGrace is how much longer than the agent the server waits before it ends an attempt
	// that took too long, stalled, or was cancelled. The agent ends it more cleanly.
	agentGrace = time.Minute
)

// Overdue ends the attempts that their agents should have ended: those that exceed their
// timeout, show no progress for five minutes, or go on long after a cancel. It returns how
// many it ended. Any number of processes may call it at once.
func (r *Reaper) Overdue(ctx context.Context) (int, error) {
	away, err := getOutage(ctx, r.DB)
	if err != nil {
		return 0, err
	}
	overdue, err := models.ListOverdueAttempts(ctx, r.DB, stallLimit, agentGrace, reapBatch)
	if err != nil {
		return 0, fmt.Errorf("find overdue attempts: %w", err)
	}
	var ended int
	var failed []error
	for _, attempt := range overdue {
		if away.excuses(attempt.LastHeartbeatAt, LeaseTTL) {
			continue
		}
		done, err := r.overdue(ctx, attempt)
		if err != nil {
			failed = append(failed, fmt.Errorf("end overdue attempt %s: %w", attempt.ID, err))
			continue
		}
		if done != nil {
			ended++
			r.Notifier.After(ctx, done)
			slog.WarnContext(ctx, "overdue attempt ended", "job", attempt.JobID, "attempt", attempt.ID, "worker", attempt.WorkerID)
		}
	}
	return ended, errors.Join(failed...)
}

func (r *Reaper) overdue(ctx context.Context, attempt *models.Attempt) (done *Change, err error) {
	err = InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) error {
		done = nil
		l, err := lockHeld(ctx, tx, attempt)
		if errors.Is(err, apierror.ErrLeaseLost) {
			return nil // it ended meanwhile
		}
		if err != nil {
			return err
		}
		why := l.overdue()
		switch {
		case why == "":
			return nil
		case !l.job.CancelRequestedAt.IsZero():
			l.end(models.AttemptCancelled, "", "")
			err = l.change.cancelled()
		default:
			l.end(models.AttemptFailed, models.FailTimeout, why)
			err = l.failed(ctx, r.Catalogue.Current(), Failure{Class: models.FailTimeout, Message: why})
		}
		if err != nil {
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

// overdue returns why the attempt must end now, or "" if it need not.
func (l *held) overdue() string {
	now, limit := l.change.now, time.Duration(l.job.TimeoutSeconds)*time.Second
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
