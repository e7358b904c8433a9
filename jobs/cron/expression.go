package cron

import (
	"fmt"
	"strings"
	"time"

	parser "github.com/netresearch/go-cron"
)

// MaxLength is how long an expression may be, in bytes.
const MaxLength = 256

// Expression is a parsed cron expression. It knows local times only, no zone.
type Expression struct {
	text string
	spec *parser.SpecSchedule
	// follows means that it follows real time: its minute or hour was written with a * or a step.
	follows bool
}

// syntax has what all fields accept. With a day of the month and a day of the week, an
// expression matches the days of either, as in all crons since Vixie's.
const syntax = parser.Extended | parser.DowOrDom

var (
	whole  = parser.MustNewParser(parser.Second | parser.Minute | parser.Hour | parser.Dom | parser.Month | parser.Dow | syntax)
	macros = map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}
)

// Parse reads an expression of five fields (minute, hour, day of the month, month, day of the
// week), of six, which begin with the second, or a macro such as @daily. It refuses an
// expression that no day within five years matches. An error names the field at fault.
func Parse(text string) (*Expression, error) {
	if len(text) > MaxLength {
		return nil, fmt.Errorf("it has %d bytes; at most %d are allowed", len(text), MaxLength)
	}
	given := strings.Fields(text)
	if len(given) == 0 {
		return nil, fmt.Errorf("it is empty: give five fields, such as \"0 9 * * MON-FRI\"")
	}
	if strings.HasPrefix(given[0], "@") {
		expanded, ok := macros[strings.ToLower(given[0])]
		switch {
		case strings.EqualFold(given[0], "@every"):
			return nil, fmt.Errorf("@every is not a cron expression: use everySeconds instead")
		case !ok || len(given) > 1:
			return nil, fmt.Errorf("%q is not a macro: use @yearly, @monthly, @weekly, @daily or @hourly", text)
		}
		given = strings.Fields(expanded)
	}
	if strings.Contains(given[0], "=") {
		return nil, fmt.Errorf("an expression has no zone: give the zone in timezone")
	}
	switch len(given) {
	case len(fields) - 1:
		given = append([]string{"0"}, given...)
	case len(fields):
	default:
		return nil, fmt.Errorf("it has %d fields: give five (minute, hour, day of the month, month, day of the week) or six (the second first)",
			len(given))
	}
	e := &Expression{text: text}
	for n, value := range given {
		set, err := fields[n].read(value)
		if err != nil {
			return nil, err
		}
		e.follows = e.follows || set.stepped && (n == fieldMinute || n == fieldHour)
		given[n] = set.String()
	}
	parsed, err := whole.Parse(strings.Join(given, " "))
	if err != nil {
		return nil, fmt.Errorf("it is not a cron expression: %w", err)
	}
	spec, ok := parsed.(*parser.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q is not a cron expression", text)
	}
	e.spec = spec
	if e.next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("no day within five years matches it: check the day and the month")
	}
	return e, nil
}

// String returns the expression as it was given.
func (e *Expression) String() string { return e.text }

// next returns the first matching local time after another, both written as if they were UTC,
// or zero if none follows within five years. The library never sees the zone: no library has
// our rules for daylight saving.
func (e *Expression) next(after time.Time) time.Time { return e.spec.Next(after) }
