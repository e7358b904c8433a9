package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/wellformed"
)

var (
	errNotUTF8 = apierror.New(failure.CodeParseFailed, "The request is not valid UTF-8.")
	errShape   = apierror.New(failure.CodeParseFailed,
		"The body must be one JSON object with query (a string), and if needed operationName (a string), variables and extensions (objects).")
	errNoQuery = apierror.New(failure.CodeParseFailed,
		"The request has no query: send query (a string), or as extensions.persistedQuery the hash of one that was sent before.").In("query")
	errTooDeep  = apierror.New(failure.CodeParseFailed, "The request's JSON is nested more than %d levels deep.", wellformed.MaxDepth)
	errBatch    = apierror.New(failure.CodeParseFailed, "Send one operation per request: lists are not accepted.")
	errTooLarge = apierror.Invalid("", "The request is larger than 8 MiB, or than 1 MiB without a Content-Length or for a stream of events.")
	errMedia    = apierror.Invalid("", "Send the request as Content-Type: application/json.")
	errMethod   = apierror.Invalid("", "Use POST, or GET for queries.")
	errEscapes  = apierror.New(failure.CodeParseFailed, "The query of the URL cannot be parsed: escape each value, including every semicolon.")
	errUnread   = apierror.New(failure.CodeParseFailed, "The request ended before its body was complete.")
)

// parts are the members of a request and the first character of the JSON type of each.
// encoding/json would also accept a name in another case, such as Query.
var parts = []struct{ name, sign string }{{"query", `"`}, {"operationName", `"`}, {"variables", "{"}, {"extensions", "{"}}

// read reads the operation that a request asks for. It refuses, with an HTTP status,
// what another parser may read differently.
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

func readPost(r *http.Request) (*graphql.RawParams, int, *apierror.Error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, http.StatusUnsupportedMediaType, errMedia
	}
	body, err := io.ReadAll(r.Body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	}
	if err != nil {
		return nil, http.StatusBadRequest, errUnread
	}
	params, refused := decode(body)
	return params, http.StatusBadRequest, refused
}

// persistedQuery is the extension that carries the hash of a query.
const persistedQuery = "persistedQuery"

// decode reads the JSON of a request, which has a query or the hash of one.
func decode(body []byte) (*graphql.RawParams, *apierror.Error) {
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		return nil, errBatch
	}
	if refused := checkJSON(body); refused != nil {
		return nil, refused
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return nil, errShape
	}
	hasQuery := false
	for name, value := range members {
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
	if err != nil { // query lacks the parts that cannot be parsed
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

// decodeObject reads one JSON object, null, or no text.
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

// checkJSON refuses text that is not one JSON document, and text that a decoder would
// silently change.
func checkJSON(raw []byte) *apierror.Error { return malformed(wellformed.JSON(raw)) }

// checkText refuses text in which a JSON decoder would silently replace a character by U+FFFD.
func checkText(raw []byte) *apierror.Error { return malformed(wellformed.Text(raw)) }

// malformed translates an error of wellformed.
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
		return failure.LoneSurrogate
	case errors.Is(err, wellformed.ErrTooDeep):
		return errTooDeep
	}
	return errShape
}

func errTwice(path string) *apierror.Error {
	if len(path) > failure.MaxEcho {
		return apierror.New(failure.CodeParseFailed, "The request has a key twice: send it once.")
	}
	return apierror.New(failure.CodeParseFailed, "The request has the key %q twice: send it once.",
		path).In(strings.TrimPrefix(path, "variables."))
}

func isObject(raw []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }
