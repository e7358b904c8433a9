package text

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Duration formats a duration in its two largest units: 0.4 s, 42 s, 2 min 08 s, 1 h 00 min, 3 days 04 h.
// Durations that are measured or expected are shown this way everywhere; live.js does the same in a
// browser. A negative duration is 0.
func Duration(d time.Duration) string {
	s := max(d, 0).Seconds()
	if s < 9.95 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", s), ".0") + " s"
	}
	switch n := int(math.Round(s)); {
	case n < 60:
		return fmt.Sprintf("%d s", n)
	case n < 3600:
		return fmt.Sprintf("%d min %02d s", n/60, n%60)
	case n < 48*3600:
		return fmt.Sprintf("%d h %02d min", n/3600, n/60%60)
	default:
		return fmt.Sprintf("%d days %02d h", n/86400, n/3600%24)
	}
}

// Seconds is Duration for a number of seconds.
func Seconds(s float64) string {
	return Duration(time.Duration(min(max(s, 0), 1e9) * float64(time.Second)))
}

// Setting formats a duration that somebody chose, without the units that are 0: 30 s, 10 min,
// 1 h 30 min, 2 days.
func Setting(d time.Duration) string {
	if d < time.Second {
		return Duration(d)
	}
	var parts []string
	left := int(d.Round(time.Second).Seconds())
	for _, unit := range []struct {
		size int
		name string
	}{{86400, "days"}, {3600, "h"}, {60, "min"}, {1, "s"}} {
		n := left / unit.size
		if n == 0 || unit.name == "days" && n == 1 { // 36 h is clearer than 1 day 12 h
			continue
		}
		left -= n * unit.size
		parts = append(parts, fmt.Sprintf("%d %s", n, unit.name))
	}
	return strings.Join(parts, " ")
}

// About formats a duration in its largest unit: 42 s, 3 min, 5 h, 2 days.
func About(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Since formats roughly how long ago t was, or how far ahead it is: 3 min ago, in 2 min 08 s.
func Since(t, now time.Time) string {
	switch d := now.Sub(t); {
	case d <= -48*time.Hour:
		return "in " + About(-d)
	case d < 0:
		return "in " + Duration(-d)
	case d < 2*time.Second:
		return "just now"
	default:
		return About(d) + " ago"
	}
}

// Moment formats a time, to the minute, in its own zone: 27 Nov 01:19 UTC. It names the year if
// that is not the year of now: 31 Dec 2025 23:50 UTC. Sentences and tables show times this way. Data
// and values that callers send are in RFC 3339.
func Moment(t, now time.Time) string { return moment(t, now, "15:04 MST") }

// MomentToSecond is Moment with seconds, for times that follow each other closely.
func MomentToSecond(t, now time.Time) string { return moment(t, now, "15:04:05 MST") }

// MomentInFull is Moment with seconds if the time has any, for times that are not rounded.
func MomentInFull(t, now time.Time) string {
	if t.Second() == 0 {
		return Moment(t, now)
	}
	return MomentToSecond(t, now)
}

func moment(t, now time.Time, clock string) string {
	day := "2 Jan "
	if t.Year() != now.In(t.Location()).Year() {
		day = "2 Jan 2006 "
	}
	return t.Format(day + clock)
}
