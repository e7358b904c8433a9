package console

import (
	"fmt"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// compressed sends responses with gzip to browsers that accept it. A stream is flushed
// after each event. The length of a page reveals no secret of the browser: the console
// has no CSRF token, since browsers send the origin of a request. Random padding hides
// the length of the other content.
func compressed(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.RandomJitter(32, 0, false))
	if err != nil {
		panic(fmt.Sprintf("compression: %v", err)) // of constant options
	}
	return wrap(next)
}
