package cron

import (
	"slices"
	"testing"
	"time"

	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var years = struct{ from, to time.Time }{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)}

// zones are those with the most different rules: offsets of half and quarter hours, clocks put
// forward at midnight or by 30 minutes or by two hours, and none at all.
var zones = []string{
	"UTC", "Europe/Berlin", "Europe/London", "Europe/Lisbon", "America/New_York", "America/Los_Angeles", "America/St_Johns", "America/Havana",
	"America/Santiago", "America/Sao_Paulo",
	"Australia/Lord_Howe", "Australia/Adelaide", "Pacific/Chatham", "Pacific/Apia", "Africa/Casablanca", "Africa/Cairo", "Antarctica/Troll",
	"Asia/Kathmandu", "Asia/Jerusalem", "Asia/Tokyo",
}

// changes returns the days on which the clock of a zone changes, with a day before and after.
func changes(zone *time.Location) (days []time.Time) {
	for day := years.from; day.Before(years.to); day = day.AddDate(0, 0, 1) {
		if before, behind := local(day.AddDate(0, 0, -1), zone), local(day.AddDate(0, 0, 2), zone); behind.Sub(before) != 72*time.Hour {
			days = append(days, day)
		}
	}
	return days
}

// local returns what a clock shows, as if it were UTC.
func local(at time.Time, zone *time.Location) time.Time {
	at = at.In(zone)
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}

// walk finds the slots of a day without ever computing a time: it looks at each minute of real
// time, and at each minute that the clock leaves out.
func walk(day time.Time, zone *time.Location, matches func(time.Time) bool, gap schedules.DSTGap,
	overlap schedules.DSTOverlap) (slots []time.Time) {
	const around = 4 * 60
	shown := make([]time.Time, around+24*60+around)
	for n := range shown {
		shown[n] = local(day.Add(time.Duration(n-around)*time.Minute), zone)
	}
	for n := around; n < around+24*60; n++ {
		hit := matches(shown[n])
		if hit {
			switch first, last := slices.Index(shown, shown[n]), len(shown)-1-slices.Index(reversed(shown), shown[n]); overlap {
			case schedules.DSTOverlapFirst:
				hit = first == n
			case schedules.DSTOverlapLast:
				hit = last == n
			}
		}
		if gap == schedules.DSTGapShift && !hit {
			for missing := shown[n-1].Add(time.Minute); missing.Before(shown[n]); missing = missing.Add(time.Minute) {
				hit = hit || matches(missing)
			}
		}
		if hit {
			slots = append(slots, day.Add(time.Duration(n-around)*time.Minute))
		}
	}
	return slots
}

func reversed(times []time.Time) []time.Time {
	turned := slices.Clone(times)
	slices.Reverse(turned)
	return turned
}

func TestTimesAgreeWithAWalk(t *testing.T) {
	t.Parallel()

	// Each is written twice: as an expression, and as what it means.
	rules := map[string]func(time.Time) bool{
		"30 2 * * *":   func(l time.Time) bool { return l.Hour() == 2 && l.Minute() == 30 },
		"0 0 * * *":    func(l time.Time) bool { return l.Hour() == 0 && l.Minute() == 0 },
		"*/30 * * * *": func(l time.Time) bool { return l.Minute()%30 == 0 },
		"15,45 1-3 * * 0": func(l time.Time) bool {
			return l.Weekday() == time.Sunday && l.Minute()%30 == 15 && l.Hour() >= 1 && l.Hour() <= 3
		},
		"59 23 L * *": func(l time.Time) bool { return l.Hour() == 23 && l.Minute() == 59 && l.AddDate(0, 0, 1).Day() == 1 },
		"0 1 * * SUN#1": func(l time.Time) bool {
			return l.Hour() == 1 && l.Minute() == 0 && l.Weekday() == time.Sunday && l.Day() <= 7
		},
		"0 2 29 2 *": func(l time.Time) bool {
			return l.Hour() == 2 && l.Minute() == 0 && l.Day() == 29 && l.Month() == time.February
		},
		"30 0-4 13 * FRI": func(l time.Time) bool {
			return l.Minute() == 30 && l.Hour() <= 4 && (l.Day() == 13 || l.Weekday() == time.Friday)
		},
	}
	modes := []struct {
		gap     schedules.DSTGap
		overlap schedules.DSTOverlap
	}{{schedules.DSTGapShift, schedules.DSTOverlapFirst}, {schedules.DSTGapSkip, schedules.DSTOverlapLast},
		{schedules.DSTGapShift, schedules.DSTOverlapBoth}}
	for n, name := range zones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			zone, err := time.LoadLocation(name)
			require.NoError(t, err)
			for text, matches := range rules {
				mode := modes[(n+len(text))%len(modes)]
				expression, err := Parse(text)
				require.NoError(t, err)
				times := Times{Expression: expression, Zone: zone, Gap: mode.gap, Overlap: mode.overlap}
				want := mode
				if text == "*/30 * * * *" { // it follows real time
					want.gap, want.overlap = schedules.DSTGapSkip, schedules.DSTOverlapBoth
				}
				for _, day := range changes(zone) {
					var slots []time.Time
					for slot := times.Next(day.Add(-time.Nanosecond)); !slot.IsZero() && slot.Before(day.Add(24*time.Hour)); slot = times.Next(slot) {
						slots = append(slots, slot)
					}
					require.Equal(t, walk(day, zone, matches, want.gap, want.overlap), slots, "%s %v on %s", text, mode, day.Format(time.DateOnly))
				}
			}
		})
	}
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return parsed
}

