package cron

import (
	"math/bits"
	"time"
	_ "time/tzdata"

	"github.com/reelay/reelay/models/schedules"
)

// Times are the instants at which a schedule fires, its slots. Either Expression or Every is
// set.
type Times struct {
	Expression *Expression
	// Zone is where the expression's times are local.
	Zone *time.Location
	// Gap and Overlap are for an expression of fixed times, such as 02:30. One whose minute or hour is
	// written with a * or a step follows real time, as in Debian's cron: it fires in both of two equal
	// hours, and not for an hour that is skipped.
	Gap     schedules.DSTGap
	Overlap schedules.DSTOverlap

	// Every is a whole number of seconds of real time, counted from Anchor.
	Every  time.Duration
	Anchor time.Time

	// Slots lie from Start until before End. Zero means no limit.
	Start, End time.Time
}

// maxPeriods bounds the search: five years have at most some dozen changes of the clock.
const maxPeriods = 100

// Next returns the first slot after an instant, or zero if there is none within five years.
func (t Times) Next(after time.Time) time.Time {
	if !t.Start.IsZero() && after.Before(t.Start) {
		after = t.Start.Add(-time.Nanosecond)
	}
	slot := t.next(after)
	if !t.End.IsZero() && !slot.Before(t.End) {
		return time.Time{}
	}
	return slot
}

func (t Times) next(after time.Time) time.Time {
	if t.Expression == nil {
		if after.Before(t.Anchor) {
			return t.Anchor
		}
		// In seconds, since a Duration ends at 292 years.
		every, from := int64(t.Every/time.Second), t.Anchor.Unix()
		n := (after.Unix() - from) / every
		slot := time.Unix(from+n*every, int64(t.Anchor.Nanosecond())).UTC()
		if !slot.After(after) {
			slot = slot.Add(t.Every)
		}
		return slot
	}
	if t.Expression.follows {
		t.Gap, t.Overlap = schedules.DSTGapSkip, schedules.DSTOverlapBoth
	}
	at := after
	for range maxPeriods {
		p := periodAt(at, t.Zone)
		slot, wall := p.next(t, after)
		if !slot.IsZero() {
			return slot.UTC()
		}
		if wall.IsZero() || p.end.IsZero() {
			break
		}
		// Nothing happens until that local time, whose offset is not known yet.
		at = p.end
		if sure := wall.Add(-24 * time.Hour); sure.After(at) {
			at = sure
		}
	}
	return time.Time{}
}

// Upcoming returns the first n slots after an instant, or fewer if the schedule ends.
func (t Times) Upcoming(after time.Time, n int) []time.Time {
	slots := make([]time.Time, 0, n)
	for range n {
		if after = t.Next(after); after.IsZero() {
			break
		}
		slots = append(slots, after)
	}
	return slots
}

// period is a time during which a zone has one offset from UTC.
type period struct {
	start, end           time.Time // zero: it has none
	before, here, behind time.Duration
}

func periodAt(at time.Time, zone *time.Location) period {
	at = at.In(zone)
	p := period{here: offset(at)}
	p.before, p.behind = p.here, p.here
	p.start, p.end = at.ZoneBounds()
	if !p.start.IsZero() {
		p.before = offset(p.start.Add(-time.Nanosecond))
	}
	if !p.end.IsZero() {
		p.behind = offset(p.end)
	}
	return p
}

func offset(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

// next returns the first slot of the period after an instant. If there is none, it returns the
// next local time that matches, or zero if none does.
func (p period) next(t Times, after time.Time) (slot, wall time.Time) {
	from := after.UTC().Add(p.here) // exclusive
	if !p.start.IsZero() && p.start.After(after) {
		skipped, begins := p.start.UTC().Add(p.before), p.start.UTC().Add(p.here)
		if t.Gap == schedules.DSTGapShift && skipped.Before(begins) {
			if w := t.Expression.next(skipped.Add(-time.Nanosecond)); !w.IsZero() && w.Before(begins) {
				return p.start, w
			}
		}
		from = begins.Add(-time.Nanosecond)
	}
	if repeated := p.start.UTC().Add(p.before - time.Nanosecond); !p.start.IsZero() && t.Overlap == schedules.DSTOverlapFirst &&
		from.Before(repeated) {
		from = repeated
	}
	wall = t.Expression.next(from)
	if wall.IsZero() {
		return time.Time{}, wall
	}
	if !p.end.IsZero() {
		ends := p.end.UTC().Add(p.here)
		if again := p.end.UTC().Add(p.behind); t.Overlap == schedules.DSTOverlapLast && again.Before(ends) {
			ends = again
		}
		if !wall.Before(ends) {
			return time.Time{}, wall
		}
	}
	return wall.Add(-p.here), wall
}

// PerHour returns how many slots an hour can have, at least 1.
func (t Times) PerHour() int {
	if t.Expression == nil {
		return max(1, int((time.Hour+t.Every-1)/t.Every))
	}
	return bits.OnesCount64(t.Expression.spec.Second&(1<<60-1)) * bits.OnesCount64(t.Expression.spec.Minute&(1<<60-1))
}
