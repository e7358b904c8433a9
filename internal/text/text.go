package text

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the maximum length of names that people and agents choose.
const MaxName = 200

// Clip cuts a text to limit bytes and marks the cut with an ellipsis.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// escapes are the sequences that programs write for a terminal, such as those of colours, titles and
// links (ECMA-48).
var escapes = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]`)

// WithoutEscapes removes escape sequences of terminals, such as those of colours.
func WithoutEscapes(s string) string {
	if !strings.ContainsAny(s, "\x1b\u009b") {
		return s
	}
	return escapes.ReplaceAllString(s, "")
}

// Printable makes text from a worker safe to show on a page or a terminal: it removes escape
// sequences, and characters that are not printable, except newlines and tabs.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, WithoutEscapes(strings.ToValidUTF8(s, "\uFFFD")))
}

// Valid reports whether s has from least to most characters, all of them printable.
func Valid(s string, least, most int) bool {
	n := utf8.RuneCountInString(s)
	return n >= least && n <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, invisible)
}

// invisible reports whether a character is a control or format character, a space other than
// U+0020, or none. Characters that this program's version of Unicode does not know are visible:
// they may be those of a newer one.
func invisible(r rune) bool {
	return !unicode.IsPrint(r) && (unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Z) || unicode.Is(unicode.Noncharacter_Code_Point,
		r))
}

// ValidForm is a regular expression, in the syntax that all languages share, for the texts that
// [Valid] accepts, except for a few characters beyond U+00FF.
const ValidForm = `^[^\x00-\x1f\x7f-\xa0\xad]*$`

// ValidWordsForm is [ValidForm] for texts that are not only spaces.
const ValidWordsForm = `^[^\x00-\x1f\x7f-\xa0\xad]*[^\x00-\x20\x7f-\xa0\xad][^\x00-\x1f\x7f-\xa0\xad]*$`

// ValidNameForm is [ValidForm] for texts that neither begin nor end with a space.
const ValidNameForm = `^[^\x00-\x20\x7f-\xa0\xad]([^\x00-\x1f\x7f-\xa0\xad]*[^\x00-\x20\x7f-\xa0\xad])?$`

// A returns a noun with its article, such as "a PRO job" or "an ENTERPRISE job".
func A(noun string) string {
	if noun != "" && strings.ContainsRune("aeiouAEIOU", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// Count returns a number with a noun, such as "1 job", "2 jobs" or "3 tries".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, is := strings.CutSuffix(what, "y"); is && stem != "" && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])) {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Join lists words, separated by commas.
func Join[T ~string](words []T) string {
	plain := make([]string, len(words))
	for i, word := range words {
		plain[i] = string(word)
	}
	return strings.Join(plain, ", ")
}
