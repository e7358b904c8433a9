package shell

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

// maxForm bounds a form, in bytes: a prompt of 40,000 bytes, each escaped to three.
const maxForm = 256 << 10

// maxFiles bounds a form with files, in bytes.
const maxFiles = 160 << 20

// contentPolicy allows a page to load only files of this server, and to show videos from
// the object store.
func contentPolicy(objects string) string {
	media := strings.TrimSpace("'self' " + objects)
	return strings.Join([]string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
		"img-src " + media, "media-src " + media,
		"form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
	}, "; ")
}

func (c *Shell) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", c.policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if c.Secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// compressed sends responses with gzip to browsers that accept it. A stream is flushed
// after each event. The length of a page reveals no secret of the browser: each form token
// has a random mask. Random padding hides the length of the other content.
func compressed(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.RandomJitter(32, 0, false))
	if err != nil {
		panic(fmt.Sprintf("compression: %v", err)) // of constant options
	}
	return wrap(next)
}
