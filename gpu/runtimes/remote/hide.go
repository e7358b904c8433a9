package remote

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/reelay/reelay/gpu/agent/redact"
)

// hidden are the secrets that a client has sent: an engine, or a proxy before it, may repeat them.
type hidden struct {
	mu    sync.Mutex
	texts []string // the newest is the last
}

const (
	// shortest is the length of the shortest secret: a shorter one would match ordinary text.
	shortest = 6
	// mostHidden bounds the secrets that are kept: keys and tokens are replaced from time to time.
	mostHidden = 64
)

func (h *hidden) add(secret string) {
	if len(secret) < shortest {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(slices.DeleteFunc(h.texts, func(known string) bool { return known == secret }), secret)
	h.texts = h.texts[max(0, len(h.texts)-mostHidden):]
}

// addHeader adds the values of headers, with and without their scheme.
func (h *hidden) addHeader(header http.Header) {
	for _, values := range header {
		for _, value := range values {
			_, bare, _ := strings.Cut(value, " ")
			h.add(bare)
			h.add(value)
		}
	}
}

// forms returns what may stand for the secrets in an answer. A longer one is before one that is a part of it.
func (h *hidden) forms() (forms []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, secret := range h.texts {
		quoted, _ := json.Marshal(secret) // a text
		inJSON := strings.Trim(string(quoted), `"`)
		forms = append(forms, secret, url.QueryEscape(secret), url.PathEscape(secret), inJSON, strings.ReplaceAll(inJSON, "/", `\/`))
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(forms)
}

// Hide makes Clean replace a secret that a call has in its body.
func (c *Client) Hide(secret string) { c.hidden.add(secret) }

// Clean replaces the secrets that the client has sent.
func (c *Client) Clean(words string) string {
	for _, form := range c.hidden.forms() {
		words = strings.ReplaceAll(words, form, redact.Mark)
	}
	return words
}

// Quote makes the words of the engine fit for a message, without the secrets that they repeat.
func (c *Client) Quote(words string) string { return Quote(c.Clean(words)) }

// cleanHeader returns the headers of an answer without secrets.
func (c *Client) cleanHeader(header http.Header) http.Header {
	cleaned := make(http.Header, len(header))
	for name, values := range header {
		for _, value := range values {
			cleaned[name] = append(cleaned[name], c.Clean(value))
		}
	}
	return cleaned
}
