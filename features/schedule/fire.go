package schedule

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/schedules"
	"github.com/uptrace/bun"
)

// Runner fires schedules.
type Runner struct {
	DB        *bun.DB
	Submitter *submit.Submitter
	Canceller *operate.Canceller
	Workflows *workflow.Workflows
	Sealer    *seal.Sealer
	// Observe receives each slot that has ended, if it is not nil, and how much later than its
	// time, with the jitter.
	Observe func(slot *schedules.Slot, lag time.Duration)
}

const (
	// lookEvery is how often more slots are looked for while some are under way, and the least time
	// that a slot waits for another one.
	lookEvery = 250 * time.Millisecond
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
	// backfillWait is how often a slot of a backfill looks whether the run before it has ended, and
	// maxBackfillWait how often at least.
	backfillWait    = 2 * time.Second
	maxBackfillWait = time.Minute
	// backfillKept is for how long a slot of a backfill is tried.
	backfillKept = 7 * 24 * time.Hour
)

const (
	// slotsKept is how long the slots that ended are kept.
	slotsKept = 90 * 24 * time.Hour
	// slotsSweep bounds the slots that one call of Forget deletes.
	slotsSweep = 5000
)

// Forget deletes slots that ended long ago, and returns how many. One call has a limit.
func (r *Runner) Forget(ctx context.Context) (int, error) {
	n, err := schedules.DeleteOldSlots(ctx, r.DB, slotsKept, slotsSweep)
	return n, apierror.Wrap(err, "delete old slots")
}

// fire submits what a pending slot stands for, and reports whether the slot has ended.
func (r *Runner) fire(ctx context.Context, slot *schedules.Slot) (bool, error) {
	s, err := schedules.GetSchedule(ctx, r.DB, slot.ScheduleID)
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
	return r.end(ctx, s, slot, schedules.SlotFired, "")
}

