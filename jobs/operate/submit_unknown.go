package operate

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// SubmitDecision is what an operator decides about a submit that a hosted provider did not answer.
type SubmitDecision string

// The decisions.
const (
	PayAgain SubmitDecision = "PAY_AGAIN"
	GiveUp   SubmitDecision = "GIVE_UP"
)

// DecideSubmit ends the wait of a job whose submit a hosted provider did not answer: the job is submitted again,
// which may be paid twice, or it fails with SUBMIT_UNKNOWN. It is for operators. DecideSubmit returns CONFLICT for a
// job that does not wait for that.
func (o *QueueOperator) DecideSubmit(ctx context.Context, p jobs.Principal, id models.JobID, decision SubmitDecision) (*models.Job, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	if decision != PayAgain && decision != GiveUp {
		return nil, apierror.Invalid("decision", "decision must be PAY_AGAIN or GIVE_UP.")
	}
	var done *change.Change
	err := change.Do(ctx, o.DB, id, func(ctx context.Context, tx bun.Tx, c *change.Change) error {
		done = c
		job := c.Job
		if !job.SubmitUnknown() {
			return apierror.Conflict("This job is %s: it does not wait for a decision about a submit.", job.Status)
		}
		if err := p.AuditOf(ctx, tx, "decideSubmit", job.AccountID, string(id), jobs.Payload{"decision": decision}); err != nil {
			return err
		}
		if decision == GiveUp {
			if err := c.Failed(models.FailSubmitUnknown, fmt.Sprintf("%s An operator gave the job up.", job.FailureReason)); err != nil {
				return err
			}
			return c.Save(ctx)
		}
		job.Handle, job.FailureClass, job.FailureReason = "", "", ""
		c.Note(models.EventRequeued, jobs.Payload{"by": p.KeyID, "reason": "an operator decided to submit the job again"})
		if err := c.Queued(true); err != nil {
			return err
		}
		job.Progress.Enter(models.PhaseWaiting, "an operator decided to submit the job again", c.Now)
		return c.Save(ctx)
	})
	if err != nil {
		return nil, apierror.Wrap(err, "decide about the submit of job %s", id)
	}
	o.Notifier.After(ctx, done)
	return done.Job, nil
}
