package change

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/reelay/reelay/models"
)

// fingerprint identifies the cause of a failure by 16 hexadecimal characters, derived from
// class, model and reason. Reasons that differ only in what varies from job to job (numbers,
// ids, paths, addresses, timings) have the same fingerprint.
func fingerprint(class models.FailureClass, model, reason string) string {
	sum := sha256.Sum256([]byte(string(class) + "\x00" + model + "\x00" + Cause(reason)))
	return hex.EncodeToString(sum[:8])
}

// causeRules remove from a reason what differs between two jobs that failed for the same
// cause. Each rule sees the result of those before it.
var causeRules = []struct {
	pattern *regexp.Regexp
	becomes string
}{
	// URLs.
	{regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^\s"'<>()\[\],;]+`), "#"},
	// Paths: absolute, or of three parts or more.
	{regexp.MustCompile(`(^|[^\w./])(?:~|\.{1,2})?(?:/[\w.@%+~=-]+)+/?`), "$1#"},
	{regexp.MustCompile(`[\w.@%+~=-]+(?:/[\w.@%+~=-]+){2,}/?`), "#"},
	// UUIDs, with or without the prefix of our ids.
	{regexp.MustCompile(`(?:\b[a-z]+_)?\b?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "#"},
	// Addresses: a host with its port, IPv6.
	{regexp.MustCompile(`\[[0-9a-f]*:[0-9a-f:.]+\](?::\d+)?`), "#"},
	{regexp.MustCompile(`\b[\w-]+(?:\.[\w-]+)+:\d+`), "#"},
	{regexp.MustCompile(`\b[0-9a-f]{1,4}(?:::?[0-9a-f]{1,4})*::?(?:[0-9a-f]{0,4}\d[0-9a-f]{0,4})\b`), "#"},
	// Digests and the like that happen to contain no digit.
	{regexp.MustCompile(`\b[0-9a-f]{8,}\b`), "#"},
	// Every word with a digit in it: numbers, 250ms, 0x7f3a, worker7.
	{regexp.MustCompile(`[\p{L}\p{Nd}_]*\p{Nd}[\p{L}\p{Nd}_]*`), "#"},
	// The remains of 3.5, -1, 10:04:05, [1, 2, 3] become one mark.
	{regexp.MustCompile(`(^|[\s=(\[])[-+]#`), "$1#"},
	{regexp.MustCompile(`#(?:[\s.,:;+/-]*#)+`), "#"},
	// A unit goes with its number: 900 ms and 1 second have the same cause.
	{regexp.MustCompile(`#\s*(?:(?:nano|micro|milli)?seconds?|[nuµm]?s|secs?|m|min|minutes?|h|hours?|[kmgt]i?b|bytes?|%)(\W|$)`), "#$1"},
}

// Cause returns a reason without what varies from job to job.
func Cause(reason string) string {
	text := strings.ToLower(reason)
	for _, rule := range causeRules {
		text = rule.pattern.ReplaceAllString(text, rule.becomes)
	}
	return strings.Join(strings.Fields(text), " ")
}
