package lease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

const (
	// avoidTime is how long other workers are preferred to the worker that failed a job.
	avoidTime = time.Minute
	// crashedSoon is how soon after a resume a crash makes the checkpoint suspect.
	crashedSoon = time.Minute
)

// failed decides what happens to the job of an attempt that has just ended FAILED.
func (l *lockedLease) failed(ctx context.Context, known *catalogue.Snapshot, f Failure) error {
	job, class, reason := l.job, f.Class, f.Message
	if class == models.FailSubmitUnknown {
		before := job.FailureClass
		job.FailureClass, job.FailureReason = class, reason
		return l.submitUnknown(ctx, before, reason)
	}
	job.FailureClass, job.FailureReason = class, reason
	plan := planRetry(failures{
		class: class, n: job.Failures + 1, most: job.MaxAttempts, retryAfterSeconds: f.RetryAfterSeconds, policy: job.RetryPolicy,
	}, randomJitter())
	if plan.counted {
		job.Failures++
		l.attempt.Counted = true
	}
	if class == models.FailPreempted || class == models.FailWorkerLost {
		l.preempted()
	}
	if class == models.FailModelCrash {
		if err := l.suspectCheckpoint(ctx); err != nil {
			return err
		}
		if l.crashed() {
			return l.poison(reason)
		}
	}
	if class == models.FailDefectiveResult {
		job.Handle = "" // an attempt that adopts that work gets the same video
	}
	if class == models.FailDefectiveResult && !plan.never {
		paid, err := l.paid(ctx)
		if err != nil {
			return err
		}
		again, err := l.sameDefect(ctx)
		if err != nil {
			return err
		}
		plan.never = paid || again
	}
	if job.AtMostOnce && !final(class) {
		return l.spent()
	}
	if plan.never {
		if moved, err := l.reroute(ctx, known); moved || err != nil {
			return err
		}
		return l.change.Failed(class, reason)
	}
	if class == models.FailOutOfMemory {
		l.outgrow(known)
	}
	job.AvoidWorkerID, job.AvoidUntil = l.worker.ID, l.change.Now.Add(plan.delay+avoidTime)
	if plan.delay == 0 {
		return l.requeue(fmt.Sprintf("attempt %d of %d is next; last failure: %s", job.Failures+1, job.MaxAttempts, reason))
	}
	return l.retryLater(class, reason, plan.delay)
}

// reroute moves a job whose attempts are used up to the next model of its fallback, if it has one and the failure
// is one that another model may not have. It reports whether it did.
func (l *lockedLease) reroute(ctx context.Context, known *catalogue.Snapshot) (bool, error) {
	switch l.attempt.FailureClass {
	case models.FailProvider, models.FailRateLimited, models.FailModelCrash, models.FailTransient, models.FailTimeout, models.FailOutOfMemory:
	default:
		return false, nil
	}
	routes := change.Routes(known, l.job)
	if len(routes) == 0 {
		return false, nil
	}
	reason := fmt.Sprintf("all attempts with %s failed; the last with %s: %s", l.job.Model, l.attempt.FailureClass, l.attempt.FailureReason)
	if err := l.change.Reroute(ctx, routes[0], text.Clip(reason, maxReasonBytes)); err != nil {
		return false, err
	}
	return true, l.requeue(l.job.Progress.Message)
}

// notRepeated is appended to the reason if the job would otherwise have been retried.
const notRepeated = ". The job is atMostOnce and may have started, so it is not repeated; retryJob runs it again."

// spent fails a job that runs at most once, after its attempt ended. The lease alone counts as the
// start: the worker starts the runtime before its first call arrives, so the server cannot know
// that the runtime did not start.
func (l *lockedLease) spent() error {
	why := strings.TrimSuffix(text.Clip(l.attempt.FailureReason, maxReasonBytes-len(notRepeated)), ".")
	return l.change.Failed(l.attempt.FailureClass, why+notRepeated)
}

