package blob

import (
	"net/http"
	"time"
)

// HandlerWithStallLimit is Handler with less patience.
func (s *Store) HandlerWithStallLimit(limit time.Duration) http.Handler {
	h := *s.handler.(*handler)
	h.stallLimit = limit
	return &h
}
