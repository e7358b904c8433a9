package schedule

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/cron"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

const (
	// decideBatch is how many schedules one transaction decides on.
	decideBatch = 100
	// decideShare is how many of an account are decided before those of the others.
	decideShare = 100
	// slotsAtOnce bounds the slots of one schedule in one decision, and slotsTogether is about how many
	// slots one transaction inserts. The next takes the rest.
	slotsAtOnce   = 500
	slotsTogether = 1000
	// late is from when a slot counts as one that no process could fire in time.
	late = 30 * time.Second
	// spread is over how long the late slots of a tier are spread, so that not all jobs of
	// hours come in one second. Each tier follows the ones above it.
	spread = 10 * time.Second
)

// jitter returns how long after a slot a schedule fires: always the same for a slot.
func jitter(s *schedules.Schedule, slot time.Time) time.Duration {
	if s.JitterSeconds == 0 {
		return 0
	}
	return time.Duration(hash(s.ID, slot)%uint64(s.JitterSeconds+1)) * time.Second
}

func hash(id models.ScheduleID, slot time.Time) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, id, slot.Unix())
	return h.Sum64()
}

// Decide inserts the slots of the schedules that are due, and returns how many it inserted. Any
// number of processes may call it at once.
//
// It goes round the accounts: one that has many schedules due waits until the others have had theirs
// decided.
func (r *Runner) Decide(ctx context.Context) (int, error) {
	total, round := 0, map[models.AccountID]int{}
	for {
		served := lo.Keys(lo.PickBy(round, func(_ models.AccountID, n int) bool { return n >= decideShare }))
		var d *decision
		err := jobs.InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) (err error) {
			d, err = r.decideSome(ctx, tx, served)
			return err
		})
		if err != nil {
			return total, err
		}
		total += len(d.written)
		for _, slot := range d.written {
			if slot.State == schedules.SlotSkipped { // once that is committed
				r.observe(d.by[slot.ScheduleID], slot)
			}
		}
		for _, s := range d.schedules {
			round[s.AccountID]++
		}
		switch {
		case d.more:
		case len(served) > 0:
			clear(round)
		default:
			return total, nil
		}
	}
}

// decision is what one transaction decides.
type decision struct {
	now       time.Time
	use       map[models.AccountID]*schedules.SlotUse
	schedules []*schedules.Schedule // whose plans change
	by        map[models.ScheduleID]*schedules.Schedule
	slots     []*schedules.Slot
	written   []*schedules.Slot
	more      bool // there may be more schedules that are due
}

// decideSome decides on schedules that are due, except those of some accounts.
func (r *Runner) decideSome(ctx context.Context, tx bun.Tx, except []models.AccountID) (*decision, error) {
	due, now, err := schedules.LockDueSchedules(ctx, tx, decideBatch, except)
	if err != nil {
		return nil, fmt.Errorf("find schedules that are due: %w", err)
	}
	d := &decision{now: now, by: map[models.ScheduleID]*schedules.Schedule{}, more: len(due) == decideBatch}
	accounts := lo.Uniq(lo.Map(due, func(s *schedules.Schedule, _ int) models.AccountID { return s.AccountID }))
	if d.use, err = schedules.ReadSlotUse(ctx, tx, accounts); err != nil {
		return nil, fmt.Errorf("count the slots of accounts: %w", err)
	}
	for _, s := range due {
		if len(d.slots) >= slotsTogether {
			d.more = true // its row stays as it is
			break
		}
		times, err := Times(s)
		if err != nil {
			// A newer release may know the zone. Without this, the pass would find the schedule again
			// at once.
			slog.ErrorContext(ctx, "a schedule cannot be read, and is paused", "schedule", s.ID, "error", err)
			pause(s, now, "reelay", "it cannot be read: "+err.Error())
			if err := schedules.SaveSchedule(ctx, tx, s); err != nil {
				return nil, fmt.Errorf("pause schedule %s: %w", s.ID, err)
			}
			continue
		}
		d.decide(s, times)
	}
	if d.written, err = schedules.InsertSlots(ctx, tx, d.slots); err != nil {
		return nil, fmt.Errorf("insert slots: %w", err)
	}
	for _, slot := range d.written {
		if slot.State == schedules.SlotPending {
			d.by[slot.ScheduleID].LastFireAt = now
		}
	}
	if err := schedules.SavePlans(ctx, tx, d.schedules); err != nil {
		return nil, fmt.Errorf("plan schedules: %w", err)
	}
	return d, nil
}

