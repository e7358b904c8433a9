package schedule

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/cron"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/schedules"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Schedules manages the schedules of accounts.
type Schedules struct{ Runner }

const (
	// maxSchedules is how many schedules an account may have.
	maxSchedules   = 10_000
	maxPauseReason = 200
	// MaxBackfill is how many slots one backfill may fire.
	MaxBackfill = 1000
	// MaxUpcoming is how many slots one call may compute.
	MaxUpcoming = 1000
)

// Create makes a schedule. It returns INVALID_INPUT for an input that is not valid, including a job
// or a workflow that could not be submitted now, CONFLICT if the account has a schedule of that name, and
// QUOTA_EXCEEDED if it has too many, or if its schedules would have too many slots.
func (v *Schedules) Create(ctx context.Context, p jobs.Principal, in Input) (*schedules.Schedule, error) {
	if err := in.checkFor(p, true); err != nil {
		return nil, err
	}
	tier, err := v.check(ctx, submitter(&schedules.Schedule{AccountID: p.AccountID, CreatedBy: p.KeyID}), &in)
	if err != nil {
		return nil, err
	}
	key, digest, err := in.key()
	if err != nil {
		return nil, err
	}
	now, err := postgres.Now(ctx, v.DB)
	if err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}
	s := &schedules.Schedule{IdempotencyKey: key, RequestDigest: digest, ID: models.NewScheduleID(), AccountID: p.AccountID,
		CreatedBy: p.KeyID,
		CreatedAt: now}
	if err := v.set(s, in, tier, now); err != nil {
		return nil, err
	}
	err = jobs.InTx(ctx, v.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := lockSlots(ctx, tx, s.AccountID); err != nil {
			return err
		}
		if known, err := repeated(ctx, tx, s); known != nil || err != nil {
			s = cmp.Or(known, s)
			return err
		}
		if in.Name == "" {
			if err := nameAfter(ctx, tx, s); err != nil {
				return err
			}
		}
		if err := checkRate(ctx, tx, s); err != nil {
			return err
		}
		if n, err := schedules.CountSchedules(ctx, tx, p.AccountID); err != nil {
			return err
		} else if n >= maxSchedules {
			return apierror.New(apierror.CodeQuotaExceeded, "This account has %d schedules, which is the limit: delete some.", n)
		}
		err := schedules.InsertSchedule(ctx, tx, s)
		if errors.Is(err, sql.ErrNoRows) {
			return apierror.Conflict("A schedule named %q already exists: choose another name, or update that schedule.", s.Name).In("name")
		}
		return err
	})
	if err != nil {
		return nil, apierror.Wrap(err, "create a schedule")
	}
	return s, nil
}

// check validates an input, and returns the highest tier of its jobs.
func (v *Schedules) check(ctx context.Context, p jobs.Principal, in *Input) (models.Tier, error) {
	if err := in.checkOne(); err != nil {
		return "", err
	}
	// First what a submit would refuse: what belongs to another account is NOT_FOUND everywhere.
	tier, err := v.checkNow(ctx, p, in.Request)
	if err != nil {
		return "", err
	}
	return tier, in.checkRepeated()
}

// checkNow returns why a request could not be submitted now, and the highest tier of its jobs.
func (v *Schedules) checkNow(ctx context.Context, p jobs.Principal, r Request) (models.Tier, error) {
	if r.Workflow != nil {
		tier, err := v.Workflows.Check(ctx, p, *r.Workflow)
		return tier, within("workflow", err)
	}
	if _, err := v.Submitter.Estimate(ctx, p, *r.Job); err != nil {
		return "", within("job", err)
	}
	if err := v.Submitter.Check(ctx, p, *r.Job); err != nil {
		return "", within("job", err)
	}
	found, err := models.GetAccounts(ctx, v.DB, []models.AccountID{p.AccountID})
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("read the account: %w", cmp.Or(err, sql.ErrNoRows))
	}
	return cmp.Or(r.Job.Tier, found[0].Tier), nil
}

// within names the field at fault of the job or the workflow as one of the schedule.
func within(field string, err error) error {
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Field != "" {
		return refused.In(field + "." + refused.Field)
	}
	return err
}

// set writes a valid input into a schedule. Its slots count from now, unless its times stay as they are.
// It returns INVALID_INPUT if it would never fire.
func (v *Schedules) set(s *schedules.Schedule, in Input, tier models.Tier, now time.Time) error {
	if _, err := in.plan(s, now); err != nil {
		return err
	}
	s.Tier = tier
	if !s.PausedAt.IsZero() {
		s.NextSlot, s.NextFireAt = time.Time{}, time.Time{}
	}
	return in.sealTo(s, v.Sealer)
}

// sameTimes reports whether a schedule has its slots at the times of an input. Whatever else changes, the
// slots that are due stay due.
func (in Input) sameTimes(s *schedules.Schedule) bool {
	return s.Cron == in.Cron && s.EverySeconds == in.EverySeconds && s.Timezone == in.Timezone && s.DSTGap == in.DSTGap &&
		s.DSTOverlap == in.DSTOverlap &&
		s.StartAt.Equal(stored(in.StartAt)) && s.EndAt.Equal(stored(in.EndAt))
}

