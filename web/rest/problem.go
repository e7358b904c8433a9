package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/strictjson"
	"github.com/reelay/reelay/web/door"
)

// problem is an error as RFC 9457 describes it, with the error code of GraphQL.
type problem struct {
	Title  string        `json:"title" doc:"The status in words."`
	Status int           `json:"status"`
	Detail string        `json:"detail" doc:"What is wrong, and what to do."`
	Code   apierror.Code `json:"code" doc:"The error code for programs." example:"INVALID_INPUT"`
	// Field is a name in the request.
	Field             string `json:"field,omitempty" doc:"The part of the request that is wrong."`
	RetryAfterSeconds int    `json:"retry_after_seconds,omitempty" doc:"When to retry, if a retry can help. Also in the header Retry-After."`
	RequestID         string `json:"request_id,omitempty" doc:"Identifies an internal error in the server's log."`
}

// huma makes its errors with NewError. Field names are case-sensitive: encoding/json
// alone would read Prompt as prompt.
func init() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return rejected(nil, status, message, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		return rejected(ctx.Operation(), status, message, errs)
	}
	huma.ValidateStrictCasing = true
}

// describe turns an error into its answer to the caller. It logs internal errors.
func describe(ctx context.Context, err error) *problem {
	var done *problem
	if errors.As(err, &done) {
		return done
	}
	var unread *door.Refusal
	if errors.As(err, &unread) {
		p := refused(unread.Status, "%s", unread.Message)
		p.Field = unread.Field
		return p
	}
	if known := door.Known(ctx, err); known != nil {
		p := newProblem(door.Status(known.Code), known.Code, known.Message)
		p.Field, p.RetryAfterSeconds = known.Field, known.RetryAfterSeconds
		return p
	}
	id := uuid.NewString()
	door.Log(ctx, id, err)
	p := newProblem(http.StatusInternalServerError, apierror.CodeInternal, apierror.Internal(id).Message)
	p.RequestID = id
	return p
}

func newProblem(status int, code apierror.Code, detail string) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// refused is a problem with the form of a request.
func refused(status int, format string, args ...any) *problem {
	return newProblem(status, apierror.CodeInvalidInput, fmt.Sprintf(format, args...))
}

// Error implements error.
func (p *problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders implements huma.HeadersError.
func (p *problem) GetHeaders() http.Header {
	h := http.Header{"Cache-Control": {"no-store"}}
	if p.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfterSeconds))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	return h
}

// write sends the problem without huma.
func (p *problem) write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = door.WriteJSON(w, p)
}

func decode(data []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(v)
}

// wholeNumbers spells whole numbers such as 4.0 and 4e0 as 4: JSON does not distinguish them, but
// a Go integer takes only the last.
func wholeNumbers(data []byte) ([]byte, bool) {
	var tree any
	if decode(data, &tree) != nil {
		return nil, false
	}
	whole, err := json.Marshal(strictjson.Canonical(tree))
	return whole, err == nil
}

// notTaken stands between a field and its value in errors of which huma keeps only
// the text.
const notTaken = " does not take the "

// readJSON decodes a well-formed body. Numbers keep their text, so that an error can
// name one that is out of range.
func readJSON(data []byte, v any) error {
	err := decode(data, v)
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && strings.HasPrefix(mistyped.Value, "number") {
		if whole, ok := wholeNumbers(data); ok {
			err = decode(whole, v)
		}
	}
	switch {
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return errors.New(strings.ReplaceAll(mistyped.Field, "Bearing.", "") + notTaken + mistyped.Value)
	case err != nil:
		return errors.New("the body cannot be read")
	}
	return nil
}
