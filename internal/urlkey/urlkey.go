// Package urlkey finds API keys in URLs. They must not be there, because logs and browser
// histories keep URLs.
package urlkey

import (
	"net/url"
	"slices"
	"strings"
)

// Refusal is the error message for a request whose URL contains a key.
const Refusal = "Send the key in the header Authorization: Bearer rl_…, never in the URL, which logs keep. If the key in this URL is real, revoke it."

// IsIn reports whether a parameter of a URL has the name of a key, or a value that begins
// like a key or a worker's token.
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
