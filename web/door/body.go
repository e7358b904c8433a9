package door

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/wellformed"
)

// ReadJSON reads a body, which http.MaxBytesReader should bound, and checks that it
// is one JSON document without duplicate keys.
func ReadJSON(body io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, Unread(err)
	}
	if err := wellformed.JSON(raw); err != nil {
		return nil, malformed(err)
	}
	return raw, nil
}

// NeedlessBody refuses the body of a GET or DELETE request, which nothing would read.
func NeedlessBody(r *http.Request) error {
	if !httpguard.HasNeedlessBody(r) {
		return nil
	}
	return refuse(http.StatusBadRequest, Needless, "%s", httpguard.NeedlessBody(r.Method))
}

// Unread refuses a body that could not be read to its end.
func Unread(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return refuse(http.StatusRequestEntityTooLarge, TooLarge, "The body is larger than %d KiB.", tooLarge.Limit>>10)
	}
	return refuse(http.StatusBadRequest, Incomplete, "The request ended, or stopped, before its body was complete: send it again.")
}

// WriteJSON encodes a value on one line.
func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// UnsupportedMedia refuses a body of a media type that the API does not take.
func UnsupportedMedia(message string) *Refusal {
	return refuse(http.StatusUnsupportedMediaType, WrongMedia, "%s", message)
}