// decide adds the slots of a schedule that are due, and plans the next. If too many slots of its account
// wait, it decides nothing: the schedule is held for a while.
func (d *decision) decide(s *schedules.Schedule, times cron.Times) {
	d.schedules, d.by[s.ID] = append(d.schedules, s), s
	use := d.use[s.AccountID]
	if use == nil {
		use = &schedules.SlotUse{SubmitsPerMinute: jobs.Unlimited}
	}
	room := LimitsOf(use.SubmitsPerMinute).room(use)
	if room <= 0 {
		if s.HeldAt.IsZero() {
			s.HeldAt = d.now
		}
		s.NextFireAt = d.now.Add(limitedFor + time.Duration(hash(s.ID, d.now)%uint64(limitedFor)))
		return
	}
	slots, until := dueSlots(s, times, d.now, min(slotsAtOnce, room))
	for _, slot := range slots {
		if slot.State == schedules.SlotPending {
			use.Waiting++
		}
	}
	d.slots = append(d.slots, slots...)
	s.DecidedUntil, s.HeldAt = until, time.Time{}
	plan(s, times)
}

// plan sets when a schedule fires next, and how often.
func plan(s *schedules.Schedule, times cron.Times) {
	s.NextSlot, s.NextFireAt, s.SlotsAnHour = times.Next(s.DecidedUntil), time.Time{}, times.PerHour()
	if s.NextSlot.IsZero() {
		return
	}
	s.NextFireAt = s.NextSlot.Add(jitter(s, s.NextSlot))
	// With a jitter longer than its interval, a later slot may fire first.
	for slot := times.Next(s.NextSlot); !slot.IsZero() && slot.Before(s.NextFireAt); slot = times.Next(slot) {
		if at := slot.Add(jitter(s, slot)); at.Before(s.NextFireAt) {
			s.NextSlot, s.NextFireAt = slot, at
		}
	}
}

// dueSlots returns up to about most slots of a schedule that are due at a time, with what is to become of
// them, and until when all slots are decided with them. Slots that the rule leaves out and that follow each
// other have one row, of the first of them. A slot of which the jitter has not ended has a row only if a
// later one is due: it is due when it ends.
func dueSlots(s *schedules.Schedule, times cron.Times, now time.Time, most int) (slots []*schedules.Slot, until time.Time) {
	var (
		reach  = time.Duration(s.JitterSeconds) * time.Second
		missed = now.Add(-late)
		oldest = now.Add(-time.Duration(s.CatchUpWindowSeconds)*time.Second - time.Second)
		last   time.Time // the only one that fires of those that are due
	)
	if s.CatchUp == schedules.CatchUpSkip {
		oldest = missed
	}
	from := latest(s.DecidedUntil, oldest.Add(-reach))
	if first := times.Next(s.DecidedUntil); s.CatchUp == schedules.CatchUpCoalesce && !first.IsZero() &&
		first.Add(jitter(s, first)).Before(missed) {
		if last = lastDue(s, times, now, from); !last.IsZero() {
			from = latest(from, earliest(last.Add(-time.Nanosecond), now.Add(-reach-time.Nanosecond)))
		}
	}
	rows := rows{s: s, now: now, why: schedules.LeftLate, reason: lateReason(s, now)}
	if !s.HeldAt.IsZero() {
		rows.why = schedules.LeftLimit
	}
	if left := times.Next(s.DecidedUntil); from.After(s.DecidedUntil) && !left.IsZero() && !left.After(from) {
		rows.leave(left, from)
	}
	until = from
	var jittered []*schedules.Slot
	for slot := times.Next(from); !slot.IsZero() && !slot.After(now) && len(rows.slots) < most; slot = times.Next(slot) {
		fires := slot.Add(jitter(s, slot))
		if fires.After(now) {
			jittered = append(jittered, pending(s, slot, fires, now))
			continue
		}
		rows.slots = append(rows.slots, jittered...)
		jittered, until = nil, slot
		if fires.Before(oldest) || !last.IsZero() && !slot.Equal(last) {
			rows.leave(slot, slot)
		} else {
			rows.slots = append(rows.slots, pending(s, slot, fires, now))
		}
	}
	return rows.slots, until
}

