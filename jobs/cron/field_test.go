package cron

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// known has expressions, a time, and the next times that match, as other crons compute them: croniter 6 and
// robfig/cron 3 ("both"), or one of the two where the other refuses the expression or has a mistake.
//
//go:embed testdata/times.tsv
var known string

func TestTimesAgreeWithOtherCrons(t *testing.T) {
	t.Parallel()

	const layout = "2006-01-02T15:04:05"
	for line := range strings.Lines(known) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, columns, 4)
		expression, err := Parse(columns[1])
		require.NoError(t, err, line)
		at, err := time.Parse(layout, columns[2])
		require.NoError(t, err)
		var next []string
		for range strings.Fields(columns[3]) {
			at = expression.next(at)
			next = append(next, at.Format(layout))
		}
		require.Equal(t, columns[3], strings.Join(next, " "), line)
	}
}

func TestFields(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		field int
		text  string
		want  string
	}{
		{fieldWeekday, "SAT-TUE/2", "1,6"},
		{fieldWeekday, "fri-mon/2", "0,5"},
		{fieldWeekday, "SAT-TUE", "0,1,2,6"},
		{fieldWeekday, "SUN-SAT/3", "0,3,6"},
		{fieldWeekday, "6-0", "0,6"},
		{fieldWeekday, "7-2", "0,1,2"},
		{fieldWeekday, "5-7", "0,5,6"},
		{fieldWeekday, "1-7/2", "0,1,3,5"},
		{fieldWeekday, "7", "0"},
		{fieldWeekday, "0,7,SUN", "0"},
		{fieldWeekday, "*/2", "0,2,4,6"},
		{fieldWeekday, "THU", "4"},
		{fieldWeekday, "tHu#5", "4#5"},
		{fieldWeekday, "SUNL", "0#L"},
		{fieldWeekday, "7L", "0#L"},
		{fieldWeekday, "7#1", "0#1"},
		{fieldWeekday, "?", "*"},
		{fieldSecond, "50-10/15", "5,50"},
		{fieldMinute, "55-5/5", "0,5,55"},
		{fieldMinute, "5/15", "5,20,35,50"},
		{fieldMinute, "*/1", "*"},
		{fieldMinute, "1,1,01,001", "1"},
		{fieldHour, "22-3/2", "0,2,22"},
		{fieldHour, "23-22", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23"},
		{fieldDay, "29-3/2", "2,29,31"},
		{fieldDay, "lw,L-3,15w,1", "LW,L-3,15W,1"},
		{fieldMonth, "nov-FEB/2", "1,11"},
		{fieldMonth, "*/12", "1"},
		{fieldMonth, "10-3/3", "1,10"},
	} {
		f := fields[c.field]
		set, err := f.read(c.text)
		require.NoError(t, err, c.text)
		assert.Equal(t, c.want, set.String(), "%s %s", f.name, c.text)
	}
}

// anExpression is drawn from all that the fields accept.
func anExpression(r *rand.Rand) string {
	field := func(f field) string {
		var parts []string
		for range 1 + r.IntN(3) {
			value := func() int { return f.low + r.IntN(f.high-f.low+1) }
			part := "*"
			switch r.IntN(5) {
			case 0, 1:
				part = strconv.Itoa(value())
			case 2:
				part = fmt.Sprintf("%d-%d", value(), value())
			}
			if r.IntN(3) == 0 {
				part += fmt.Sprintf("/%d", 1+r.IntN(f.most))
			}
			if part == "*" && len(parts) > 0 {
				continue
			}
			parts = append(parts, part)
			if part == "*" {
				break
			}
		}
		return strings.Join(parts, ",")
	}
	all := make([]string, len(fields))
	for n, f := range fields {
		if all[n] = field(f); n >= fieldDay && r.IntN(3) > 0 {
			all[n] = "*"
		}
	}
	if r.IntN(2) == 0 {
		all[fieldSecond] = "0"
	}
	return strings.Join(all, " ")
}

