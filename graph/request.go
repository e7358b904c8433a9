package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/internal/urlkey"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/jobs/apierror"
)

// maxBody bounds a request, and a message on a socket.
const maxBody = 1 << 20

var (
	errLoneSurrogate = &apierror.Error{
		Code:    apierror.CodeInvalidInput,
		Message: `The request holds half of a character (a \ud800–\udfff escape without its other half): send the whole character.`,
	}
	errNotUTF8 = &apierror.Error{Code: codeParseFailed, Message: "The request is not valid UTF-8."}
	errShape   = &apierror.Error{
		Code:    codeParseFailed,
		Message: "The body must be one JSON object with query (a string), and if needed operationName (a string), variables and extensions (objects).",
	}
	errNoQuery = &apierror.Error{
		Code: codeParseFailed, Field: "query",
		Message: "The request has no query: send query (a string), or as extensions.persistedQuery the hash of one that was sent before.",
	}
	errTooDeep  = &apierror.Error{Code: codeParseFailed, Message: fmt.Sprintf("The request's JSON is nested more than %d levels deep.", wellformed.MaxDepth)}
	errBatch    = &apierror.Error{Code: codeParseFailed, Message: "Send one operation per request: lists of them are not taken."}
	errKeyInURL = &apierror.Error{Code: apierror.CodeInvalidInput, Message: urlkey.Refusal}
	errTwoKeys  = &apierror.Error{Code: apierror.CodeInvalidInput, Message: "The request has the header Authorization twice: send it once."}
	errTooLarge = &apierror.Error{Code: apierror.CodeInvalidInput, Message: "The request is larger than 1 MiB."}
	errMedia    = &apierror.Error{Code: apierror.CodeInvalidInput, Message: "Send the request as Content-Type: application/json."}
	errMethod   = &apierror.Error{Code: apierror.CodeInvalidInput, Message: "Use POST, or GET for queries."}
	errEscapes  = &apierror.Error{Code: codeParseFailed, Message: "The query of the URL cannot be read: escape each value, and its ; too."}
	errUnread   = &apierror.Error{Code: codeParseFailed, Message: "The request ended, or stopped, before its body did."}
)

// parts are those of a request, with what JSON of each one's kind begins with. Names are
// as they are written: encoding/json would take Query for query.
var parts = []struct{ name, sign string }{{"query", `"`}, {"operationName", `"`}, {"variables", "{"}, {"extensions", "{"}}

// read reads what a request asks for, once. It refuses what gqlgen would misread, with
// the HTTP status to do it by.
func read(r *http.Request) (*graphql.RawParams, int, *apierror.Error) {
	var params *graphql.RawParams
	status, refused := http.StatusMethodNotAllowed, errMethod
	switch r.Method {
	case http.MethodPost:
		params, status, refused = readPost(r)
	case http.MethodGet:
		params, status, refused = readGet(r)
	}
	if refused != nil {
		return nil, status, refused
	}
	params.Headers = r.Header
	return params, 0, nil
}

// usualBody is up to how many bytes of a body are made room for before they are there.
const usualBody = 16 << 10

func readPost(r *http.Request) (*graphql.RawParams, int, *apierror.Error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, http.StatusUnsupportedMediaType, errMedia
	}
	buffer := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+min(max(r.ContentLength, 0), usualBody)))
	if _, err := buffer.ReadFrom(r.Body); err != nil {
		status, refused := unread(err)
		return nil, status, refused
	}
	params, refused := decode(buffer.Bytes())
	return params, http.StatusBadRequest, refused
}

// unread says why a body could not be read.
func unread(err error) (int, *apierror.Error) {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return http.StatusRequestEntityTooLarge, errTooLarge
	}
	return http.StatusBadRequest, errUnread
}

// decode reads a request's JSON, which has a query, or the hash of one.
func decode(body []byte) (*graphql.RawParams, *apierror.Error) {
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		return nil, errBatch
	}
	if refused := checkJSON(body); refused != nil {
		return nil, refused
	}
	if !isObject(body) {
		return nil, errShape
	}
	hasQuery := false
	for name, value := range wellformed.Members(body) {
		hasQuery = hasQuery || name == "query" && string(value) != "null"
		for _, part := range parts {
			if strings.EqualFold(name, part.name) && (name != part.name || string(value) != "null" && !bytes.HasPrefix(value, []byte(part.sign))) {
				return nil, errShape
			}
		}
	}
	params := &graphql.RawParams{}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(params) != nil {
		return nil, errShape
	}
	if !hasQuery && params.Extensions[persistedQuery] == nil {
		return nil, errNoQuery
	}
	return params, nil
}

func readGet(r *http.Request) (*graphql.RawParams, int, *apierror.Error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what does not parse is left out of it
		return nil, http.StatusBadRequest, errEscapes
	}
	params := &graphql.RawParams{}
	for _, part := range parts {
		values := query[part.name]
		if len(values) == 0 {
			continue
		}
		if len(values) > 1 {
			return nil, http.StatusBadRequest, errTwice(part.name)
		}
		var refused *apierror.Error
		switch value := values[0]; part.name {
		case "query":
			params.Query, refused = value, checkText([]byte(value))
		case "operationName":
			params.OperationName, refused = value, checkText([]byte(value))
		case "variables":
			params.Variables, refused = decodeObject(value)
		case "extensions":
			params.Extensions, refused = decodeObject(value)
		}
		if refused != nil {
			return nil, http.StatusBadRequest, refused
		}
	}
	if !query.Has("query") && params.Extensions[persistedQuery] == nil {
		return nil, http.StatusBadRequest, errNoQuery
	}
	return params, 0, nil
}

// decodeObject reads one JSON object, null or nothing.
func decodeObject(text string) (object map[string]any, refused *apierror.Error) {
	if text == "" {
		return nil, nil
	}
	if refused := checkJSON([]byte(text)); refused != nil {
		return nil, refused
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&object) != nil {
		return nil, errShape
	}
	return object, nil
}

// checkJSON refuses what is not one JSON document, and what a decoder would
// silently read as something else than was sent.
func checkJSON(raw []byte) *apierror.Error { return malformed(wellformed.JSON(raw)) }

// checkText refuses what a JSON decoder would silently replace by U+FFFD.
func checkText(raw []byte) *apierror.Error { return malformed(wellformed.Text(raw)) }

// malformed says what is wrong with a request's text.
func malformed(err error) *apierror.Error {
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

func errTwice(path string) *apierror.Error {
	if len(path) > maxShown {
		return &apierror.Error{Code: codeParseFailed, Message: "The request has a key twice: send it once."}
	}
	return &apierror.Error{
		Code: codeParseFailed, Field: strings.TrimPrefix(path, "variables."),
		Message: fmt.Sprintf("The request has the key %q twice: send it once.", path),
	}
}
