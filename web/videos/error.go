package videos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/web/door"
)

// fault is an error as OpenAI's clients know it. The type of a caller's error is
// invalid_request_error, and its code tells which one it is.
type fault struct {
	status  int
	kind    string
	code    string
	param   string
	message string
	// final means that the client must not retry on its own.
	final bool
	// retryAfter is the number of seconds after which a retry can succeed.
	retryAfter int
}

func (f *fault) Error() string { return f.message }

// The types of errors that clients distinguish.
const (
	kindInvalid = "invalid_request_error"
	kindLimited = "rate_limit_error"
	kindServer  = "server_error"
)

// wrongKey is for users of OpenAI's clients, who never write a header.
const wrongKey = "Incorrect or missing API key. Pass a Reelay key (rl_live_…) to the client as api_key (apiKey in Node), or set OPENAI_API_KEY."

// kinds are the faults of the domain's errors. A message here replaces the domain's.
// No status is 409, after which clients retry.
var kinds = map[apierror.Code]fault{
	apierror.CodeUnauthenticated:     {status: http.StatusUnauthorized, kind: kindInvalid, code: "invalid_api_key", message: wrongKey},
	apierror.CodeForbidden:           {status: http.StatusForbidden, kind: kindInvalid, code: "insufficient_permissions"},
	apierror.CodeNotFound:            {status: http.StatusNotFound, kind: kindInvalid, code: "not_found"},
	apierror.CodeInvalidInput:        {status: http.StatusBadRequest, kind: kindInvalid, code: "invalid_value"},
	apierror.CodeChecksumMismatch:    {status: http.StatusBadRequest, kind: kindInvalid, code: "invalid_value"},
	apierror.CodeContentPolicy:       {status: http.StatusBadRequest, kind: kindInvalid, code: "moderation_blocked"},
	apierror.CodeIdempotencyConflict: {status: http.StatusBadRequest, kind: kindInvalid, code: "idempotency_key_reused"},
	apierror.CodeConflict:            {status: http.StatusBadRequest, kind: kindInvalid, code: "invalid_state"},
	apierror.CodeQuotaExceeded:       {status: http.StatusTooManyRequests, kind: kindLimited, code: "insufficient_quota", final: true},
	apierror.CodeBudgetExceeded:      {status: http.StatusTooManyRequests, kind: kindLimited, code: "insufficient_quota", final: true},
	apierror.CodeRateLimited:         {status: http.StatusTooManyRequests, kind: kindLimited, code: "rate_limit_exceeded"},
	apierror.CodeOverloaded:          {status: http.StatusServiceUnavailable, kind: kindServer, code: "server_overloaded"},
	apierror.CodeUnavailable:         {status: http.StatusServiceUnavailable, kind: kindServer, code: "server_unavailable"},
}

// params are the clients' names of the domain's fields.
var params = map[string]string{
	"params.durationSeconds": "seconds", "params.resolution": "size", "params.aspectRatio": "size", "params.size": "size",
	"params.referenceImage": "input_reference", "idempotencyKey": "Idempotency-Key",
}

// refusals are the codes of requests that cannot be read.
var refusals = map[door.Reason]string{
	door.Malformed: "invalid_json", door.Duplicated: "duplicate_parameter", door.Incomplete: "invalid_body",
	door.TooLarge: "request_too_large", door.WrongMedia: "unsupported_content_type", door.BadHeader: "invalid_value",
	door.Needless: "invalid_body",
}

// asFault turns an error into what clients are told.
func asFault(ctx context.Context, requestID string, err error) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	var unread *door.Refusal
	if errors.As(err, &unread) {
		return &fault{status: unread.Status, kind: kindInvalid, code: refusals[unread.Reason], param: unread.Field, message: unread.Message}
	}
	if e := door.Known(ctx, err); e != nil {
		if f, ok := kinds[e.Code]; ok {
			f.message, f.retryAfter, f.param = cmp.Or(f.message, e.Message), e.RetryAfterSeconds, e.Field
			if name := params[e.Field]; name != "" {
				f.param, f.message = name, strings.ReplaceAll(e.Message, e.Field, name)
			}
			return &f
		}
	}
	return &fault{
		status: http.StatusInternalServerError, kind: kindServer, code: "server_error",
		message: apierror.Internal(requestID).Message,
	}
}

// envelope is the JSON of an error. All four keys are always present.
type envelope struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// fail sends an error, and logs it if it is internal.
func fail(w http.ResponseWriter, r *http.Request, id string, err error) {
	f := asFault(r.Context(), id, err)
	if f.status == http.StatusInternalServerError {
		door.Log(r.Context(), id, err, "method", r.Method, "path", r.URL.Path)
	}
	header := w.Header()
	if f.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	if f.final {
		header.Set("X-Should-Retry", "false")
	}
	if f.status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	var body envelope
	body.Error.Message, body.Error.Type = f.message, f.kind
	body.Error.Param, body.Error.Code = nullable(f.param), nullable(f.code)
	send(w, f.status, body)
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func invalid(code, param, format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, kind: kindInvalid, code: code, param: param, message: fmt.Sprintf(format, args...)}
}

func missing(code, format string, args ...any) *fault {
	return &fault{status: http.StatusNotFound, kind: kindInvalid, code: code, message: fmt.Sprintf(format, args...)}
}

func errNoVideo(id string) error {
	return missing("not_found", "Video with id '%s' not found.", door.Clip(id))
}

// orNoVideo names the video in a NOT_FOUND error.
func orNoVideo(err error, id string) error {
	if apierror.HasCode(err, apierror.CodeNotFound) {
		return errNoVideo(id)
	}
	return err
}

func send(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = door.WriteJSON(w, answer) // the caller may be gone
}
