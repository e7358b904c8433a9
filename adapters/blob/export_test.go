package blob

import (
	"net/http"
	"time"
)

// SmallUpload is smallUpload.
const SmallUpload = smallUpload

// HandlerWithStallLimit is Handler with that stallLimit.
func (s *Store) HandlerWithStallLimit(limit time.Duration) http.Handler {
	h := *s.handler.(*handler)
	h.stallLimit = limit
	return &h
}
