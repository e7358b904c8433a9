package blob

import (
	"net/http"
	"time"
)

// SmallUpload is how large an upload may be that the store is not asked about first.
const SmallUpload = smallUpload

// HandlerWithStallLimit is Handler with less patience.
func (s *Store) HandlerWithStallLimit(limit time.Duration) http.Handler {
	h := *s.handler.(*handler)
	h.stallLimit = limit
	return &h
}
