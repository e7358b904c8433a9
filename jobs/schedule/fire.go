package schedule

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/seal"
	"github.com/reelay/reelay/jobs/workflow"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"
)

// Runner fires schedules.
type Runner struct {
	DB        *bun.DB
	Submitter *jobs.Submitter
	Canceller *jobs.Canceller
	Workflows *workflow.Workflows
	Sealer    *seal.Sealer
	// Observe receives each slot that has ended, if it is not nil, and how much later than its
	// time, with the jitter.
	Observe func(slot *models.ScheduleSlot, lag time.Duration)
}

const (
	// Every is how often a process looks for what is due.
	Every = 250 * time.Millisecond
	// fireBatch is how many slots a process fires at once.
	fireBatch = 100
	// fireTogether is how many of them it submits concurrently. The submitter batches them.
	fireTogether = 16
	// fireAgain is how long a slot belongs to the process that took it. After that, another one
	// submits; since the slot is the idempotency key, at worst again.
	fireAgain = 3 * time.Second
	// maxTries bounds how often a slot fails for an internal reason.
	maxTries = 20
	// maxOpenRuns is how many of the newest runs the rule for overlaps looks at.
	maxOpenRuns = 20
	// refusedWait is how long a slot waits after a refusal that names no time. Each further one
	// doubles the wait, up to maxRefusedWait.
	refusedWait    = 10 * time.Second
	maxRefusedWait = 10 * time.Minute
)

// Pass decides on and fires what is due.
func (r *Runner) Pass(ctx context.Context) error {
	_, err := r.Decide(ctx)
	_, also := r.Fire(ctx)
	return errors.Join(err, also)
}

const (
	// slotsKept is how long the slots that ended are kept.
	slotsKept = 90 * 24 * time.Hour
	// slotsSweep bounds the slots that one call of Forget deletes.
	slotsSweep = 5000
)

// Forget deletes slots that ended long ago, and returns how many. One call has a limit.
func (r *Runner) Forget(ctx context.Context) (int, error) {
	n, err := models.DeleteOldSlots(ctx, r.DB, slotsKept, slotsSweep)
	return n, apierror.Wrap(err, "delete old slots")
}

// Fire submits what the slots that are due stand for, and returns how many slots it ended. Any
// number of processes may call it at once. A slot that fails is due again later, and does not
// delay the others.
func (r *Runner) Fire(ctx context.Context) (int, error) {
	total, failed := 0, error(nil)
	for {
		taken, err := models.TakeDueSlots(ctx, r.DB, fireBatch, fireAgain)
		if err != nil {
			return total, errors.Join(failed, fmt.Errorf("find slots that are due: %w", err))
		}
		ended, err := r.fireAll(ctx, taken)
		total, failed = total+ended, cmp.Or(failed, err)
		if len(taken) < fireBatch || models.IsOutage(err) || ctx.Err() != nil {
			return total, failed
		}
	}
}

