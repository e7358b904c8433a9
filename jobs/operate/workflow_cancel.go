package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	// cancelMost is how many jobs one transaction of a cancellation changes. Their workers wait for
	// it, and so does whatever needs their account.
	cancelMost = 50
	// cancelsLimit bounds the workflows of one pass of FinishCancels.
	cancelsLimit = 20
)

// Cancel cancels all jobs of a RUNNING workflow that have not ended: the waiting ones at once. The
// workflow is CANCELLED when the last of them has stopped. Cancelling it again returns it. Cancel
// returns CONFLICT for a workflow that is COMPLETED or FAILED.
//
// It first records the request, then cancels the jobs in parts, each in its own transaction.
// FinishCancels completes what Cancel does not.
func (w *WorkflowOperator) Cancel(ctx context.Context, p jobs.Principal, id models.WorkflowID, reason string) (*models.Workflow, error) {
	if reason = strings.TrimSpace(reason); !text.Valid(reason, 0, MaxCancelReasonRunes) {
		return nil, apierror.Invalid("reason", "The reason can have up to %d printable characters.", MaxCancelReasonRunes)
	}
	after, err := w.change(ctx, p, id, func(ctx context.Context, tx bun.Tx, seen *models.Workflow) ([]*change.Change, error) {
		locked, err := models.LockWorkflow(ctx, tx, id)
		switch {
		case err != nil:
			return nil, err
		case locked.Status == models.WorkflowCancelled || !locked.CancelRequestedAt.IsZero():
			return nil, nil
		case locked.Status != models.WorkflowRunning:
			return nil, apierror.Conflict("This workflow is %s: it is too late to cancel it.", locked.Status)
		}
		if locked.CancelRequestedAt, err = postgres.Now(ctx, tx); err != nil {
			return nil, err
		}
		locked.CancelBy, locked.CancelReason = string(p.KeyID), reason
		if err := models.SaveWorkflowCancel(ctx, tx, locked); err != nil {
			return nil, err
		}
		return nil, p.AuditOf(ctx, tx, "cancelWorkflow", locked.AccountID, string(id), jobs.Payload{"jobs": locked.Open})
	})
	if err == nil && after.Status == models.WorkflowRunning {
		if err = w.cancelNodes(ctx, after); err == nil {
			after, err = models.GetWorkflow(ctx, w.DB, id)
		}
	}
	return after, apierror.Wrap(err, "cancel workflow %s", id)
}

// cancelNodes cancels the jobs of a workflow whose cancellation was requested. Jobs come before
// those on which they depend: no end of a cancelled job changes another one of the workflow.
func (w *WorkflowOperator) cancelNodes(ctx context.Context, of *models.Workflow) error {
	left, err := models.ListUncancelled(ctx, w.DB, of.ID)
	if err != nil {
		return fmt.Errorf("find the jobs to cancel: %w", err)
	}
	for some := range slices.Chunk(left, cancelMost) {
		if err := w.cancelPart(ctx, of, some); err != nil {
			return err
		}
	}
	return nil
}

func (w *WorkflowOperator) cancelPart(ctx context.Context, of *models.Workflow, ids []models.JobID) error {
	var done []*change.Change
	err := jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		done = nil
		locked, err := models.LockUncancelled(ctx, tx, ids)
		if err != nil || len(locked) == 0 {
			return apierror.Wrap(err, "lock the jobs")
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		for _, job := range locked {
			c := change.At(tx, now, job)
			if err := askToStop(ctx, c, jobs.Principal{KeyID: models.KeyID(of.CancelBy)}, of.CancelReason); err != nil {
				return err
			}
			done = append(done, c)
		}
		return change.SaveAll(ctx, tx, done, models.Writes{})
	})
	if err != nil {
		return fmt.Errorf("cancel some of its jobs: %w", err)
	}
	w.Notifier.After(ctx, done...)
	return nil
}

// FinishCancels completes the cancellations of workflows that were cut off, and returns how many. They
// take turns, a part of each after another, so that a large one delays no small one. What ctx leaves no
// time for is left to the next call. Any number of processes may call it at once.
func (w *WorkflowOperator) FinishCancels(ctx context.Context) (int, error) {
	cut, err := models.ListCancelling(ctx, w.DB, cancelsLimit)
	if err != nil {
		return 0, fmt.Errorf("find the workflows to cancel: %w", err)
	}
	type rest struct {
		of   *models.Workflow
		jobs []models.JobID
	}
	var open []*rest
	var failed []error
	for _, one := range cut {
		left, err := models.ListUncancelled(ctx, w.DB, one.ID)
		if err != nil {
			failed = append(failed, fmt.Errorf("find the jobs of workflow %s to cancel: %w", one.ID, err))
			continue
		}
		open = append(open, &rest{one, left})
	}
	finished := 0
	for len(open) > 0 && ctx.Err() == nil {
		open = slices.DeleteFunc(open, func(r *rest) bool {
			n := min(len(r.jobs), cancelMost)
			if n == 0 {
				finished++
				return true
			}
			if err := w.cancelPart(ctx, r.of, r.jobs[:n]); err != nil {
				failed = append(failed, fmt.Errorf("cancel workflow %s: %w", r.of.ID, err))
				return true
			}
			r.jobs = r.jobs[n:]
			return false
		})
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return finished, nil
	}
	return finished, errors.Join(failed...)
}
