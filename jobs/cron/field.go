package cron

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	parser "github.com/netresearch/go-cron"
)

// field is one of the fields of an expression. Its values are low to high, of which the names are the
// first ones.
type field struct {
	name, allowed string
	low, high     int
	names         []string
	// most is the largest step: */7 in a week is its first day, and */60 in an hour is a mistake.
	most int
	// special matches what only this field has, such as L, in upper case.
	special *regexp.Regexp
	option  parser.ParseOption
}

const (
	fieldSecond = iota
	fieldMinute
	fieldHour
	fieldDay
	fieldMonth
	fieldWeekday
)

var (
	monthNames = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	dayNames   = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
)

// fields are those of an expression with seconds.
var fields = [...]field{
	fieldSecond: {name: "second", allowed: "0-59", low: 0, high: 59, most: 59, option: parser.Second},
	fieldMinute: {name: "minute", allowed: "0-59", low: 0, high: 59, most: 59, option: parser.Minute},
	fieldHour:   {name: "hour", allowed: "0-23", low: 0, high: 23, most: 23, option: parser.Hour},
	fieldDay: {name: "day of the month", allowed: "1-31, L (the last), L-3, 15W (the nearest weekday), LW", low: 1, high: 31, most: 31,
		special: regexp.MustCompile(`^(L|L-[0-9]{1,2}|[0-9]{1,2}W|LW)$`), option: parser.Dom},
	fieldMonth: {name: "month", allowed: "1-12 or JAN-DEC", low: 1, high: 12, most: 12, names: monthNames, option: parser.Month},
	fieldWeekday: {name: "day of the week", allowed: "0-7 or SUN-SAT (0 and 7 are Sunday), MON#2 (the second Monday), FRIL (the last Friday)",
		low: 0, high: 6, most: 7, names: dayNames, special: regexp.MustCompile(`^([0-7]|[A-Z]{3})(#[1-5]|L)$`), option: parser.Dow},
}

// set is what a field matches: all, or values in ascending order and special terms, as the library
// reads them.
type set struct {
	all    bool
	values values
	terms  []string
	// stepped means that it was written with a * or a step.
	stepped bool
}

// read reads a field: a list of values, ranges and steps. The library never sees these: it takes THU for
// a hash, and counts eight days of a week.
func (f *field) read(text string) (s set, err error) {
	refused := fmt.Errorf("the %s %q is not allowed: it takes %s, and lists, ranges and steps of these", f.name, text, f.allowed)
	for part := range strings.SplitSeq(strings.ToUpper(text), ",") {
		if f.special != nil && f.special.MatchString(part) {
			term, ok := f.term(part)
			if !ok {
				return s, refused
			}
			s.terms = append(s.terms, term)
			continue
		}
		span, step, stepped := strings.Cut(part, "/")
		n := 1
		if stepped {
			var ok bool
			if n, ok = number(step); !ok || n == 0 {
				return s, refused
			}
		}
		first, last, ok := f.span(span, stepped)
		if !ok {
			return s, refused
		}
		if n > f.most {
			return s, f.tooLarge(text, n, first)
		}
		wild := span == "*" || span == "?"
		s.all = s.all || wild && n == 1
		s.stepped = s.stepped || wild || stepped
		for value := first; value <= last; value += n {
			s.values = append(s.values, f.wrap(value))
		}
	}
	slices.Sort(s.values)
	s.values = slices.Compact(s.values)
	return s, nil
}

// tooLarge says what an expression with a step as large as the whole field means.
func (f *field) tooLarge(text string, step, first int) error {
	return fmt.Errorf("the %s %q is not allowed: a step of %d is more than the field has, so that it would match %d only: write %d in its place", f.name, text, step, f.wrap(first), f.wrap(first))
}

// span reads the values before a step, first to last; last is beyond the field if the range wraps.
func (f *field) span(text string, stepped bool) (first, last int, ok bool) {
	if text == "*" || text == "?" {
		return f.low, f.high, true
	}
	from, to, isRange := strings.Cut(text, "-")
	if first, ok = f.value(from); !ok {
		return 0, 0, false
	}
	switch {
	case isRange:
		if last, ok = f.value(to); !ok {
			return 0, 0, false
		}
	case stepped: // 5/15 is 5-59/15
		last = max(first, f.high)
	default:
		last = first
	}
	if f.option == parser.Dow && first == 7 && last < 7 { // Sunday begins the week
		first = 0
	}
	if last < first {
		last += f.high - f.low + 1
	}
	return first, last, true
}

// wrap returns the value of the field that one beyond its end means.
func (f *field) wrap(value int) int { return f.low + (value-f.low)%(f.high-f.low+1) }

// value reads a value: a number or a name. A Sunday can be 7.
func (f *field) value(text string) (int, bool) {
	if i := slices.Index(f.names, text); i >= 0 {
		return f.low + i, true
	}
	n, ok := number(text)
	if f.option == parser.Dow && n == 7 {
		return n, ok
	}
	return n, ok && n >= f.low && n <= f.high
}

// number reads a number of ASCII digits that is not absurdly long.
func number(text string) (int, bool) {
	if text == "" || len(text) > 9 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// term returns a special term as the library wants it, with numbers for names.
func (f *field) term(text string) (string, bool) {
	if f.option != parser.Dow {
		if day, ok := strings.CutSuffix(text, "W"); ok && day != "L" {
			n, ok := f.value(day)
			return fmt.Sprintf("%dW", n), ok
		}
		if back, ok := strings.CutPrefix(text, "L-"); ok {
			n, ok := number(back)
			return fmt.Sprintf("L-%d", n), ok && n >= 1 && n <= 30
		}
		return text, true
	}
	day, which, nth := strings.Cut(text, "#")
	if !nth { // Quartz writes the last one 5L, and the library 5#L
		day, which = strings.TrimSuffix(text, "L"), "L"
	}
	n, ok := f.value(day)
	return fmt.Sprintf("%d#%s", f.wrap(n), which), ok
}

// String writes a set as the library reads it.
func (s set) String() string {
	if s.all && len(s.terms) == 0 {
		return "*"
	}
	parts := slices.Clone(s.terms)
	for _, value := range s.values {
		parts = append(parts, strconv.Itoa(value))
	}
	return strings.Join(parts, ",")
}