func TestTimesAtAChangeOfTheClock(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		expression, zone string
		gap              schedules.DSTGap
		overlap          schedules.DSTOverlap
		after            string
		slots            []string
	}{
		{"30 2 * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"30 2 * * *", "Europe/Berlin", schedules.DSTGapSkip, schedules.DSTOverlapFirst, "2026-03-28T12:00:00Z",
			[]string{"2026-03-30T00:30:00Z"}},
		{"*/30 * * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"}},
		{"30 2 * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"30 2 * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapLast, "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
		{"30 2 * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapBoth, "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
		{"0 0 * * *", "America/Havana", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-03-07T12:00:00Z",
			[]string{"2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"}},
		{"15 2 * * *", "Australia/Lord_Howe", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-10-03T00:00:00Z",
			[]string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		{"15 * * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-10-24T23:20:00Z",
			[]string{"2026-10-25T00:15:00Z", "2026-10-25T01:15:00Z", "2026-10-25T02:15:00Z"}},
		{"15 * * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapLast, "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T00:15:00Z", "2026-03-29T01:15:00Z"}},
		{"*/20 2 * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-10-25T00:30:00Z",
			[]string{"2026-10-25T00:40:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:20:00Z"}},
		{"0 0/2 * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-10-24T22:30:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T03:00:00Z"}},
		{"@hourly", "America/New_York", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-11-01T05:30:00Z",
			[]string{"2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"}},
		{"* 30 2 * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-10-25T00:30:58Z",
			[]string{"2026-10-25T00:30:59Z", "2026-10-26T01:30:00Z"}},
		{"0 1-3 * * *", "Europe/Berlin", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-10-25T00:00:00Z",
			[]string{"2026-10-25T02:00:00Z"}},
		{"*/20 * * * * *", "Asia/Tokyo", schedules.DSTGapShift, schedules.DSTOverlapFirst, "2026-01-01T00:00:05Z",
			[]string{"2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z", "2026-01-01T00:01:00Z"}},
	} {
		expression, err := Parse(c.expression)
		require.NoError(t, err)
		zone, err := time.LoadLocation(c.zone)
		require.NoError(t, err)
		var slots []string
		for _, slot := range (Times{Expression: expression, Zone: zone, Gap: c.gap, Overlap: c.overlap}).Upcoming(at(t, c.after), len(c.slots)) {
			slots = append(slots, slot.Format(time.RFC3339))
		}
		assert.Equal(t, c.slots, slots, "%s in %s, %s, %s", c.expression, c.zone, c.gap, c.overlap)
	}
}

func TestIntervals(t *testing.T) {
	t.Parallel()

	times := Times{Every: 90 * time.Second, Anchor: at(t, "2026-01-01T00:00:00Z"), Start: at(t, "2026-01-01T00:01:00Z"),
		End: at(t, "2026-01-01T00:04:30Z")}
	assert.Equal(t, []time.Time{at(t, "2026-01-01T00:01:30Z"), at(t, "2026-01-01T00:03:00Z")}, times.Upcoming(at(t, "2025-01-01T00:00:00Z"),
		5))
	times.Start = times.Anchor
	assert.Equal(t, times.Anchor, times.Next(at(t, "2025-01-01T00:00:00Z")), "the interval begins with a slot")
	// A Duration cannot hold so long a time.
	times = Times{Every: time.Second, Anchor: at(t, "1500-01-01T00:00:00.5Z")}
	assert.Equal(t, at(t, "2026-01-01T00:00:00.5Z"), times.Next(at(t, "2026-01-01T00:00:00Z")))
	assert.Equal(t, at(t, "2026-01-01T00:00:01.5Z"), times.Next(at(t, "2026-01-01T00:00:00.5Z")))
}
