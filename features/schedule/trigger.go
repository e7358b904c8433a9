package schedule

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/schedules"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// FireNow fires a schedule now, also if it is paused, and returns the slot, which has fired. It
// returns CONFLICT, which says why, if the rule for overlaps forbids that, if what it submits is
// refused, and if schedules are halted. since is for a form that may be sent twice: the newest slot
// that its page knew. CONFLICT is returned, too, if the schedule was fired by hand after that; the
// zero time means that it may.
func (v *Schedules) FireNow(ctx context.Context, p jobs.Principal, id models.ScheduleID, since time.Time) (*schedules.Slot, error) {
	s, err := v.toChange(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if err := v.takeSlots(ctx, s.AccountID, 1); err != nil {
		return nil, err
	}
	var slot *schedules.Slot
	err = jobs.InTx(ctx, v.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := notHalted(ctx, tx); err != nil {
			return err
		}
		if err := triggeredOnce(ctx, tx, id, since); err != nil {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		slot = &schedules.Slot{ScheduleID: s.ID, AccountID: s.AccountID, At: now, Cause: schedules.SlotTrigger,
			State: schedules.SlotPending,
			Tier:  s.Tier, Tries: 1, DueAt: now.Add(fireAgain)}
		if _, err := schedules.InsertSlots(ctx, tx, []*schedules.Slot{slot}); err != nil {
			return err
		}
		if err := schedules.NoteFire(ctx, tx, id, now); err != nil {
			return err
		}
		return p.AuditOf(ctx, tx, "fireSchedule", s.AccountID, string(id), jobs.Payload{"name": s.Name})
	})
	if err != nil {
		return nil, apierror.Wrap(err, "fire schedule %s", id)
	}
	if _, err := v.fire(ctx, slot); err != nil {
		return nil, apierror.Wrap(err, "fire schedule %s", id)
	}
	if slot.State != schedules.SlotFired {
		return nil, apierror.Conflict("The schedule did not fire: %s.", strings.TrimSuffix(slot.Reason, "."))
	}
	return slot, nil
}

// notHalted returns CONFLICT while schedules are halted.
func notHalted(ctx context.Context, tx bun.Tx) error {
	halts, err := models.ListHalts(ctx, tx)
	if err != nil {
		return err
	}
	for _, h := range halts {
		if h.What == models.HaltSchedules {
			return apierror.Conflict("An operator has halted all schedules since %s: %s. Try again when they are resumed.",
				text.Moment(h.Since.UTC(), time.Now()), strings.TrimSuffix(h.Reason, "."))
		}
	}
	return nil
}

// triggeredOnce returns CONFLICT if the schedule was triggered after since. It locks the schedule,
// so that concurrent calls run one after the other.
func triggeredOnce(ctx context.Context, tx bun.Tx, id models.ScheduleID, since time.Time) error {
	if since.IsZero() {
		return nil
	}
	if _, err := schedules.LockSchedule(ctx, tx, id); err != nil {
		return apierror.OrNotFound(err, "schedule")
	}
	before, err := schedules.TriggeredSince(ctx, tx, id, since)
	if err == nil && before {
		return apierror.Conflict("The schedule was triggered since this page was opened.")
	}
	return err
}

// Backfill is a request to fire slots of the past.
type Backfill struct {
	// The slots lie from From until before To, both in the past.
	From, To time.Time
	// MaxFires is how many slots there may be, up to MaxBackfill.
	MaxFires int
	// PerMinute is the pace at which they fire; 0 means at once.
	PerMinute int
}

// FireSlots fires the slots of a time in the past that did not fire, nor wait to do so. It returns
// those that have fired; with PerMinute, the others follow. It returns INVALID_INPUT if there are
// more slots than allowed, and CONFLICT while schedules are halted.
func (v *Schedules) FireSlots(ctx context.Context, p jobs.Principal, id models.ScheduleID, b Backfill) (fired []*schedules.Slot,
	err error) {
	s, err := v.toChange(ctx, p, id)
	if err != nil {
		return nil, err
	}
	slots, now, err := b.slots(ctx, v.DB, s)
	if err != nil {
		return nil, err
	}
	if err := v.takeSlots(ctx, s.AccountID, len(slots)); err != nil {
		return nil, err
	}
	mine := map[time.Time]bool{} // those that this call fires, unless it dies
	for _, slot := range slots {
		if !slot.DueAt.After(now) {
			mine[slot.At.UTC()], slot.Tries, slot.DueAt = true, 1, now.Add(fireAgain)
		}
	}
	var written []*schedules.Slot
	err = jobs.InTx(ctx, v.DB, func(ctx context.Context, tx bun.Tx) (err error) {
		if err := notHalted(ctx, tx); err != nil {
			return err
		}
		if err := lockSlots(ctx, tx, s.AccountID); err != nil {
			return err
		}
		if written, err = schedules.BackfillSlots(ctx, tx, slots); err != nil {
			return err
		}
		if err := checkWaiting(ctx, tx, s.AccountID, len(written)); err != nil {
			return err
		}
		return p.AuditOf(ctx, tx, "fireSlots", s.AccountID, string(id), jobs.Payload{"name": s.Name, "from": b.From, "to": b.To,
			"slots": len(written)})
	})
	if err != nil {
		return nil, apierror.Wrap(err, "backfill schedule %s", id)
	}
	for _, slot := range written {
		if !mine[slot.At.UTC()] {
			continue
		}
		// What fails here is fired by a pass soon. One that a pass fired first counts, too: its key gets
		// the same job or workflow.
		if _, err := v.fire(ctx, slot); err == nil && slot.State == schedules.SlotFired {
			fired = append(fired, slot)
		}
	}
	return fired, nil
}

// Slots returns the times that a backfill would fire, whether they have fired or not.
func (v *Schedules) Slots(ctx context.Context, p jobs.Principal, id models.ScheduleID, b Backfill) ([]time.Time, error) {
	s, err := v.Get(ctx, p, id)
	if err != nil {
		return nil, err
	}
	slots, _, err := b.slots(ctx, v.DB, s)
	return lo.Map(slots, func(slot *schedules.Slot, _ int) time.Time { return slot.At }), err
}

// slots returns the slots of a request.
func (b Backfill) slots(ctx context.Context, db bun.IDB, s *schedules.Schedule) (slots []*schedules.Slot, now time.Time,
	err error) {
	if now, err = postgres.Now(ctx, db); err != nil {
		return nil, now, fmt.Errorf("read the clock: %w", err)
	}
	switch {
	case !b.To.After(b.From):
		return nil, now, apierror.Invalid("to", "to must be after from.")
	case b.From.Before(now.AddDate(-maxYears, 0, 0)):
		return nil, now, apierror.Invalid("from", "from must be within %d years of now; it is %s.", maxYears, text.Moment(b.From.UTC(), now))
	case b.To.After(now):
		return nil, now, apierror.Invalid("to", "to must be past: later slots fire by themselves.")
	case b.MaxFires < 1 || b.MaxFires > MaxBackfill:
		return nil, now, apierror.Invalid("maxFires", "maxFires must be from 1 to %d; it is %d.", MaxBackfill, b.MaxFires)
	case b.PerMinute < 0 || b.PerMinute > 60_000:
		return nil, now, apierror.Invalid("perMinute", "perMinute must be from 1 to 60000, or be left out; it is %d.", b.PerMinute)
	}
	times, err := Times(s)
	if err != nil {
		return nil, now, err
	}
	for at := times.Next(b.From.Add(-time.Nanosecond)); !at.IsZero() && at.Before(b.To); at = times.Next(at) {
		if len(slots) == b.MaxFires {
			return nil, now, apierror.Invalid("maxFires",
				"There are more than %d slots between these times. Nothing was fired: choose a shorter time, or a higher maxFires (at most %d).",
				b.MaxFires, MaxBackfill)
		}
		due := now
		if b.PerMinute > 0 {
			due = due.Add(time.Duration(len(slots)) * time.Minute / time.Duration(b.PerMinute))
		}
		slots = append(slots, &schedules.Slot{
			ScheduleID: s.ID, AccountID: s.AccountID, At: at, Cause: schedules.SlotBackfill, State: schedules.SlotPending, Tier: s.Tier, DueAt: due,
			DecidedAt: now,
		})
	}
	return slots, now, nil
}