// lastDue returns the last slot that is due at a time and after another, or zero. It looks back further
// and further, so that a schedule that fires each second costs no more than one that fires each day.
func lastDue(s *schedules.Schedule, times cron.Times, now, after time.Time) (last time.Time) {
	for back := time.Minute; ; back *= 4 {
		from := latest(now.Add(-back-time.Duration(s.JitterSeconds)*time.Second), after)
		for slot := times.Next(from); !slot.IsZero() && !slot.After(now); slot = times.Next(slot) {
			if !slot.Add(jitter(s, slot)).After(now) {
				last = slot
			}
		}
		if !last.IsZero() || from.Equal(after) {
			return last
		}
	}
}

// settle returns the slots of a schedule that lie before a change of its times, or the end of its pause:
// a slot of which the jitter has not ended keeps its time, and those that passed during the pause are
// left out. All until now are decided with them.
func settle(s *schedules.Schedule, times cron.Times, now time.Time) (slots []*schedules.Slot) {
	from, rest := s.DecidedUntil, rows{s: s, now: now, why: schedules.LeftPaused, reason: "the schedule was paused"}
	if !s.Paused() {
		rest.why, rest.reason = schedules.LeftChanged, "the times of the schedule were changed before it was decided"
		slots, from = dueSlots(s, times, now, slotsAtOnce)
	}
	// Slots before this are due, whatever their jitter: one row stands for them.
	if sure := now.Add(-time.Duration(s.JitterSeconds)*time.Second - time.Nanosecond); sure.After(from) {
		if first := times.Next(from); !first.IsZero() && !first.After(sure) {
			rest.leave(first, sure)
		}
		from = sure
	}
	for slot := times.Next(from); !slot.IsZero() && !slot.After(now); slot = times.Next(slot) {
		if fires := slot.Add(jitter(s, slot)); fires.After(now) {
			rest.slots = append(rest.slots, pending(s, slot, fires, now))
		} else {
			rest.leave(slot, slot)
		}
	}
	return append(slots, rest.slots...)
}

// rows collects the slots of a schedule. Slots that are left out and follow each other have one row.
type rows struct {
	s      *schedules.Schedule
	now    time.Time
	why    schedules.LeftOut
	reason string
	slots  []*schedules.Slot
}

// leave leaves out the slots from the first until the last.
func (r *rows) leave(first, last time.Time) {
	if n := len(r.slots); n > 0 && r.slots[n-1].State == schedules.SlotSkipped {
		first = r.slots[n-1].At
		r.slots = r.slots[:n-1]
	}
	reason := r.reason
	if last.After(first) {
		reason += fmt.Sprintf("; so are the slots until %s", text.Moment(last.UTC(), r.now))
	}
	r.slots = append(r.slots, &schedules.Slot{
		ScheduleID: r.s.ID, AccountID: r.s.AccountID, At: first, Cause: schedules.SlotCron, State: schedules.SlotSkipped, Tier: r.s.Tier,
		Reason: reason, LeftOut: r.why, EndedAt: r.now,
	})
}

// lateReason says why slots are left out on which no process decided in time.
func lateReason(s *schedules.Schedule, now time.Time) string {
	why := "no control process decided on it in time: none ran, schedules were halted, or too much was due"
	if !s.HeldAt.IsZero() {
		why = "it was not decided in time, since from " + text.Moment(s.HeldAt.UTC(), now) + " as many slots of the account waited as may"
	}
	if s.CatchUp == schedules.CatchUpAll {
		return fmt.Sprintf("%s; it is left out after %d s (catchUpWindowSeconds)", why, s.CatchUpWindowSeconds)
	}
	return fmt.Sprintf("%s; it is left out, since catchUp is %s", why, s.CatchUp)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

func earliest(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

func pending(s *schedules.Schedule, slot, fires, now time.Time) *schedules.Slot {
	row := &schedules.Slot{ScheduleID: s.ID, AccountID: s.AccountID, At: slot, Cause: schedules.SlotCron, State: schedules.SlotPending,
		Tier: s.Tier, DueAt: fires}
	if fires.Before(now.Add(-late)) {
		rank := slices.Index(models.Tiers, s.Tier)
		row.Cause = schedules.SlotCatchUp
		row.DueAt = now.Add(time.Duration(rank)*spread + time.Duration(hash(s.ID, slot)%uint64(spread)))
	}
	return row
}

// pause stops a schedule whose row is locked.
func pause(s *schedules.Schedule, now time.Time, by, reason string) {
	s.PausedAt, s.PausedBy, s.PauseReason = now, by, reason
	s.NextSlot, s.NextFireAt = time.Time{}, time.Time{}
}