// paid reports whether the worker's jobs are paid at a hosted provider, where one with a bad video is done once: only
// an operator pays for another.
func (l *lockedLease) paid(ctx context.Context) (bool, error) {
	_, err := capacity.GetProviderAccount(ctx, l.change.Tx, l.worker.PoolID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("read the account at the provider: %w", err)
	}
	return err == nil, nil
}

// sameDefect reports whether another attempt of this run delivered a video with the same defect.
// The job is then the cause, and a third attempt would only cost more.
func (l *lockedLease) sameDefect(ctx context.Context) (bool, error) {
	attempts, err := models.ListAttempts(ctx, l.change.Tx, []models.JobID{l.job.ID})
	if err != nil {
		return false, fmt.Errorf("list the attempts of job %s: %w", l.job.ID, err)
	}
	return slices.ContainsFunc(attempts, func(a *models.Attempt) bool {
		return a.ID != l.attempt.ID && a.Run == l.attempt.Run && a.FailureClass == models.FailDefectiveResult &&
			defect(a.FailureReason) == defect(l.attempt.FailureReason)
	}), nil
}

// defect returns what is wrong with a video: the beginning of a reason such as
// "BLACK: 100 % of the frames are black".
func defect(reason string) string {
	code, _, _ := strings.Cut(reason, ":")
	return change.Cause(code)
}

// retryLater schedules the next attempt.
func (l *lockedLease) retryLater(class models.FailureClass, reason string, delay time.Duration) error {
	job := l.job
	job.RunAt = l.change.Now.Add(delay)
	l.change.Note(models.EventRetryScheduled, jobs.Payload{
		"class": class, "reason": reason, "failures": job.Failures, "runAt": job.RunAt.UTC().Format(time.RFC3339Nano),
	})
	job.CurrentAttemptID = ""
	job.Progress.Enter(models.PhaseWaiting, fmt.Sprintf("attempt %d of %d starts at %s; last failure: %s",
		job.Failures+1, job.MaxAttempts, text.MomentToSecond(job.RunAt.UTC(), l.change.Now), reason), l.change.Now)
	return l.change.Move(models.JobScheduled)
}

// suspectCheckpoint rejects the newest checkpoint if the attempt crashed soon after it resumed
// from it. The next attempt resumes from the checkpoint before.
func (l *lockedLease) suspectCheckpoint(ctx context.Context) error {
	a := l.attempt
	if a.ResumedFromStep == nil || a.CheckpointID != "" || l.job.LatestCheckpointID == "" || l.change.Now.Sub(a.StartedAt) > crashedSoon {
		return nil
	}
	return l.rejectCheckpoint(ctx, l.job.LatestCheckpointID, "its runtime crashed soon after it resumed from this checkpoint")
}

// rejectCheckpoint rejects a checkpoint. The newest remaining one replaces it.
func (l *lockedLease) rejectCheckpoint(ctx context.Context, id models.ArtifactID, reason string) error {
	if err := models.RejectCheckpoint(ctx, l.change.Tx, l.job.ID, id); err != nil {
		return apierror.OrNotFound(err, "checkpoint")
	}
	left, err := models.ListCheckpoints(ctx, l.change.Tx, l.job.ID, 1)
	if err != nil {
		return err
	}
	l.job.LatestCheckpointID = ""
	if len(left) > 0 {
		l.job.LatestCheckpointID = left[0].ID
	}
	l.change.Note(models.EventProgress, jobs.Payload{
		"class": models.FailCheckpointCorrupt, "artifact": id, "reason": text.Clip(text.Printable(reason), maxReasonBytes),
	})
	return nil
}

// outgrow moves a job that ran out of memory to the next larger GPU type that its model lists, if
// there is one.
func (l *lockedLease) outgrow(known *catalogue.Snapshot) {
	model := known.At(l.job.Model, l.job.ModelVersion)
	if model == nil {
		return // no longer in the catalogue: keep the GPU type
	}
	if rank := slices.Index(model.GPUTypes, l.worker.GPUType) + 1; rank > l.job.GPURank && rank < len(model.GPUTypes) {
		l.job.GPURank = rank
	}
}
