package schedule

import (
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/require"
)

func TestDueSlots(t *testing.T) {
	t.Parallel()

	down := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	now := down.Add(4*time.Hour + 5*time.Second)
	hours := func(n ...int) (at []time.Time) {
		for _, h := range n {
			at = append(at, down.Add(time.Duration(h)*time.Hour))
		}
		return at
	}
	for name, c := range map[string]struct {
		change  func(*schedules.Schedule)
		fire    []time.Time
		skipped bool
		until   time.Time
	}{
		"SkipFiresOnlyWhatIsOnTime": {func(s *schedules.Schedule) { s.CatchUp = schedules.CatchUpSkip }, hours(4), true, hours(4)[0]},
		"CoalesceFiresTheLast":      {func(*schedules.Schedule) {}, hours(4), true, hours(4)[0]},
		"AllFiresEach":              {func(s *schedules.Schedule) { s.CatchUp = schedules.CatchUpAll }, hours(1, 2, 3, 4), false, hours(4)[0]},
		"AllFiresThoseInTheWindow": {func(s *schedules.Schedule) {
			s.CatchUp, s.CatchUpWindowSeconds = schedules.CatchUpAll, 2*60*60+10
		}, hours(2, 3, 4), true, hours(4)[0]},
		"NothingIsDueAgain": {func(s *schedules.Schedule) { s.DecidedUntil = hours(4)[0] }, nil, false, hours(4)[0]},
		"CoalesceOfEachSecond": {func(s *schedules.Schedule) {
			s.Cron, s.EverySeconds = "* * * * * *", 0
		}, []time.Time{now}, true, now},
		"AnOldSlotOutsideTheWindowIsSkipped": {func(s *schedules.Schedule) {
			s.Cron, s.EverySeconds, s.CatchUpWindowSeconds = "0 9 * * *", 0, 60
		}, nil, true, now.Add(-61 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := &schedules.Schedule{
				ID: models.NewScheduleID(), EverySeconds: 3600, Timezone: "UTC", CatchUp: schedules.CatchUpCoalesce, CatchUpWindowSeconds: 86400,
				DSTGap: "SHIFT", DSTOverlap: "FIRST", CreatedAt: down, DecidedUntil: down, Tier: models.TierPro,
			}
			c.change(s)
			times, err := Times(s)
			require.NoError(t, err)

			slots, until := dueSlots(s, times, now, slotsAtOnce)

			var fire []time.Time
			skipped := false
			for _, slot := range slots {
				if slot.State == schedules.SlotSkipped {
					require.NotEmpty(t, slot.Reason)
					require.True(t, slot.At.After(down) && slot.At.Before(now))
					skipped = true
					continue
				}
				fire = append(fire, slot.At)
			}
			require.Equal(t, c.fire, fire)
			require.Equal(t, c.skipped, skipped)
			require.Equal(t, c.until, until.UTC())
		})
	}

	t.Run("LateSlotsAreSpreadAndTheHighestTierComesFirst", func(t *testing.T) {
		t.Parallel()

		var ends time.Time
		seen := map[time.Time]bool{}
		for _, tier := range models.Tiers {
			var last time.Time
			for range 100 {
				s := &schedules.Schedule{ID: models.NewScheduleID(), Tier: tier}
				slot := pending(s, hours(3)[0], hours(3)[0], now)
				require.Equal(t, schedules.SlotCatchUp, slot.Cause)
				require.False(t, slot.DueAt.Before(ends), "after the tiers above it")
				last = latest(slot.DueAt, last)
				seen[slot.DueAt] = true
			}
			ends = last
		}
		require.Greater(t, len(seen), 400)
		require.Less(t, ends.Sub(now), time.Minute)
	})

	t.Run("TheJitterOfASlotIsAlwaysTheSame", func(t *testing.T) {
		t.Parallel()

		s := &schedules.Schedule{ID: models.NewScheduleID(), JitterSeconds: 60}
		seen := map[time.Duration]bool{}
		for n := range 200 {
			slot := down.Add(time.Duration(n) * time.Minute)
			require.Equal(t, jitter(s, slot), jitter(s, slot.In(time.FixedZone("", 3600))))
			require.LessOrEqual(t, jitter(s, slot), time.Minute)
			seen[jitter(s, slot)] = true
		}
		require.Greater(t, len(seen), 40)
	})
}