// stored is a time as PostgreSQL keeps it.
func stored(at *time.Time) time.Time { return lo.FromPtr(at).Truncate(time.Microsecond) }

// plan writes when a valid input fires into a schedule. Its slots count from now, unless its times stay as
// they are. It returns INVALID_INPUT if it would never fire.
func (in Input) plan(s *schedules.Schedule, now time.Time) (cron.Times, error) {
	same := in.sameTimes(s)
	if err := in.checkRange(now); err != nil && !same {
		return cron.Times{}, err
	}
	s.Name, s.Cron, s.EverySeconds, s.Timezone = in.Name, in.Cron, in.EverySeconds, in.Timezone
	s.DSTGap, s.DSTOverlap, s.JitterSeconds = in.DSTGap, in.DSTOverlap, in.JitterSeconds
	s.StartAt, s.EndAt = stored(in.StartAt), stored(in.EndAt)
	s.CatchUp, s.CatchUpWindowSeconds, s.Overlap = in.CatchUp, *in.CatchUpWindowSeconds, in.Overlap
	times, err := Times(s)
	if err != nil {
		return times, err
	}
	if !same {
		s.DecidedUntil, s.HeldAt = now, time.Time{}
	}
	plan(s, times)
	switch {
	case same || !s.NextSlot.IsZero(): // it may have ended
		return times, nil
	case in.EndAt != nil:
		return times, apierror.Invalid("endAt",
			"The schedule would never fire: no time from now, or from its start, until its end matches. Move the end, or leave it out.")
	}
	return times, apierror.Invalid("cron", "The schedule would never fire: no time within five years of its start matches.")
}

// Preview says in words when a schedule of this input would fire, with its next n slots, and
// stores nothing. It returns INVALID_INPUT for times that are not valid; it does not look at what it
// submits.
func (v *Schedules) Preview(ctx context.Context, in Input, n int) (words string, next []time.Time, err error) {
	in.Name = cmp.Or(in.Name, "preview") // a form may have none yet
	if err := in.checkTimes(); err != nil {
		return "", nil, err
	}
	now, err := postgres.Now(ctx, v.DB)
	if err != nil {
		return "", nil, fmt.Errorf("read the clock: %w", err)
	}
	times, err := in.plan(&schedules.Schedule{CreatedAt: now}, now)
	if err != nil {
		return "", nil, err
	}
	return times.Describe(), times.Upcoming(now, n), nil
}

