package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/reelay/reelay/internal/urlkey"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/jobs"
)

// maxBody bounds a request, and a message on a socket.
const maxBody = 1 << 20

// bodyTime is how long a body may take to arrive.
const bodyTime = 30 * time.Second

var (
	errLoneSurrogate = &jobs.Error{
		Code:    jobs.CodeInvalidInput,
		Message: `The request holds half of a character (a \ud800–\udfff escape without its other half): send the whole character.`,
	}
	errNotUTF8 = &jobs.Error{Code: codeParseFailed, Message: "The request is not valid UTF-8."}
	errShape   = &jobs.Error{
		Code:    codeParseFailed,
		Message: "The body must be one JSON object with query (a string), and if needed operationName (a string), variables and extensions (objects).",
	}
	errBatch    = &jobs.Error{Code: codeParseFailed, Message: "Send one operation per request: lists of them are not taken."}
	errKeyInURL = &jobs.Error{Code: jobs.CodeInvalidInput, Message: urlkey.Refusal}
	errTooLarge = &jobs.Error{Code: jobs.CodeInvalidInput, Message: "The request is larger than 1 MiB."}
	errMedia    = &jobs.Error{Code: jobs.CodeInvalidInput, Message: "Send the request as Content-Type: application/json."}
	errMethod   = &jobs.Error{Code: jobs.CodeInvalidInput, Message: "Use POST, or GET for queries."}
	errUnread   = &jobs.Error{Code: codeParseFailed, Message: "The request ended, or stopped, before its body did."}
)

// parts is the shape of a request, as far as it matters before gqlgen reads it.
type parts struct {
	Query         *string
	OperationName *string
	Variables     map[string]json.RawMessage
	Extensions    map[string]json.RawMessage
}

// check refuses requests that gqlgen would misread, and returns the HTTP status
// to do it with. It leaves the body to be read again.
func check(r *http.Request) (int, *jobs.Error) {
	switch r.Method {
	case http.MethodPost:
		return checkPost(r)
	case http.MethodGet:
		return checkGet(r)
	}
	return http.StatusMethodNotAllowed, errMethod
}

func checkPost(r *http.Request) (int, *jobs.Error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return http.StatusUnsupportedMediaType, errMedia
	}
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, errTooLarge
	}
	if err != nil {
		return http.StatusBadRequest, errUnread
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if refused := checkText(body); refused != nil {
		return http.StatusBadRequest, refused
	}
	switch trimmed := bytes.TrimSpace(body); {
	case bytes.HasPrefix(trimmed, []byte("[")):
		return http.StatusBadRequest, errBatch
	case !bytes.HasPrefix(trimmed, []byte("{")) || json.Unmarshal(body, &parts{}) != nil:
		return http.StatusBadRequest, errShape
	}
	return 0, nil
}

func checkGet(r *http.Request) (int, *jobs.Error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil { // it means nothing
		return http.StatusBadRequest, errUnread
	}
	for name, values := range r.URL.Query() {
		for _, value := range values {
			if refused := checkText([]byte(value)); refused != nil {
				return http.StatusBadRequest, refused
			}
			var object map[string]json.RawMessage
			if (name == "variables" || name == "extensions") && value != "" && json.Unmarshal([]byte(value), &object) != nil {
				return http.StatusBadRequest, errShape
			}
		}
	}
	return 0, nil
}

// checkText refuses what a JSON decoder would silently replace by U+FFFD.
func checkText(raw []byte) *jobs.Error {
	switch err := wellformed.Text(raw); {
	case errors.Is(err, wellformed.ErrNotUTF8):
		return errNotUTF8
	case err != nil:
		return errLoneSurrogate
	}
	return nil
}