// TestDescriptionsAreTrue reads the times of a day back out of the words, and compares them with those at
// which the expression fires.
func TestDescriptionsAreTrue(t *testing.T) {
	t.Parallel()

	r := rand.New(rand.NewPCG(7, 11)) //nolint:gosec // the same each time
	for range 300 {
		text := anExpression(r)
		expression, err := Parse(text)
		if err != nil {
			require.ErrorContains(t, err, "no day within five years", text)
			continue
		}
		words := expression.Describe()
		first := expression.next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second))
		midnight := first.Truncate(24 * time.Hour)
		fires := map[int]bool{} // by the second of the day
		for at := first; at.Before(midnight.Add(24 * time.Hour)); at = expression.next(at) {
			fires[int(at.Sub(midnight)/time.Second)] = true
		}
		matches := spoken(t, words)
		for second := range 24 * 60 * 60 {
			if matches(second/3600, second/60%60, second%60) != fires[second] {
				require.Fail(t, "the words are not true", "%s: %q at %v", text, words, midnight.Add(time.Duration(second)*time.Second))
			}
		}
	}
}

var (
	saysTimes  = regexp.MustCompile(`\bat ((?:\d\d:\d\d(?::\d\d)?(?:, | and )?)+)$`)
	saysEvery  = regexp.MustCompile(`(?:^|, )every (?:(\d+) )?(second|minute|hour)s?\b`)
	saysIn     = regexp.MustCompile(`(?:^|, )in (second|minute)s? ((?:\d+(?: to \d+)?(?:, | and )?)+) ?of (?:every|the) (?:minute|hour)`)
	saysNth    = regexp.MustCompile(`in every (second|third|\d+)(?:th|rd|nd|st)? hour from 00:00`)
	saysUntil  = regexp.MustCompile(`from (\d\d):00 until (\d\d):00`)
	saysHours  = regexp.MustCompile(`in the hours ((?:\d+(?: to \d+)?(?:, | and )?)+)`)
	saysOnHour = regexp.MustCompile(`^on the hour, `)
)

// spoken returns the times of a day that words name.
func spoken(t *testing.T, words string) func(hour, minute, second int) bool {
	t.Helper()
	if found := saysTimes.FindStringSubmatch(words); found != nil {
		times := map[int]bool{}
		for _, at := range regexp.MustCompile(`[\d:]+`).FindAllString(found[1], -1) {
			parts := strings.Split(at+":00", ":")
			times[60*(60*atoi(t, parts[0])+atoi(t, parts[1]))+atoi(t, parts[2])] = true
		}
		return func(hour, minute, second int) bool { return times[60*(60*hour+minute)+second] }
	}
	units := map[string][]int{}
	every := func(unit, n string, size int) {
		step := 1
		if n != "" {
			step = atoi(t, n)
		}
		require.Zero(t, size%step, "every %s %ss: %s", n, unit, words)
		for v := 0; v < size; v += step {
			units[unit] = append(units[unit], v)
		}
	}
	sizes := map[string]int{"second": 60, "minute": 60, "hour": 24}
	for _, found := range saysEvery.FindAllStringSubmatch(words, -1) {
		every(found[2], found[1], sizes[found[2]])
	}
	for _, found := range saysIn.FindAllStringSubmatch(words, -1) {
		units[found[1]] = numbers(t, found[2])
	}
	if found := saysNth.FindStringSubmatch(words); found != nil {
		every("hour", map[string]string{"second": "2", "third": "3"}[found[1]]+strings.Trim(found[1], "abcdefghijklmnopqrstuvwxyz"), 24)
	}
	if found := saysUntil.FindStringSubmatch(words); found != nil {
		for hour := atoi(t, found[1]); hour < atoi(t, found[2]); hour++ {
			units["hour"] = append(units["hour"], hour)
		}
	}
	if found := saysHours.FindStringSubmatch(words); found != nil {
		units["hour"] = numbers(t, found[1])
	}
	if saysOnHour.MatchString(words) || units["hour"] != nil && units["minute"] == nil && units["second"] == nil {
		units["minute"] = []int{0}
	}
	if units["second"] == nil {
		units["second"] = []int{0}
	}
	has := func(unit string, value int) bool { return units[unit] == nil || slices.Contains(units[unit], value) }
	return func(hour, minute, second int) bool {
		return has("hour", hour) && has("minute", minute) && has("second", second)
	}
}

// numbers reads "0, 5 to 7 and 9".
func numbers(t *testing.T, words string) (all []int) {
	t.Helper()
	for part := range strings.SplitSeq(strings.ReplaceAll(words, " and ", ", "), ", ") {
		if part == "" { // the list ends with a comma, after which the days follow
			continue
		}
		first, last, isRange := strings.Cut(part, " to ")
		if !isRange {
			last = first
		}
		for n := atoi(t, first); n <= atoi(t, last); n++ {
			all = append(all, n)
		}
	}
	return all
}

func atoi(t *testing.T, digits string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(digits))
	require.NoError(t, err)
	return n
}