// Update replaces what a schedule does. Slots that are decided or due stay so; new times count from now.
// It returns CONFLICT if that would make of a schedule of jobs one of workflows, or the other way round,
// and QUOTA_EXCEEDED if the account's schedules would have too many slots.
func (v *Schedules) Update(ctx context.Context, p jobs.Principal, id models.ScheduleID, in Input) (*schedules.Schedule, error) {
	known, err := v.toChange(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if err := in.checkFor(p, false); err != nil {
		return nil, err
	}
	tier, err := v.check(ctx, submitter(known), &in) // its owner submits, also if an operator changes it
	if err != nil {
		return nil, err
	}
	if is, wanted := submits(known), in.submits(); is != wanted {
		// A slot's key is one of jobs or one of workflows: only as long as all slots submit the same can
		// none submit both.
		return nil, apierror.Conflict("This schedule submits %ss, and cannot submit a %s instead: delete it first, or give the new one another name.", is, wanted).In(wanted)
	}
	return v.change(ctx, p, "updateSchedule", id, func(ctx context.Context, tx bun.Tx, s *schedules.Schedule) error {
		if other, err := schedules.GetScheduleByName(ctx, tx, s.AccountID, in.Name); err == nil && other.ID != s.ID {
			return apierror.Conflict("A schedule named %q already exists: choose another name.", in.Name).In("name")
		} else if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		before := *s
		if err := v.set(s, in, tier, now); err != nil {
			return err
		}
		if !s.NextFireAt.IsZero() && (before.NextFireAt.IsZero() || s.SlotsAnHour > before.SlotsAnHour) {
			if err := checkRate(ctx, tx, s); err != nil {
				return err
			}
		}
		if !in.sameTimes(&before) {
			if err := v.settle(ctx, tx, &before, now); err != nil {
				return err
			}
		}
		return schedules.SaveRequest(ctx, tx, s)
	})
}

// Apply creates the schedule, or updates the one of its name, and reports whether it is new.
func (v *Schedules) Apply(ctx context.Context, p jobs.Principal, in Input) (s *schedules.Schedule, created bool, err error) {
	if err := in.checkTimes(); err != nil {
		return nil, false, err
	}
	known, err := schedules.GetScheduleByName(ctx, v.DB, p.AccountID, in.Name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		s, err = v.Create(ctx, p, in)
		return s, true, err
	case err != nil:
		return nil, false, fmt.Errorf("look for the schedule: %w", err)
	}
	s, err = v.Update(ctx, p, known.ID, in)
	return s, false, err
}

// Pause stops a schedule: it does not fire until Resume. Pausing a paused one changes nothing.
func (v *Schedules) Pause(ctx context.Context, p jobs.Principal, id models.ScheduleID, reason string) (*schedules.Schedule, error) {
	if reason = strings.TrimSpace(reason); !text.Valid(reason, 0, maxPauseReason) {
		return nil, apierror.Invalid("reason", "The reason can have up to %d printable characters.", maxPauseReason)
	}
	return v.change(ctx, p, "pauseSchedule", id, func(ctx context.Context, tx bun.Tx, s *schedules.Schedule) error {
		now, err := postgres.Now(ctx, tx)
		if err != nil || !s.PausedAt.IsZero() {
			return err
		}
		pause(s, now, p.Actor(), reason)
		return nil
	})
}

// settle inserts the slots of a schedule until now, before its times change or its pause ends.
func (v *Schedules) settle(ctx context.Context, tx bun.Tx, s *schedules.Schedule, now time.Time) error {
	times, err := Times(s)
	if err != nil { // this release does not know the zone, so that it has no slots
		return nil
	}
	written, err := schedules.InsertSlots(ctx, tx, settle(s, times, now))
	for _, slot := range written {
		if slot.State == schedules.SlotSkipped {
			v.observe(s, slot)
		}
	}
	return err
}

// Resume lets a paused schedule fire again. The slots during the pause are left out. It returns
// QUOTA_EXCEEDED if the account's schedules would have too many slots.
func (v *Schedules) Resume(ctx context.Context, p jobs.Principal, id models.ScheduleID) (*schedules.Schedule, error) {
	return v.change(ctx, p, "resumeSchedule", id, func(ctx context.Context, tx bun.Tx, s *schedules.Schedule) error {
		now, err := postgres.Now(ctx, tx)
		if err != nil || s.PausedAt.IsZero() {
			return err
		}
		times, err := Times(s)
		if err != nil {
			return err
		}
		if err := v.settle(ctx, tx, s, now); err != nil {
			return err
		}
		s.PausedAt, s.PausedBy, s.PauseReason = time.Time{}, "", ""
		s.DecidedUntil, s.HeldAt = now, time.Time{}
		plan(s, times)
		return checkRate(ctx, tx, s)
	})
}

// Delete deletes a schedule with its slots. What it submitted stays.
func (v *Schedules) Delete(ctx context.Context, p jobs.Principal, id models.ScheduleID) error {
	if _, err := v.toChange(ctx, p, id); err != nil {
		return err
	}
	err := jobs.InTx(ctx, v.DB, func(ctx context.Context, tx bun.Tx) error {
		s, err := schedules.LockSchedule(ctx, tx, id)
		if err != nil {
			return apierror.OrNotFound(err, "schedule")
		}
		if err := p.AuditOf(ctx, tx, "deleteSchedule", s.AccountID, string(id), jobs.Payload{"name": s.Name}); err != nil {
			return err
		}
		return schedules.DeleteSchedule(ctx, tx, id)
	})
	return apierror.Wrap(err, "delete schedule %s", id)
}

// change changes a schedule that the caller may change.
func (v *Schedules) change(ctx context.Context, p jobs.Principal, action string, id models.ScheduleID,
	act func(context.Context, bun.Tx, *schedules.Schedule) error) (s *schedules.Schedule, err error) {
	if _, err := v.toChange(ctx, p, id); err != nil {
		return nil, err
	}
	err = jobs.InTx(ctx, v.DB, func(ctx context.Context, tx bun.Tx) error {
		if s, err = schedules.LockSchedule(ctx, tx, id); err != nil {
			return apierror.OrNotFound(err, "schedule")
		}
		if err := act(ctx, tx, s); err != nil {
			return err
		}
		if err := p.AuditOf(ctx, tx, action, s.AccountID, string(id), jobs.Payload{"name": s.Name}); err != nil {
			return err
		}
		return schedules.SaveSchedule(ctx, tx, s)
	})
	if err != nil {
		return nil, apierror.Wrap(err, "change schedule %s", id)
	}
	return s, nil
}

func (v *Schedules) toChange(ctx context.Context, p jobs.Principal, id models.ScheduleID) (*schedules.Schedule, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	return v.Get(ctx, p, id)
}

// Get returns a schedule that the caller may see, or NOT_FOUND.
func (v *Schedules) Get(ctx context.Context, p jobs.Principal, id models.ScheduleID) (*schedules.Schedule, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("schedule")
	}
	s, err := schedules.GetSchedule(ctx, v.DB, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "schedule"), "read schedule %s", id)
	}
	if !p.Sees(s.AccountID) {
		return nil, apierror.NotFound("schedule")
	}
	return s, nil
}