// submit submits the request of a schedule for a slot. The key makes it unique, also if two
// processes submit it.
func (r *Runner) submit(ctx context.Context, s *schedules.Schedule, slot *schedules.Slot) error {
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
func (r *Runner) submitted(ctx context.Context, s *schedules.Schedule, slot *schedules.Slot) (bool, error) {
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
	_, err := r.end(ctx, s, slot, schedules.SlotFired, "")
	return err == nil, err
}

// submitter is as whom a schedule submits.
func submitter(s *schedules.Schedule) jobs.Principal {
	return jobs.Principal{Role: access.RoleClient, AccountID: s.AccountID, KeyID: s.CreatedBy}
}

// key is the idempotency key of what a slot submits.
func key(slot *schedules.Slot) string {
	return fmt.Sprintf("%s/%s", slot.ScheduleID, slot.At.UTC().Format(time.RFC3339Nano))
}

// clear applies the rules of a pause and of overlaps. It reports whether the slot may fire now.
// If not, the slot has ended, or waits for the one before it.
func (r *Runner) clear(ctx context.Context, s *schedules.Schedule, slot *schedules.Slot) (clear, ended bool, err error) {
	switch {
	case timed(slot) && s.Paused():
		ended, err = r.leave(ctx, s, slot, schedules.LeftPaused, "the schedule was paused")
		return false, ended, err
	case s.Overlap == schedules.RunOverlapAllow:
		return true, false, nil
	case slot.Cause == schedules.SlotBackfill:
		clear, err = r.clearBackfill(ctx, s, slot)
		return clear, false, err
	}
	if clear, ended, err := r.besideBackfill(ctx, s, slot); err != nil || !clear {
		return false, ended, err
	}
	open, err := schedules.ListOpenRuns(ctx, r.DB, s.ID, slot.At, maxOpenRuns)
	if err != nil || len(open) == 0 {
		return err == nil, false, err
	}
	if i := slices.IndexFunc(open, schedules.OpenRun.Pending); i >= 0 && timed(slot) {
		// It is not known yet whether what that slot submits will run beside this one's.
		slot.Reason = fmt.Sprintf("it waits for the slot of %s", text.Moment(open[i].At.UTC(), time.Now()))
		return false, false, schedules.DelaySlot(ctx, r.DB, slot, max(open[i].Wait, lookEvery))
	}
	for _, run := range slices.Backward(open) {
		switch {
		case run.Pending():
		case s.Overlap == schedules.RunOverlapSkip:
			ended, err = r.leave(ctx, s, slot, schedules.LeftOverlap, fmt.Sprintf("%s of an earlier slot had not ended; overlap is SKIP", name(run)))
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

// clearBackfill reports whether a slot of a backfill may fire now: the slots of a schedule whose runs are
// not to overlap fire one after the other, and wait for what its times submit.
func (r *Runner) clearBackfill(ctx context.Context, s *schedules.Schedule, slot *schedules.Slot) (bool, error) {
	before, err := schedules.CountEarlierBackfills(ctx, r.DB, s.ID, slot.At)
	if err != nil {
		return false, err
	}
	if before > 0 {
		slot.Reason = fmt.Sprintf("it waits for %s of a backfill before it; overlap is %s", text.Count(before, "slot"), s.Overlap)
		return false, schedules.DelaySlot(ctx, r.DB, slot, min(time.Duration(before)*backfillWait, maxBackfillWait))
	}
	open, err := schedules.ListOpenBackfills(ctx, r.DB, s.ID, maxOpenRuns)
	if err != nil {
		return false, err
	}
	timely, err := schedules.ListOpenRuns(ctx, r.DB, s.ID, schedules.EndOfTime, maxOpenRuns)
	if open = append(open, timely...); err != nil || len(open) == 0 {
		return err == nil, err
	}
	slot.Reason = fmt.Sprintf("it waits for %s; overlap is %s", name(open[0]), s.Overlap)
	return false, schedules.DelaySlot(ctx, r.DB, slot, backfillWait)
}

// besideBackfill reports whether a slot that is not one of a backfill may fire now with respect to
// backfills. A run of the present neither ends nor is left out because of one: it waits. A fire by hand
// does not wait.
func (r *Runner) besideBackfill(ctx context.Context, s *schedules.Schedule, slot *schedules.Slot) (clear, ended bool, err error) {
	open, err := schedules.ListOpenBackfills(ctx, r.DB, s.ID, maxOpenRuns)
	if err != nil || len(open) == 0 {
		return err == nil, false, err
	}
	if !timed(slot) {
		ended, err = r.leave(ctx, s, slot, schedules.LeftOverlap, fmt.Sprintf("%s of a backfill had not ended; overlap is %s", name(open[0]),
			s.Overlap))
		return false, ended, err
	}
	slot.Reason = fmt.Sprintf("it waits for %s of a backfill; overlap is %s", name(open[0]), s.Overlap)
	return false, false, schedules.DelaySlot(ctx, r.DB, slot, backfillWait)
}

// name names what an open run is, for people.
func name(run schedules.OpenRun) string {
	if run.Pending() {
		return "the slot of " + text.Moment(run.At.UTC(), time.Now())
	}
	if run.WorkflowID != "" {
		return "workflow " + string(run.WorkflowID)
	}
	return "job " + string(run.JobID)
}

// cancel cancels what an earlier slot submitted, since the schedule fired again.
func (r *Runner) cancel(ctx context.Context, s *schedules.Schedule, run schedules.OpenRun) (err error) {
	reason := "the schedule " + s.Name + " fired again"
	if run.WorkflowID != "" {
		_, err = r.Workflows.Cancel(ctx, submitter(s), run.WorkflowID, reason)
	} else {
		_, err = r.Canceller.CancelFor(ctx, submitter(s), run.JobID, reason)
	}
	return err
}

// timed reports whether a slot fires because of its time, not by hand.
func timed(slot *schedules.Slot) bool {
	return slot.Cause == schedules.SlotCron || slot.Cause == schedules.SlotCatchUp
}

// end writes the final state of a slot, and reports whether it did: another process may have ended
// it before.
func (r *Runner) end(ctx context.Context, s *schedules.Schedule, slot *schedules.Slot, state schedules.SlotState,
	reason string) (bool, error) {
	slot.State, slot.Reason = state, reason
	ended, err := schedules.EndSlot(ctx, r.DB, slot)
	if ended {
		r.observe(s, slot)
	}
	return ended, err
}

// leave is end for a slot that is left out.
func (r *Runner) leave(ctx context.Context, s *schedules.Schedule, slot *schedules.Slot, why schedules.LeftOut,
	reason string) (bool, error) {
	slot.LeftOut = why
	state := schedules.SlotSkipped
	if why == schedules.LeftRefused || why == schedules.LeftGivenUp {
		state = schedules.SlotRefused
	}
	return r.end(ctx, s, slot, state, reason)
}

func (r *Runner) observe(s *schedules.Schedule, slot *schedules.Slot) {
	if r.Observe != nil {
		r.Observe(slot, slot.EndedAt.Sub(slot.At)-jitter(s, slot.At))
	}
}

// refused ends a slot whose request was refused, or lets it wait if the refusal is about now only.
func (r *Runner) refused(ctx context.Context, s *schedules.Schedule, slot *schedules.Slot, why *apierror.Error) (bool, error) {
	switch why.Code {
	case apierror.CodeIdempotencyConflict: // what the schedule submitted before it was changed is there by now
		if known, err := r.submitted(ctx, s, slot); err != nil || known {
			return known, err
		}
	case apierror.CodeRateLimited, apierror.CodeQuotaExceeded, apierror.CodeBudgetExceeded, apierror.CodeOverloaded, apierror.CodeUnavailable:
		gaveUp, err := r.givesUp(ctx, s, slot)
		switch {
		case err != nil:
			return false, err
		case gaveUp == "":
			wait := refusedWait
			if why.RetryAfterSeconds > 0 {
				wait = time.Duration(why.RetryAfterSeconds) * time.Second
			}
			slot.Reason = why.Message
			return false, schedules.DelaySlot(ctx, r.DB, slot, min(wait<<min(max(slot.Tries-1, 0), 6), maxRefusedWait))
		case slot.Cause != schedules.SlotTrigger:
			return r.leave(ctx, s, slot, schedules.LeftGivenUp, fmt.Sprintf("%s Given up after %s: %s.", why.Message,
				text.Count(slot.Tries, "attempt"),
				gaveUp))
		}
	}
	return r.leave(ctx, s, slot, schedules.LeftRefused, why.Message)
}

// givesUp returns why a slot that cannot be submitted now is not tried again, by the rule for late slots, or
// "". Thus the waiting slots of a full account stay few.
func (r *Runner) givesUp(ctx context.Context, s *schedules.Schedule, slot *schedules.Slot) (string, error) {
	now, err := postgres.Now(ctx, r.DB)
	if err != nil {
		return "", err
	}
	from, within, rule := slot.At.Add(jitter(s, slot.At)), max(time.Duration(s.CatchUpWindowSeconds)*time.Second, time.Minute),
		"catchUpWindowSeconds"
	switch {
	case slot.Cause == schedules.SlotTrigger:
		return "it was fired by hand", nil
	case slot.Cause == schedules.SlotBackfill:
		from, within, rule = slot.DecidedAt, backfillKept, "the limit of a backfill"
	case s.CatchUp == schedules.CatchUpSkip:
		within, rule = min(within, late), "catchUp is SKIP"
	case s.CatchUp == schedules.CatchUpCoalesce:
		if later, err := schedules.HasLaterSlot(ctx, r.DB, s.ID, slot.At); err != nil || later {
			return "a later slot has come, and catchUp is COALESCE", err
		}
	}
	if now.Sub(from) < within {
		return "", nil
	}
	return fmt.Sprintf("it is %s late (%s)", text.Duration(now.Sub(from).Truncate(time.Second)), rule), nil
}

// failed ends a slot that failed too often because of internal errors.
func (r *Runner) failed(ctx context.Context, s *schedules.Schedule, slot *schedules.Slot, err error) (bool, error) {
	if slot.Tries < maxTries || postgres.IsOutage(err) || ctx.Err() != nil {
		return false, err
	}
	ended, also := r.leave(ctx, s, slot, schedules.LeftRefused, "an internal error occurred: the log of control has it")
	return ended, errors.Join(err, also)
}
