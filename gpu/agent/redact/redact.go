// Package redact removes secrets from the output of runtimes before it leaves the machine.
package redact

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

// secretShapes are the patterns of secrets in any text. A match is replaced except
// for its group.
var secretShapes = []struct {
	shape *regexp.Regexp
	kept  string
}{
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), ""},
	{regexp.MustCompile(`(?i)\b(bearer|basic) +[\w.~+/=-]{8,}`), "$1 "},
	{regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@:"'<>]*:[^\s/"'<>]+@`), "$1"}, // user:password@
	{regexp.MustCompile(`(https?://[^\s?"'<>]+\?)[^\s"'<>]+`), "$1"},                       // the query of a signed link
	{regexp.MustCompile(`\b(?:rlw?|hf|gh[pousr])_[\w-]{16,}`), ""},
	{regexp.MustCompile(`\bwhsec_[\w+/=-]{8,}`), ""},
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`), ""},                                    // AWS access keys
	{regexp.MustCompile(`\bAIza[\w-]{35}`), ""},                                                  // Google API keys
	{regexp.MustCompile(`\bya29\.[\w.-]{16,}`), ""},                                              // and access tokens
	{regexp.MustCompile(`\bsk-[\w-]{20,}`), ""},                                                  // OpenAI and similar APIs
	{regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*`), ""},                                // JSON web tokens
	{regexp.MustCompile(`(?i)(` + secretName + `[\w-]*["']? *[:=] *["']?)[^\s"',;&]{8,}`), "$1"}, // name=value
}

// secretName matches the names of secret settings.
const secretName = `(?:secret|token|passw(?:or)?d|passphrase|credential|api[_-]?key|access[_-]?key|private[_-]?key)`

var secretSetting = regexp.MustCompile(`(?i)` + secretName + `|(?:^|_)(?:key|auth|pass|pat)$`)

// Redactor removes secrets from texts.
type Redactor struct {
	// values are the secret settings of this process and its runtimes, longest
	// first because one may be the beginning of another.
	values []string
}

// New returns a redactor. It finds the secrets among NAME=value settings by their names.
func New(environment []string) *Redactor {
	const shortest = 6 // a shorter value is no secret and would match ordinary text
	r := &Redactor{}
	for _, setting := range environment {
		name, value, _ := strings.Cut(setting, "=")
		if len(value) >= shortest && secretSetting.MatchString(name) {
			r.values = append(r.values, value)
		}
	}
	slices.SortFunc(r.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return r
}

// Clean returns text without its secrets.
func (r *Redactor) Clean(text string) string {
	for _, value := range r.values {
		text = strings.ReplaceAll(text, value, Mark)
	}
	for _, s := range secretShapes {
		text = s.shape.ReplaceAllString(text, s.kept+Mark)
	}
	return text
}
