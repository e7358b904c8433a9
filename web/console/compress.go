package console

import (
	"fmt"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// compressed sends pages, static files and live streams with gzip to browsers that
// accept it. A stream is flushed with each of its events. Pages carry no secret of
// the browser's that their length could give away: the console has no CSRF token,
// since browsers name the origin of a request. The random padding hides the length
// of what else is on a page from those who see the traffic.
func compressed(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.RandomJitter(32, 0, false))
	if err != nil {
		panic(fmt.Sprintf("compression: %v", err)) // of constant options
	}
	return wrap(next)
}