// fireAll fires slots, several at once. It returns how many have ended, and the first error.
func (r *Runner) fireAll(ctx context.Context, slots []*models.ScheduleSlot) (int, error) {
	var ended atomic.Int64
	var group errgroup.Group
	group.SetLimit(fireTogether)
	for _, slot := range slots {
		group.Go(func() error {
			done, err := r.fire(ctx, slot)
			if err != nil {
				return fmt.Errorf("fire the slot %s of schedule %s: %w", slot.At, slot.ScheduleID, err)
			}
			if done {
				ended.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return int(ended.Load()), err
}

// fire submits what a pending slot stands for, and reports whether the slot has ended.
func (r *Runner) fire(ctx context.Context, slot *models.ScheduleSlot) (bool, error) {
	s, err := models.GetSchedule(ctx, r.DB, slot.ScheduleID)
	if errors.Is(err, sql.ErrNoRows) { // its slots are gone, too
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if slot.Tries > 1 {
		if known, err := r.submitted(ctx, s, slot); err != nil || known {
			return known, err
		}
	}
	if clear, ended, err := r.clear(ctx, s, slot); err != nil || !clear {
		return ended, err
	}
	err = r.submit(ctx, s, slot)
	var refused *apierror.Error
	switch {
	case errors.As(err, &refused):
		return r.refused(ctx, s, slot, refused)
	case err != nil:
		return r.failed(ctx, s, slot, err)
	}
	return r.end(ctx, s, slot, models.SlotFired, "")
}

// submit submits the request of a schedule for a slot. The key makes it unique, also if two
// processes submit it.
func (r *Runner) submit(ctx context.Context, s *models.Schedule, slot *models.ScheduleSlot) error {
	request, err := r.RequestOf(ctx, s)
	if err != nil {
		return err
	}
	if request.Workflow != nil {
		request.Workflow.IdempotencyKey = new(key(slot))
		made, _, err := r.Workflows.Submit(ctx, submitter(s), *request.Workflow)
		if err == nil {
			slot.WorkflowID = made.ID
		}
		return err
	}
	request.Job.IdempotencyKey = new(key(slot))
	job, _, err := r.Submitter.Submit(ctx, submitter(s), *request.Job)
	if err == nil {
		slot.JobID = job.ID
	}
	return err
}

// submitted ends a slot that another process submitted and has not ended, since it is slow or was
// killed, whatever became of the schedule since. It reports whether one did.
func (r *Runner) submitted(ctx context.Context, s *models.Schedule, slot *models.ScheduleSlot) (bool, error) {
	if s.Workflow != "" {
		found, err := models.FindWorkflowByKey(ctx, r.DB, s.AccountID, key(slot))
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		slot.WorkflowID = found.ID
	} else {
		found, err := models.FindJobsByKeys(ctx, r.DB, []models.JobKey{{Account: s.AccountID, Key: key(slot)}})
		if err != nil || len(found) == 0 {
			return false, err
		}
		slot.JobID = found[0].ID
	}
	_, err := r.end(ctx, s, slot, models.SlotFired, "")
	return err == nil, err
}

// submitter is as whom a schedule submits.
func submitter(s *models.Schedule) jobs.Principal {
	return jobs.Principal{Role: models.RoleClient, AccountID: s.AccountID, KeyID: s.CreatedBy}
}

// key is the idempotency key of what a slot submits.
func key(slot *models.ScheduleSlot) string {
	return fmt.Sprintf("%s/%s", slot.ScheduleID, slot.At.UTC().Format(time.RFC3339Nano))
}

// clear applies the rules of a pause and of overlaps. It reports whether the slot may fire now.
// If not, the slot has ended, or waits for the one before it.
func (r *Runner) clear(ctx context.Context, s *models.Schedule, slot *models.ScheduleSlot) (clear, ended bool, err error) {
	switch {
	case timed(slot) && s.Paused():
		ended, err = r.end(ctx, s, slot, models.SlotSkipped, "the schedule was paused")
		return false, ended, err
	case slot.Cause == models.SlotBackfill || s.Overlap == models.RunOverlapAllow:
		return true, false, nil
	}
	open, err := models.ListOpenRuns(ctx, r.DB, s.ID, slot.At, maxOpenRuns)
	if err != nil || len(open) == 0 {
		return err == nil, false, err
	}
	if i := slices.IndexFunc(open, models.OpenRun.Pending); i >= 0 && timed(slot) {
		// It is not known yet whether what that slot submits will run beside this one's.
		slot.Reason = fmt.Sprintf("it waits for the slot of %s", open[i].At.UTC().Format(time.RFC3339))
		return false, false, models.DelaySlot(ctx, r.DB, slot, max(open[i].Wait, Every))
	}
	for _, run := range slices.Backward(open) {
		switch {
		case run.Pending():
		case s.Overlap == models.RunOverlapSkip:
			ended, err = r.end(ctx, s, slot, models.SlotSkipped, fmt.Sprintf("%s of an earlier slot had not ended; overlap is SKIP", name(run)))
			return false, ended, err
		default:
			err := r.cancel(ctx, s, run)
			if err != nil && !apierror.HasCode(err, apierror.CodeConflict) && !apierror.HasCode(err, apierror.CodeNotFound) {
				return false, false, err
			}
		}
	}
	return true, false, nil
}

// name names what an open run is, for people.
func name(run models.OpenRun) string {
	if run.WorkflowID != "" {
		return "workflow " + string(run.WorkflowID)
	}
	return "job " + string(run.JobID)
}

// cancel cancels what an earlier slot submitted, since the schedule fired again.
func (r *Runner) cancel(ctx context.Context, s *models.Schedule, run models.OpenRun) (err error) {
	reason := "the schedule " + s.Name + " fired again"
	if run.WorkflowID != "" {
		_, err = r.Workflows.Cancel(ctx, submitter(s), run.WorkflowID, reason)
	} else {
		_, err = r.Canceller.CancelFor(ctx, submitter(s), run.JobID, reason)
	}
	return err
}

// timed reports whether a slot fires because of its time, not by hand.
func timed(slot *models.ScheduleSlot) bool {
	return slot.Cause == models.SlotCron || slot.Cause == models.SlotCatchUp
}

// end writes the final state of a slot, and reports whether it did: another process may have ended
// it before.
func (r *Runner) end(ctx context.Context, s *models.Schedule, slot *models.ScheduleSlot, state models.SlotState, reason string) (bool, error) {
	slot.State, slot.Reason = state, reason
	ended, err := models.EndSlot(ctx, r.DB, slot)
	if ended {
		r.observe(s, slot)
	}
	return ended, err
}

func (r *Runner) observe(s *models.Schedule, slot *models.ScheduleSlot) {
	if r.Observe != nil {
		r.Observe(slot, slot.EndedAt.Sub(slot.At)-jitter(s, slot.At))
	}
}

// refused ends a slot whose request was refused, or lets it wait if the refusal is about now only.
func (r *Runner) refused(ctx context.Context, s *models.Schedule, slot *models.ScheduleSlot, why *apierror.Error) (bool, error) {
	switch why.Code {
	case apierror.CodeIdempotencyConflict: // what the schedule submitted before it was changed is there by now
		if known, err := r.submitted(ctx, s, slot); err != nil || known {
			return known, err
		}
	case apierror.CodeRateLimited, apierror.CodeQuotaExceeded, apierror.CodeOverloaded, apierror.CodeUnavailable:
		if again, err := r.firesLater(ctx, s, slot); err != nil || again {
			wait := refusedWait
			if why.RetryAfterSeconds > 0 {
				wait = time.Duration(why.RetryAfterSeconds) * time.Second
			}
			slot.Reason = why.Message
			return false, cmp.Or(err, models.DelaySlot(ctx, r.DB, slot, min(wait<<min(max(slot.Tries-1, 0), 6), maxRefusedWait)))
		}
	}
	return r.end(ctx, s, slot, models.SlotRefused, why.Message)
}

// firesLater reports whether a slot that cannot fire now is tried again, by the rule for late
// slots. Thus the waiting slots of a full account stay few.
func (r *Runner) firesLater(ctx context.Context, s *models.Schedule, slot *models.ScheduleSlot) (bool, error) {
	if !timed(slot) {
		return slot.Cause == models.SlotBackfill, nil
	}
	now, err := models.Now(ctx, r.DB)
	if err != nil {
		return false, err
	}
	within := max(time.Duration(s.CatchUpWindowSeconds)*time.Second, time.Minute)
	switch s.CatchUp {
	case models.CatchUpSkip:
		within = min(within, late)
	case models.CatchUpCoalesce:
		if later, err := models.HasLaterSlot(ctx, r.DB, s.ID, slot.At); err != nil || later {
			return false, err
		}
	}
	return now.Sub(slot.At) < within, nil
}

// failed ends a slot that failed too often because of internal errors.
func (r *Runner) failed(ctx context.Context, s *models.Schedule, slot *models.ScheduleSlot, err error) (bool, error) {
	if slot.Tries < maxTries || models.IsOutage(err) || ctx.Err() != nil {
		return false, err
	}
	ended, also := r.end(ctx, s, slot, models.SlotRefused, "an internal error occurred: the log of control has it")
	return ended, errors.Join(err, also)
}
