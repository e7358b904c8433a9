package operate

import (
	"context"
	"fmt"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Canceller cancels jobs for their owners and for operators.
type Canceller struct {
	DB       *bun.DB
	Notifier *change.Notifier
}

// Cancel ends a waiting job at once. For a job that a worker holds, it records the request and
// notifies the worker, which learns of it with its next call at the latest. However that
// attempt ends, the job does not complete. Cancelling a cancelled job returns it. Cancel
// returns CONFLICT for a COMPLETED or FAILED job.
func (c *Canceller) Cancel(ctx context.Context, p jobs.Principal, id models.JobID) (*models.Job, error) {
	return c.CancelFor(ctx, p, id, "")
}

// MaxCancelReasonRunes bounds the reason of a cancel, in characters.
const MaxCancelReasonRunes = 200

// CancelFor is Cancel with a reason, which the job's owner, operators and the worker see. It may
// be "". The reason of the first cancel stays.
func (c *Canceller) CancelFor(ctx context.Context, p jobs.Principal, id models.JobID, reason string) (*models.Job, error) {
	if reason = strings.TrimSpace(reason); !text.Valid(reason, 0, MaxCancelReasonRunes) {
		return nil, apierror.Invalid("reason", "The reason can have up to %d printable characters.", MaxCancelReasonRunes)
	}
	if _, err := jobs.JobToChange(ctx, c.DB, p, id); err != nil {
		return nil, err
	}
	var done *change.Change
	err := change.Do(ctx, c.DB, id, func(ctx context.Context, tx bun.Tx, locked *change.Change) error {
		done = locked
		if err := p.AuditJob(ctx, tx, "cancelJob", done.Job); err != nil {
			return err
		}
		return cancelRun(ctx, done, p, reason)
	})
	if err != nil {
		return nil, apierror.Wrap(err, "cancel job %s", id)
	}
	c.Notifier.After(ctx, done)
	return done.Job, nil
}

// cancelRun asks for the end of a job and saves that.
func cancelRun(ctx context.Context, c *change.Change, p jobs.Principal, reason string) error {
	if err := askToStop(ctx, c, p, reason); err != nil || c.Job.CancelRequestedAt == c.Before.CancelRequestedAt {
		return err
	}
	return c.Save(ctx)
}

// askToStop ends a waiting job, and asks for the end of one that a worker holds, unless somebody
// has asked before.
func askToStop(ctx context.Context, c *change.Change, p jobs.Principal, reason string) error {
	job := c.Job
	switch {
	case job.Status == models.JobCompleted || job.Status == models.JobFailed:
		return apierror.Conflict("This job is %s: it is too late to cancel it.", job.Status)
	case !job.CancelRequestedAt.IsZero():
		return nil
	}
	job.CancelBy, job.CancelReason, job.CancelRequestedAt = string(p.KeyID), reason, c.Now
	if job.Status.Waiting() {
		return c.Cancelled()
	}
	attempt, err := models.GetAttempt(ctx, c.Tx, job.CurrentAttemptID)
	if err != nil {
		return fmt.Errorf("read the attempt: %w", err)
	}
	c.NotifyWorker = attempt.WorkerID
	c.Note(models.EventCancelRequested, c.CancelNote())
	job.Progress.Message = "cancelling: the worker is being told"
	return nil
}
