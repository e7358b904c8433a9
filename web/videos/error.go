package videos

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// fault is an error as its clients know it: one of theirs is invalid_request_error
// in the type, and says in the code what it is.
type fault struct {
	status  int
	kind    string
	code    string
	param   string
	message string
	// final tells that a client shall not send the same again by itself.
	final bool
	// retryAfter is in how many seconds it may help.
	retryAfter int
}

func (f *fault) Error() string { return f.message }

// The types of errors that clients tell apart.
const (
	kindInvalid = "invalid_request_error"
	kindLimited = "rate_limit_error"
	kindServer  = "server_error"
)

// wrongKey tells users of OpenAI's clients what to do: they never write a header.
const wrongKey = "Incorrect or missing API key. Pass a Reelay key (rl_live_…) to the client as api_key (apiKey in Node), or set OPENAI_API_KEY."

// kinds is how each of the domain's errors is answered; one with a message is
// answered with that in place of the domain's. No status is 409, which clients
// take for a reason to send the same again.
var kinds = map[apierror.Code]fault{
	apierror.CodeUnauthenticated:     {status: http.StatusUnauthorized, kind: kindInvalid, code: "invalid_api_key", message: wrongKey},
	apierror.CodeForbidden:           {status: http.StatusForbidden, kind: kindInvalid, code: "insufficient_permissions"},
	apierror.CodeNotFound:            {status: http.StatusNotFound, kind: kindInvalid, code: "not_found"},
	apierror.CodeInvalidInput:        {status: http.StatusBadRequest, kind: kindInvalid, code: "invalid_value"},
	apierror.CodeChecksumMismatch:    {status: http.StatusBadRequest, kind: kindInvalid, code: "invalid_value"},
	apierror.CodeIdempotencyConflict: {status: http.StatusBadRequest, kind: kindInvalid, code: "idempotency_key_reused"},
	apierror.CodeConflict:            {status: http.StatusBadRequest, kind: kindInvalid, code: "invalid_state"},
	apierror.CodeQuotaExceeded:       {status: http.StatusTooManyRequests, kind: kindLimited, code: "insufficient_quota", final: true},
	apierror.CodeRateLimited:         {status: http.StatusTooManyRequests, kind: kindLimited, code: "rate_limit_exceeded"},
	apierror.CodeOverloaded:          {status: http.StatusServiceUnavailable, kind: kindServer, code: "server_overloaded"},
	apierror.CodeUnavailable:         {status: http.StatusServiceUnavailable, kind: kindServer, code: "server_unavailable"},
}

// params is what clients call the fields that the domain finds wrong.
var params = map[string]string{
	"params.durationSeconds": "seconds", "params.resolution": "size", "params.aspectRatio": "size", "params.size": "size",
	"params.referenceImage": "input_reference", "idempotencyKey": "Idempotency-Key",
}

// asFault makes a fault of any error; what is none of the caller's has no detail.
func asFault(err error) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	if models.IsOutage(err) {
		err = apierror.ErrUnavailable
	}
	var e *apierror.Error
	if errors.As(err, &e) {
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
		message: "Something went wrong on our side. The request's id, in the header x-request-id, finds it in the server's log.",
	}
}

// envelope is how an error is written: with all four keys, whatever is known.
type envelope struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// fail answers an error, and logs one of ours.
func fail(w http.ResponseWriter, r *http.Request, id string, err error) {
	if r.Context().Err() != nil {
		err = apierror.ErrUnavailable // nobody is there to read it, and nothing is wrong here
	}
	f := asFault(err)
	switch {
	case f.status == http.StatusInternalServerError:
		slog.ErrorContext(r.Context(), "videos request failed", "method", r.Method, "path", r.URL.Path, "request", id, "error", err)
	case models.IsOutage(err):
		slog.WarnContext(r.Context(), "a service cannot be reached", "error", err)
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
	return missing("not_found", "Video with id '%s' not found.", clip(id))
}

// orNoVideo names the video that is not there.
func orNoVideo(err error, id string) error {
	if errors.Is(err, &apierror.Error{Code: apierror.CodeNotFound}) {
		return errNoVideo(id)
	}
	return err
}

func errNoRoute(method, path string) error {
	return missing("unknown_url", "Unknown request URL: %s %s. This server offers /v1/videos and /v1/models.", clip(method), clip(path))
}

func errMethod(w http.ResponseWriter, method string, allowed methods) error {
	allow := strings.Join(slices.Sorted(maps.Keys(allowed)), ", ")
	w.Header().Set("Allow", allow)
	return &fault{
		status: http.StatusMethodNotAllowed, kind: kindInvalid, code: "method_not_supported",
		message: fmt.Sprintf("Not allowed to %s on this URL: it takes %s.", clip(method), allow),
	}
}

// notOffered answers the parts of the API that are not served.
func notOffered(what string) action {
	return func(http.ResponseWriter, *call) (any, error) {
		return nil, missing("not_supported", "This server does not offer video %s: it offers create, retrieve, list, delete, content and remix.", what)
	}
}

// maxShown bounds what is shown of a caller's own text.
const maxShown = 64

func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
