package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
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
	errNoQuery = &jobs.Error{
		Code: codeParseFailed, Field: "query",
		Message: "The request has no query: send query (a string), or as extensions.persistedQuery the hash of one that was sent before.",
	}
	errTooDeep  = &jobs.Error{Code: codeParseFailed, Message: fmt.Sprintf("The request's JSON is nested more than %d levels deep.", wellformed.MaxDepth)}
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

// begins is what JSON of each part's kind begins with.
var begins = map[string]string{"query": `"`, "operationName": `"`, "variables": "{", "extensions": "{"}

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

// usualBody is up to how many bytes of a body are made room for before they are there.
const usualBody = 16 << 10

func checkPost(r *http.Request) (int, *jobs.Error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return http.StatusUnsupportedMediaType, errMedia
	}
	read := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+min(max(r.ContentLength, 0), usualBody)))
	_, err := read.ReadFrom(r.Body)
	body := read.Bytes()
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, errTooLarge
	}
	if err != nil {
		return http.StatusBadRequest, errUnread
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		return http.StatusBadRequest, errBatch
	}
	if refused := checkJSON(body); refused != nil {
		return http.StatusBadRequest, refused
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil || !shaped(fields) {
		return http.StatusBadRequest, errShape
	}
	if !asks(isThere(fields["query"]), fields["extensions"]) {
		return http.StatusBadRequest, errNoQuery
	}
	return 0, nil
}

// asks tells whether a request has a query, or the hash of one.
func asks(hasQuery bool, extensions []byte) bool {
	var said map[string]json.RawMessage
	_ = json.Unmarshal(extensions, &said) // an object, null or nothing
	return hasQuery || isThere(said["persistedQuery"])
}

// isThere tells a value from null and from none.
func isThere(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// shaped tells whether a request's parts are of their kinds. Names are as they are
// written: gqlgen would take Query for query.
func shaped(fields map[string]json.RawMessage) bool {
	for name, value := range fields {
		for part, sign := range begins {
			if strings.EqualFold(name, part) && (name != part || string(value) != "null" && !bytes.HasPrefix(value, []byte(sign))) {
				return false
			}
		}
	}
	return true
}

func checkGet(r *http.Request) (int, *jobs.Error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil { // it means nothing
		return http.StatusBadRequest, errUnread
	}
	query := r.URL.Query()
	for name, values := range query {
		sign, known := begins[name]
		if !known {
			continue
		}
		if len(values) > 1 {
			return http.StatusBadRequest, errTwice(name)
		}
		value := []byte(values[0])
		if sign == "{" && len(value) > 0 {
			if refused := checkJSON(value); refused != nil {
				return http.StatusBadRequest, refused
			}
			if value = bytes.TrimSpace(value); value[0] != '{' && string(value) != "null" {
				return http.StatusBadRequest, errShape
			}
		} else if refused := checkText(value); refused != nil {
			return http.StatusBadRequest, refused
		}
	}
	if !asks(query.Has("query"), []byte(query.Get("extensions"))) {
		return http.StatusBadRequest, errNoQuery
	}
	return 0, nil
}

// checkJSON refuses what is not one JSON document, and what a decoder would
// silently read as something else than was sent.
func checkJSON(raw []byte) *jobs.Error { return malformed(wellformed.JSON(raw)) }

// checkText refuses what a JSON decoder would silently replace by U+FFFD.
func checkText(raw []byte) *jobs.Error { return malformed(wellformed.Text(raw)) }

// malformed says what is wrong with a request's text.
func malformed(err error) *jobs.Error {
	var twice *wellformed.DuplicateError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &twice):
		return errTwice(twice.Path)
	case errors.Is(err, wellformed.ErrNotUTF8):
		return errNotUTF8
	case errors.Is(err, wellformed.ErrLoneSurrogate):
		return errLoneSurrogate
	case errors.Is(err, wellformed.ErrTooDeep):
		return errTooDeep
	}
	return errShape
}

// maxShown bounds what is repeated of a caller's own words.
const maxShown = 64

func errTwice(path string) *jobs.Error {
	if len(path) > maxShown {
		return &jobs.Error{Code: codeParseFailed, Message: "The request has a key twice: send it once."}
	}
	return &jobs.Error{
		Code: codeParseFailed, Field: strings.TrimPrefix(path, "variables."),
		Message: fmt.Sprintf("The request has the key %q twice: send it once.", path),
	}
}
