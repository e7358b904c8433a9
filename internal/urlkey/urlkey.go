// Package urlkey finds API keys where they must not be: in URLs, which logs and
// histories keep.
package urlkey

import (
	"net/url"
	"slices"
	"strings"
)

// Refusal is what is said of a request whose URL holds a key.
const Refusal = "Send the key in the header Authorization: Bearer rl_…, never in the URL, which logs keep. If this one was real, revoke it."

// IsIn tells whether a parameter of a URL has a name that keys go by, or a value
// that begins as a key or a worker's token does.
func IsIn(query url.Values) bool {
	for name, values := range query {
		if slices.Contains([]string{"key", "api_key", "apikey", "token", "access_token", "authorization"}, strings.ToLower(name)) {
			return true
		}
		if slices.ContainsFunc(values, looksLikeKey) {
			return true
		}
	}
	return false
}

func looksLikeKey(value string) bool {
	return strings.HasPrefix(value, "rl_") || strings.HasPrefix(value, "rlw_")
}
