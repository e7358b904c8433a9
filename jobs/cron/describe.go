package cron

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	parser "github.com/netresearch/go-cron"
)

// most is how many times of a day, or values of a field, a description lists.
const most = 4

// Describe says in words when the schedule fires: "every weekday at 09:00, Europe/Berlin".
func (t Times) Describe() string {
	if t.Expression == nil {
		return t.Words()
	}
	return fmt.Sprintf("%s, %s", t.Words(), t.Zone)
}

// Words is Describe without the zone.
func (t Times) Words() string {
	if t.Expression == nil {
		return "every " + interval(t.Every)
	}
	return t.Expression.Describe()
}

func interval(every time.Duration) string {
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		if every%unit.size == 0 {
			return many(int(every/unit.size), unit.name)
		}
	}
	return many(int(every/time.Second), "second")
}

// many returns "day" or "2 days".
func many(n int, unit string) string {
	if n == 1 {
		return unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// Describe says in words which local times match: "every weekday at 09:00".
func (e *Expression) Describe() string {
	days, times := e.days(), e.clock()
	switch months := e.months(); {
	case months != "" && days == "":
		days = "every day " + months
	case months != "":
		days += " " + months
	}
	switch {
	case strings.HasPrefix(times, "at "):
		if days == "" {
			days = "every day"
		}
		return days + " " + times
	case days == "":
		return times
	default:
		return times + ", " + days
	}
}

// values are what a field matches, in ascending order.
type values []int

func valuesOf(set uint64, low, high int) (v values) {
	for n := low; n <= high; n++ {
		if set&(1<<n) != 0 {
			v = append(v, n)
		}
	}
	return v
}

// step returns n if the values are every nth of a field that has size values and begins at 0, without
// a shorter step at its end: "every 45 minutes" is true of no field. Otherwise it returns 0.
func (v values) step(size int) int {
	if len(v) < 2 || v[0] != 0 || size%v[1] != 0 || len(v) != size/v[1] {
		return 0
	}
	for i := range v {
		if v[i] != i*v[1] {
			return 0
		}
	}
	return v[1]
}

// clock describes the second, minute and hour.
func (e *Expression) clock() string {
	second, minute, hour := valuesOf(e.spec.Second, 0, 59), valuesOf(e.spec.Minute, 0, 59), valuesOf(e.spec.Hour, 0, 23)
	if len(second) == 1 && len(minute)*len(hour) <= most {
		var times []string
		for _, h := range hour {
			for _, m := range minute {
				at := fmt.Sprintf("%02d:%02d", h, m)
				if second[0] != 0 {
					at += fmt.Sprintf(":%02d", second[0])
				}
				times = append(times, at)
			}
		}
		return "at " + and(times)
	}
	every, seconds := hour.step(24), !slices.Equal(second, values{0})
	if !seconds && slices.Equal(minute, values{0}) {
		if every > 0 {
			return "every " + many(every, "hour")
		}
		if len(hour) == hour[len(hour)-1]-hour[0]+1 { // "until 18:00" would mean that it fires then, too
			return fmt.Sprintf("on the hour, from %02d:00 to %02d:00", hour[0], hour[len(hour)-1])
		}
		return "on the hour, " + hours(hour)
	}
	var parts []string
	if of := "every minute"; seconds {
		if minute.step(60) != 1 {
			of = "the minute"
		}
		parts = append(parts, part(second, "second", 60, of))
	}
	if minute.step(60) != 1 || !seconds {
		of := "every hour"
		if every != 1 {
			of = "the hour"
		}
		parts = append(parts, part(minute, "minute", 60, of))
	}
	switch {
	case every > 1:
		parts = append(parts, "in every "+ordinal(every)+" hour from 00:00")
	case every == 0:
		parts = append(parts, hours(hour))
	}
	return strings.Join(parts, ", ")
}

// part describes a field: "every 5 minutes", or "in minutes 5 and 35 of every hour".
func part(v values, unit string, size int, of string) string {
	if n := v.step(size); n > 0 {
		return "every " + many(n, unit)
	}
	if len(v) == 1 {
		return fmt.Sprintf("in %s %d of %s", unit, v[0], of)
	}
	return fmt.Sprintf("in %ss %s of %s", unit, list(v, strconv.Itoa), of)
}

// hours describes a part of the day: "from 09:00 until 18:00", or "in the hours 9, 12 and 15".
func hours(v values) string {
	if len(v) == v[len(v)-1]-v[0]+1 {
		return fmt.Sprintf("from %02d:00 until %02d:00", v[0], v[len(v)-1]+1)
	}
	return "in the hours " + list(v, strconv.Itoa)
}

const (
	weekdays = 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<5
	weekend  = 1<<0 | 1<<6
	allWeek  = weekdays | weekend
)

// days describes the days of the month and of the week, or returns "" for every day.
func (e *Expression) days() string {
	var names []string
	if e.spec.Dow&allWeek != allWeek {
		names = e.weekdays()
	}
	dates := e.dates()
	// With both days, either is enough. If one is written as all its values, each day matches.
	const star = 1 << 63
	if e.spec.Dom&star == 0 && e.spec.Dow&star == 0 && (len(names) == 0 || len(dates) == 0) {
		return ""
	}
	switch {
	case len(names) == 0 && len(dates) == 0:
		return ""
	case len(dates) == 0:
		return and(names)
	case len(names) == 0:
		return and(dates) + " of the month"
	default:
		return and(dates) + " of the month or " + and(names)
	}
}

func (e *Expression) weekdays() (names []string) {
	weekday := func(day int) string { return time.Weekday(day % 7).String() }
	switch set := e.spec.Dow & allWeek; {
	case set == weekdays:
		names = append(names, "every weekday")
	case set == weekend:
		names = append(names, "every Saturday and Sunday")
	case set != 0:
		// A week begins on Monday, as people read it.
		names = append(names, "every "+list(valuesOf(set&^1|set&1<<7, 1, 7), weekday))
	}
	for _, c := range e.spec.DowConstraints {
		which := "last"
		if c.N > 0 {
			which = ordinal(c.N)
		}
		names = append(names, fmt.Sprintf("the %s %s of the month", which, weekday(c.Weekday)))
	}
	return names
}

func (e *Expression) dates() (dates []string) {
	set := valuesOf(e.spec.Dom, 1, 31)
	if len(set) == 31 {
		return nil
	}
	switch {
	case len(set) == 1:
		dates = append(dates, "day "+strconv.Itoa(set[0]))
	case len(set) > 1:
		dates = append(dates, "days "+list(set, strconv.Itoa))
	}
	for _, c := range e.spec.DomConstraints {
		switch c.Type {
		case parser.DomLast:
			dates = append(dates, "the last day")
		case parser.DomLastOffset:
			dates = append(dates, many(c.N, "day")+" before the last")
		case parser.DomLastWeekday:
			dates = append(dates, "the last weekday")
		case parser.DomNearestWeekday:
			dates = append(dates, "the weekday nearest to day "+strconv.Itoa(c.N))
		}
	}
	return dates
}

// months describes the months, or returns "" for all.
func (e *Expression) months() string {
	set := e.spec.Month & (1<<13 - 2)
	if bits.OnesCount64(set) == 12 {
		return ""
	}
	return "in " + list(valuesOf(set, 1, 12), func(m int) string { return time.Month(m).String() })
}

// list names values, and runs of three or more by their ends.
func list(v values, name func(int) string) string {
	var names []string
	for i := 0; i < len(v); {
		end := i
		for end+1 < len(v) && v[end+1] == v[end]+1 {
			end++
		}
		if end-i >= 2 {
			names = append(names, name(v[i])+" to "+name(v[end]))
			i = end + 1
			continue
		}
		names = append(names, name(v[i]))
		i++
	}
	return and(names)
}

func and(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func ordinal(n int) string {
	switch {
	case n == 1:
		return "first"
	case n == 2:
		return "second"
	case n == 3:
		return "third"
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprintf("%drd", n)
	default:
		return fmt.Sprintf("%dth", n)
	}
}
