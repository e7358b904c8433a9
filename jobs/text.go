package jobs

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNameRunes bounds the names that people and agents give to things.
const maxNameRunes = 200

// clip bounds what is shown of a caller's own text.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// printable makes text from a worker fit for a page and a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// validText tells whether s has so many characters, all of them printable.
func validText(s string, least, most int) bool {
	n := utf8.RuneCountInString(s)
	return n >= least && n <= most && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
