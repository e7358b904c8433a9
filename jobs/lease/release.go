package lease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// YieldWithin is how long an attempt may take to yield once it was asked to. After that the request
// is void, and the attempt continues.
const YieldWithin = 2 * time.Minute

// Release requeues a job at once, for PREEMPTED or WORKER_LOST, or for YIELDED if the attempt was
// asked to yield. The job keeps its old place and its newest checkpoint, and no failure is counted. A job that its hosted
// provider did not take, whose circuit is open now, waits for a while instead, so that other jobs try.
// Calling Release again with the same token returns the same answer.
func (h *Attempts) Release(ctx context.Context, p jobs.Principal, f Fence, reason models.FailureClass) (*models.Job, error) {
	job, err := h.release(ctx, p, f, reason)
	return job, apierror.Wrap(err, "release attempt %s", f.AttemptID)
}

func (h *Attempts) release(ctx context.Context, p jobs.Principal, f Fence, reason models.FailureClass) (*models.Job, error) {
	attempt, err := f.find(ctx, h.DB, p)
	if err != nil {
		return nil, err
	}
	if !attempt.EndedAt.IsZero() {
		return h.releasedBefore(ctx, p, f)
	}
	if err := mayRelease(attempt, reason); err != nil {
		return nil, err
	}
	l, err := h.finish(ctx, &fencedCall{p: p, fence: f, act: func(ctx context.Context, l *lockedLease) error {
		return l.release(ctx, reason)
	}})
	if errors.Is(err, apierror.ErrLeaseLost) {
		return h.releasedBefore(ctx, p, f)
	}
	if err != nil {
		return nil, err
	}
	if o := h.Leaser.Notifier.Observer; o != nil && l.attempt.FailureClass == models.FailYielded {
		o.Yielded(l.attempt.YieldTo, l.job, l.attempt.WastedGPUSeconds)
	}
	return l.job, nil
}

func mayRelease(attempt *models.Attempt, reason models.FailureClass) error {
	switch {
	case reason == models.FailYielded && attempt.YieldRequestedAt.IsZero():
		return apierror.Invalid("reason", "This attempt was not asked to yield: release it for PREEMPTED or WORKER_LOST.")
	case reason != models.FailPreempted && reason != models.FailWorkerLost && reason != models.FailYielded:
		return apierror.Invalid("reason", "reason must be PREEMPTED, WORKER_LOST or YIELDED; use failJob for %s.", reason)
	}
	return nil
}

// release requeues the job, for a reason that mayRelease allows.
func (l *lockedLease) release(ctx context.Context, reason models.FailureClass) error {
	how, told := "its worker was preempted", jobs.Payload{"reason": reason}
	switch {
	case reason == models.FailYielded:
		how = "preempted by " + text.A(string(l.attempt.YieldTo)) + " job"
		told["why"] = how + " that waited past its target"
	case reason == models.FailWorkerLost:
		how = "its worker stopped"
	}
	l.end(models.AttemptReleased, reason, how)
	if reason != models.FailYielded {
		l.preempted()
		if l.worker.DrainReason != "" {
			told["why"] = l.worker.DrainReason // such as a preemption
		}
	}
	l.change.Note(models.EventReleased, told)
	wait, err := l.afterOthers(ctx)
	if err != nil {
		return err
	}
	if wait > 0 {
		return l.retryLater(models.FailProvider, "the hosted provider takes no jobs now, and other jobs try first", wait)
	}
	return l.requeue(how + "; requeued")
}

const (
	// behindFor is how long a job that its hosted provider did not take lets other jobs try, twice as long after each
	// such attempt, up to behindMost.
	behindFor  = time.Minute
	behindMost = 15 * time.Minute
)

// afterOthers returns how long a released job waits because the circuit of its hosted provider is open: until the provider
// is tried again, and longer, so that the one trial is another job's. The job can be the cause, such as with a model
// that the key may not use, and would be the trial for ever. It returns 0 for other jobs.
func (l *lockedLease) afterOthers(ctx context.Context) (time.Duration, error) {
	if l.worker.Provider != engine.Provider || l.job.HasHandle() || l.job.AtMostOnce {
		return 0, nil
	}
	account, err := capacity.GetProviderAccount(ctx, l.change.Tx, l.worker.PoolID)
	if errors.Is(err, sql.ErrNoRows) || err == nil && account.OpenSince.IsZero() {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the account at the provider: %w", err)
	}
	attempts, err := models.ListAttempts(ctx, l.change.Tx, []models.JobID{l.job.ID})
	if err != nil {
		return 0, fmt.Errorf("list the attempts of job %s: %w", l.job.ID, err)
	}
	wait := behindFor
	for _, a := range slices.Backward(attempts) {
		if a.ID == l.attempt.ID {
			continue
		}
		if a.Run != l.attempt.Run || a.Status != models.AttemptReleased || wait >= behindMost {
			break
		}
		wait *= 2
	}
	return max(account.OpenUntil.Sub(l.change.Now), 0) + min(wait, behindMost), nil
}

func (h *Attempts) releasedBefore(ctx context.Context, p jobs.Principal, f Fence) (*models.Job, error) {
	end, err := h.again(ctx, p, f, models.AttemptReleased, false)
	if err != nil {
		return nil, err
	}
	return end.Job, nil
}
