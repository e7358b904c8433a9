package schedule

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/cron"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

const (
	// decideBatch is how many schedules one transaction decides on.
	decideBatch = 100
	// slotsAtOnce bounds the slots of one schedule in one decision. The next takes the rest.
	slotsAtOnce = 500
	// late is from when a slot counts as one that no process could fire in time.
	late = 30 * time.Second
	// spread is over how long the late slots of a tier are spread, so that not all jobs of
	// hours come in one second. Each tier follows the ones above it.
	spread = 10 * time.Second
)

// jitter returns how long after a slot a schedule fires: always the same for a slot.
func jitter(s *models.Schedule, slot time.Time) time.Duration {
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
func (r *Runner) Decide(ctx context.Context) (int, error) {
	total := 0
	for {
		due, inserted := 0, 0
		var left []func() // observes the slots that are left out, once that is committed
		err := jobs.InTx(ctx, r.DB, func(ctx context.Context, tx bun.Tx) error {
			due, inserted, left = 0, 0, nil
			schedules, now, err := models.LockDueSchedules(ctx, tx, decideBatch)
			if err != nil {
				return fmt.Errorf("find schedules that are due: %w", err)
			}
			due = len(schedules)
			for _, s := range schedules {
				written, err := decide(ctx, tx, s, now)
				if err != nil {
					return fmt.Errorf("decide on schedule %s: %w", s.ID, err)
				}
				inserted += len(written)
				for _, slot := range written {
					if slot.State == models.SlotSkipped {
						left = append(left, func() { r.observe(s, slot) })
					}
				}
			}
			return nil
		})
		if err != nil {
			return total, err
		}
		total += inserted
		for _, observe := range left {
			observe()
		}
		if due < decideBatch {
			return total, nil
		}
	}
}

// decide inserts the slots of a schedule, whose row is locked, that are due now, and returns them.
func decide(ctx context.Context, tx bun.Tx, s *models.Schedule, now time.Time) ([]*models.ScheduleSlot, error) {
	times, err := Times(s)
	if err != nil {
		// A newer release may know the zone. Without this, the pass would find the schedule again
		// at once.
		slog.ErrorContext(ctx, "a schedule cannot be read, and is paused", "schedule", s.ID, "error", err)
		pause(s, now, "reelay", "it cannot be read: "+err.Error())
		return nil, models.SaveSchedule(ctx, tx, s)
	}
	slots, until := dueSlots(s, times, now)
	written, err := models.InsertSlots(ctx, tx, slots)
	if err != nil {
		return nil, err
	}
	s.DecidedUntil = until
	if slices.ContainsFunc(written, func(slot *models.ScheduleSlot) bool { return slot.State == models.SlotPending }) {
		s.LastFireAt = now
	}
	plan(s, times)
	return written, models.SaveSchedule(ctx, tx, s)
}

// plan sets when a schedule fires next.
func plan(s *models.Schedule, times cron.Times) {
	s.NextSlot, s.NextFireAt = times.Next(s.DecidedUntil), time.Time{}
	if !s.NextSlot.IsZero() {
		s.NextFireAt = s.NextSlot.Add(jitter(s, s.NextSlot))
	}
}

// dueSlots returns the slots of a schedule that are due at a time, with what is to become of
// them, and until when all slots are decided with them.
func dueSlots(s *models.Schedule, times cron.Times, now time.Time) (slots []*models.ScheduleSlot, until time.Time) {
	until = s.DecidedUntil
	window := now.Add(-time.Duration(s.CatchUpWindowSeconds) * time.Second)
	onTime := now.Add(-late)
	from := until
	switch s.CatchUp {
	case models.CatchUpAll:
		from = latest(from, window.Add(-time.Second))
	case models.CatchUpCoalesce:
		from = latest(from, lastBefore(s, times, now, latest(from, window.Add(-time.Second))))
	case models.CatchUpSkip:
		from = latest(from, onTime.Add(-time.Duration(s.JitterSeconds)*time.Second))
	}
	if left := times.Next(until); from.After(until) && !left.IsZero() && !left.After(from) {
		slots = append(slots, skipped(s, left, now, fmt.Sprintf("it and the slots until %s passed while nothing could fire them; catchUp is %s", from.UTC().Format(time.RFC3339), s.CatchUp)))
	}
	for slot := times.Next(from); !slot.IsZero() && len(slots) < slotsAtOnce; slot = times.Next(slot) {
		fires := slot.Add(jitter(s, slot))
		if fires.After(now) {
			break
		}
		from = slot
		slots = append(slots, pending(s, slot, fires, now))
	}
	return slots, latest(until, from)
}

// lastBefore returns the time just before the last slot that is due at a time and after another,
// or that other if there is none. It looks back further and further, so that a schedule that fires each second
// costs no more than one that fires each day.
func lastBefore(s *models.Schedule, times cron.Times, now, after time.Time) time.Time {
	for back := time.Minute; ; back *= 4 {
		from := latest(now.Add(-back-time.Duration(s.JitterSeconds)*time.Second), after)
		last := time.Time{}
		for slot := times.Next(from); !slot.IsZero() && !slot.Add(jitter(s, slot)).After(now); slot = times.Next(slot) {
			last = slot
		}
		if !last.IsZero() {
			return last.Add(-time.Nanosecond)
		}
		if from.Equal(after) {
			return after
		}
	}
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

func pending(s *models.Schedule, slot, fires, now time.Time) *models.ScheduleSlot {
	row := &models.ScheduleSlot{ScheduleID: s.ID, At: slot, Cause: models.SlotCron, State: models.SlotPending, Tier: s.Tier, DueAt: fires}
	if fires.Before(now.Add(-late)) {
		rank := slices.Index(models.Tiers, s.Tier)
		row.Cause = models.SlotCatchUp
		row.DueAt = now.Add(time.Duration(rank)*spread + time.Duration(hash(s.ID, slot)%uint64(spread)))
	}
	return row
}

func skipped(s *models.Schedule, slot, now time.Time, reason string) *models.ScheduleSlot {
	return &models.ScheduleSlot{ScheduleID: s.ID, At: slot, Cause: models.SlotCron, State: models.SlotSkipped, Tier: s.Tier, Reason: reason, EndedAt: now}
}

// pause stops a schedule whose row is locked.
func pause(s *models.Schedule, now time.Time, by, reason string) {
	s.PausedAt, s.PausedBy, s.PauseReason = now, by, reason
	s.NextSlot, s.NextFireAt = time.Time{}, time.Time{}
}
