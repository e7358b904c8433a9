package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/reelay/reelay/internal/text"
)

// Unknown is shown for unknown values.
const Unknown = "n/a"

// Since returns roughly how long ago t was.
func Since(t, now time.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return text.Since(t, now)
}

// Duration formats a duration in its two largest units.
func Duration(d time.Duration) string {
	if d < 0 {
		return Unknown
	}
	return text.Duration(d)
}

// Moment formats a time in UTC, to the minute, with the year if that is not the current one.
func Moment(t time.Time) string { return text.Moment(t.UTC(), time.Now()) }

// Seconds is Duration for a number of seconds, or n/a for nil.
func Seconds(s *float64) string {
	if s == nil {
		return Unknown
	}
	return Duration(time.Duration(*s * float64(time.Second)))
}

// Between formats the time from one moment to another, or returns n/a if either is
// unknown.
func Between(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return Unknown
	}
	return Duration(to.Sub(from))
}

// Bytes formats a size.
func Bytes(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/1000, 0
	for size >= 999.95 && unit < 3 {
		size, unit = size/1000, unit+1
	}
	return fmt.Sprintf("%.1f %cB", size, "kMGT"[unit])
}

// Count formats a number with separated thousands. Beyond limit, only "more" is known.
func Count(n, limit int) string {
	if limit > 0 && n > limit {
		return Count(limit, 0) + "+"
	}
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

// Percent formats a percentage.
func Percent(p float64) string { return fmt.Sprintf("%.0f %%", p) }

// Short returns the end of an id, which differs even between ids of the same moment.
func Short(id string) string {
	kind, rest, ok := strings.Cut(id, "_")
	if !ok || len(rest) < 8 {
		return id
	}
	return kind + "…" + rest[len(rest)-8:]
}

// Clip shortens a text to so many characters.
func Clip(s string, limit int) string {
	s = strings.Join(strings.Fields(s), " ")
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}

// longPart is the length from which a word is broken elsewhere than at slashes, and of its longest
// pieces. A piece that ends with a mark has at least shortPart characters.
const longPart, shortPart = 20, 6

// breaks splits a text where its lines may break besides at spaces: after slashes, in long words also
// after other marks, and in long pieces without any mark wherever they are too long.
func breaks(text string) (parts []string) {
	var part strings.Builder
	for word := range strings.SplitAfterSeq(text, " ") {
		long, runes := utf8.RuneCountInString(word) > longPart, []rune(word)
		since := 0 // the last break, or the begin of the word
		for i, r := range runes {
			part.WriteRune(r)
			n := i + 1 - since
			ends := r == '/' && !(i+1 < len(runes) && runes[i+1] == '/') ||
				long && (n >= shortPart && strings.ContainsRune(".?&=@,;_-", r) || n == longPart && i+1 < len(runes))
			if ends {
				parts, since = append(parts, part.String()), i+1
				part.Reset()
			}
		}
	}
	if part.Len() > 0 {
		parts = append(parts, part.String())
	}
	return parts
}

// Upright replaces the marks for the direction of writing (bidirectional overrides,
// embeddings and isolates) with their names. They could show the text, and what is beside
// it, in a misleading order. Text in right-to-left scripts needs no such marks.
func Upright(text string) string { return named.Replace(text) }

var named = strings.NewReplacer(
	"\u202a", "[U+202A]", "\u202b", "[U+202B]", "\u202c", "[U+202C]", "\u202d", "[U+202D]", "\u202e", "[U+202E]",
	"\u2066", "[U+2066]", "\u2067", "[U+2067]", "\u2068", "[U+2068]", "\u2069", "[U+2069]",
)

// exact formats a time to the millisecond, in RFC 3339.
func exact(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func number(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

// share limits f to the range from 0 to 100.
func share(f float64) string { return number(min(max(f, 0), 100)) }
