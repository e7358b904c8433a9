package support

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// hidden stands for what was removed.
const hidden = "[removed]"

// secretForms match secrets by their form, with what remains of them.
var secretForms = []struct {
	form *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\b(rl_(?:live|test)_|whsec_|tok_|sk-)[A-Za-z0-9_+/=-]+`), "${1}" + hidden},
	{regexp.MustCompile(`([a-z][a-z0-9+.-]*://)[^/@\s"]+@`), "${1}" + hidden + "@"},
	{regexp.MustCompile(`(?i)\b((?:x-amz-|x-goog-)?(?:signature|credential|security-token)=)[^&\s"\\]+`), "${1}" + hidden},
	{regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`), "${1}" + hidden},
	{regexp.MustCompile(`(?i)("?(?:password|passwd|secret|token|private_?key|api_?key|access_?key|authorization)[A-Za-z_]*"?\s*[=:]\s*"?)[^\s",&}]+`),
		"${1}" + hidden},
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), hidden},
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), hidden},
}

// redactor removes secrets from texts: by their form, and those that are known.
type redactor struct{ known *strings.Replacer }

// minSecret is the length of the shortest value that is removed wherever it occurs. Shorter ones occur by
// chance.
const minSecret = 6

// newRedactor knows the values of secret settings of this process, and these.
func newRedactor(more ...string) *redactor {
	var pairs []string
	add := func(value string) {
		if len(value) >= minSecret && !slices.Contains(pairs, value) {
			pairs = append(pairs, value, hidden)
		}
	}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if secretName.MatchString(name) {
			add(value)
		}
	}
	for _, value := range more {
		add(value)
	}
	return &redactor{strings.NewReplacer(pairs...)}
}

// secretName matches the names of variables whose values are secrets.
var secretName = regexp.MustCompile(`SECRET|PASSWORD|TOKEN|_KEY$|API_KEY|CREDENTIAL`)

// redact returns a text without secrets.
func (r *redactor) redact(text string) string {
	text = r.known.Replace(text)
	for _, s := range secretForms {
		text = s.form.ReplaceAllString(text, s.with)
	}
	return text
}
