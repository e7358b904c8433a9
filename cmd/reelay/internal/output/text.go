package output

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"
	"github.com/reelay/reelay/internal/text"
)

// Clean makes text safe for a terminal: it removes escape sequences and control characters, and
// shows line breaks as spaces.
func Clean(words string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, text.WithoutEscapes(words))
}

// narrow measures text as terminals outside of East Asia do, whatever the locale.
var narrow = &runewidth.Condition{}

// Width returns how many columns of a terminal a text takes.
func Width(s string) int { return narrow.StringWidth(s) }

// Clip shortens plain text to a number of columns.
func Clip(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return narrow.Truncate(s, width, "…")
}

// Ago returns the approximate time since t, or until t.
func Ago(t time.Time) string { return text.Since(t, time.Now()) }

// Moment returns a time to the second, in the zone of the terminal.
func Moment(t time.Time) string { return text.MomentToSecond(t.Local(), time.Now()) }

// Time returns a time as the screen shows it: relative to now, or in the zone of the terminal.
func (s *Screen) Time(t time.Time) string {
	if s.Absolute {
		return Moment(t)
	}
	return Ago(t)
}

// value returns the text of a value of a column. What is unknown is a dash.
func (s *Screen) value(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		return orDash(v)
	case *string:
		if v == nil {
			return "-"
		}
		return orDash(*v)
	case time.Time:
		return s.Time(v)
	case *time.Time:
		if v == nil {
			return "-"
		}
		return s.Time(*v)
	case *int:
		if v == nil {
			return "-"
		}
		return fmt.Sprint(*v)
	case *float64:
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.4g", *v)
	case float64:
		return fmt.Sprintf("%.4g", v)
	case []string:
		return orDash(strings.Join(v, ", "))
	}
	return fmt.Sprint(v)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Since returns the approximate time since t.
func Since(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return Ago(*t)
}

// OrDash returns the value as text, or a dash if there is none.
func OrDash[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

// Size formats a number of bytes with a unit.
func Size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// Decimal returns a number with one decimal, or with none if it is whole.
func Decimal(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }
