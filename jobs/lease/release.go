package lease

import (
	"context"
	"errors"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// YieldWithin is how long an attempt may take to yield once it was asked to. After that the request
// is void, and the attempt continues.
const YieldWithin = 2 * time.Minute

// Release requeues a job at once, for PREEMPTED or WORKER_LOST, or for YIELDED if the attempt was
// asked to yield. The job keeps its old place and its newest checkpoint, and no failure is counted.
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
	l, err := h.finish(ctx, &fencedCall{p: p, fence: f, act: func(ctx context.Context, l *lockedLease) error { return l.release(reason) }})
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
func (l *lockedLease) release(reason models.FailureClass) error {
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
	return l.requeue(how + "; requeued")
}

func (h *Attempts) releasedBefore(ctx context.Context, p jobs.Principal, f Fence) (*models.Job, error) {
	end, err := h.again(ctx, p, f, models.AttemptReleased, false)
	if err != nil {
		return nil, err
	}
	return end.Job, nil
}
