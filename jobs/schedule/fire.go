package schedule

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/seal"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"
)

// Runner fires schedules.
type Runner struct {
	DB        *bun.DB
	Submitter *jobs.Submitter
	Canceller *jobs.Canceller
	Sealer    *seal.Sealer
}

const (
	// Every is how often a process looks for what is due.
	Every = 250 * time.Millisecond
	// fireBatch is how many slots a process fires at once.
	fireBatch = 100
	// fireTogether is how many of them it submits concurrently. The submitter batches them.
	fireTogether = 16
	// fireAgain is how long a slot belongs to the process that took it. After that, another one
	// submits its job; since the slot is the job's idempotency key, at worst again.
	fireAgain = 3 * time.Second
	// maxTries bounds how often a slot fails for an internal reason.
	maxTries = 20
	// maxOpenRuns is how many of the newest runs the rule for overlaps looks at.
	maxOpenRuns = 20
	// refusedWait is how long a slot waits after a refusal that names no time.
	refusedWait = 10 * time.Second
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

// Fire submits the jobs of the slots that are due, and returns how many slots it ended. Any
// number of processes may call it at once.
func (r *Runner) Fire(ctx context.Context) (int, error) {
	total := 0
	for {
		taken, err := models.TakeDueSlots(ctx, r.DB, fireBatch, fireAgain)
		if err != nil {
			return total, fmt.Errorf("find slots that are due: %w", err)
		}
		ended := make([]bool, len(taken))
		group, within := errgroup.WithContext(ctx)
		group.SetLimit(fireTogether)
		for i, slot := range taken {
			group.Go(func() (err error) {
				if ended[i], err = r.fire(within, slot); err != nil {
					return fmt.Errorf("fire the slot %s of schedule %s: %w", slot.At, slot.ScheduleID, err)
				}
				return nil
			})
		}
		err = group.Wait()
		for _, done := range ended {
			if done {
				total++
			}
		}
		if err != nil || len(taken) < fireBatch {
			return total, err
		}
	}
}

// fire submits the job of a pending slot, and reports whether the slot has ended.
func (r *Runner) fire(ctx context.Context, slot *models.ScheduleSlot) (bool, error) {
	s, err := models.GetSchedule(ctx, r.DB, slot.ScheduleID)
	if errors.Is(err, sql.ErrNoRows) { // its slots are gone, too
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if skip, err := r.mustSkip(ctx, s, slot); err != nil || skip != "" {
		return r.end(ctx, slot, models.SlotSkipped, skip, err)
	}
	in, err := Template(r.Sealer, s)
	if err != nil {
		return r.failed(ctx, slot, err)
	}
	job, _, err := r.Submitter.Submit(ctx, submitter(s), slotted(in, slot))
	var refused *apierror.Error
	switch {
	case errors.As(err, &refused):
		return r.refused(ctx, s, slot, refused)
	case err != nil:
		return r.failed(ctx, slot, err)
	}
	slot.JobID = job.ID
	return r.end(ctx, slot, models.SlotFired, "", nil)
}

// submitter is as whom a schedule submits.
func submitter(s *models.Schedule) jobs.Principal {
	return jobs.Principal{Role: models.RoleClient, AccountID: s.AccountID, KeyID: s.CreatedBy}
}

// slotted is a schedule's submission for a slot. The key makes it unique, also if two processes
// submit it.
func slotted(in jobs.Submission, slot *models.ScheduleSlot) jobs.Submission {
	in.IdempotencyKey = new(fmt.Sprintf("%s/%s", slot.ScheduleID, slot.At.UTC().Format(time.RFC3339Nano)))
	return in
}

// mustSkip applies the rules of a pause and of overlaps. It returns why the slot must be
// skipped, or "".
func (r *Runner) mustSkip(ctx context.Context, s *models.Schedule, slot *models.ScheduleSlot) (string, error) {
	timed := slot.Cause == models.SlotCron || slot.Cause == models.SlotCatchUp
	switch {
	case timed && !s.PausedAt.IsZero():
		return "the schedule was paused", nil
	case slot.Cause == models.SlotBackfill || s.Overlap == models.RunOverlapAllow:
		return "", nil
	}
	open, err := models.ListOpenRuns(ctx, r.DB, s.ID, slot.At, maxOpenRuns)
	if err != nil || len(open) == 0 {
		return "", err
	}
	if s.Overlap == models.RunOverlapSkip {
		return fmt.Sprintf("job %s of an earlier slot had not ended; overlap is SKIP", open[len(open)-1]), nil
	}
	for _, id := range open {
		_, err := r.Canceller.CancelFor(ctx, submitter(s), id, "the schedule "+s.Name+" fired again")
		if err != nil && !apierror.HasCode(err, apierror.CodeConflict) && !apierror.HasCode(err, apierror.CodeNotFound) {
			return "", err
		}
	}
	return "", nil
}

// end writes the final state of a slot, unless err is set. It reports whether the slot was pending.
func (r *Runner) end(ctx context.Context, slot *models.ScheduleSlot, state models.SlotState, reason string, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	slot.State, slot.Reason = state, reason
	return models.EndSlot(ctx, r.DB, slot)
}

// refused ends a slot whose job was refused, or lets it wait if the refusal is about now only.
func (r *Runner) refused(ctx context.Context, s *models.Schedule, slot *models.ScheduleSlot, why *apierror.Error) (bool, error) {
	switch why.Code {
	case apierror.CodeRateLimited, apierror.CodeQuotaExceeded, apierror.CodeOverloaded, apierror.CodeUnavailable:
		now, err := models.Now(ctx, r.DB)
		if err != nil {
			return false, err
		}
		wait := refusedWait
		if why.RetryAfterSeconds > 0 {
			wait = time.Duration(why.RetryAfterSeconds) * time.Second
		}
		window := max(time.Duration(s.CatchUpWindowSeconds)*time.Second, time.Minute)
		if slot.Cause == models.SlotBackfill || slot.Cause != models.SlotTrigger && now.Sub(slot.At) < window {
			slot.Reason = why.Message
			return false, models.DelaySlot(ctx, r.DB, slot, wait)
		}
	}
	return r.end(ctx, slot, models.SlotRefused, why.Message, nil)
}

// failed ends a slot that failed too often because of internal errors.
func (r *Runner) failed(ctx context.Context, slot *models.ScheduleSlot, err error) (bool, error) {
	if slot.Tries < maxTries || models.IsOutage(err) || ctx.Err() != nil {
		return false, err
	}
	ended, also := r.end(ctx, slot, models.SlotRefused, "an internal error occurred: the log of control has it", nil)
	return ended, errors.Join(err, also)
}
