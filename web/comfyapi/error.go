package comfyapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/web/door"
)

// fault is an error as clients of v2 know it.
type fault struct {
	status  int
	code    string
	message string
	details map[string]any
	// retryAfter is the number of seconds after which a retry can succeed.
	retryAfter int
}

func (f *fault) Error() string { return f.message }

const wrongKey = "Incorrect or missing API key. Set COMFY_API_KEY to a Reelay key (rl_live_…), " +
	"or pass it to the client as api_key (apiKey in Node)."

// faults are those of the domain's errors. A message here replaces the domain's. Clients retry a 429.
var faults = map[apierror.Code]fault{
	apierror.CodeUnauthenticated:     {status: http.StatusUnauthorized, code: "unauthorized", message: wrongKey},
	apierror.CodeForbidden:           {status: http.StatusForbidden, code: "forbidden"},
	apierror.CodeNotFound:            {status: http.StatusNotFound, code: "not_found"},
	apierror.CodeInvalidInput:        {status: http.StatusUnprocessableEntity, code: "invalid_request"},
	apierror.CodeChecksumMismatch:    {status: http.StatusConflict, code: "hash_mismatch"},
	apierror.CodeContentPolicy:       {status: http.StatusUnprocessableEntity, code: "content_policy"},
	apierror.CodeIdempotencyConflict: {status: http.StatusUnprocessableEntity, code: "idempotency_key_reuse"},
	apierror.CodeConflict:            {status: http.StatusConflict, code: "conflict"},
	apierror.CodeQuotaExceeded:       {status: http.StatusTooManyRequests, code: "queue_full"},
	apierror.CodeBudgetExceeded:      {status: http.StatusPaymentRequired, code: "budget_exceeded"},
	apierror.CodeRateLimited:         {status: http.StatusTooManyRequests, code: "rate_limited"},
	apierror.CodeOverloaded:          {status: http.StatusServiceUnavailable, code: "overloaded"},
	apierror.CodeUnavailable:         {status: http.StatusServiceUnavailable, code: "unavailable"},
}

// ofField are the codes of errors about one field, by what the field begins with.
var ofField = []struct{ field, code string }{
	{"params.files", "missing_asset"}, {"params", "invalid_workflow"}, {"metadata", "metadata_invalid"},
}

// asFault returns the fault that a client gets for an error.
func asFault(ctx context.Context, requestID string, err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	if unread, ok := errors.AsType[*door.Refusal](err); ok {
		return &fault{status: unread.Status, code: "invalid_request", message: unread.Message}
	}
	if e := door.Known(ctx, err); e != nil {
		if f, ok := faults[e.Code]; ok {
			f.message, f.retryAfter = cmp.Or(f.message, e.Message), e.RetryAfterSeconds
			for _, about := range ofField {
				if strings.HasPrefix(e.Field, about.field) {
					f.status, f.code, f.details = http.StatusUnprocessableEntity, about.code, map[string]any{"field": e.Field}
					break
				}
			}
			return &f
		}
	}
	return &fault{status: http.StatusInternalServerError, code: "internal_error", message: apierror.Internal(requestID).Message}
}

// named says in a NOT_FOUND error what was not found.
func named(err error, id string) error {
	if apierror.HasCode(err, apierror.CodeNotFound) {
		return faultf(http.StatusNotFound, "not_found", "There is no %s in this account. It may have been deleted.", door.Clip(id))
	}
	return err
}

// envelope is the JSON of an error.
type envelope struct {
	Error struct {
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Details map[string]any `json:"details"`
	} `json:"error"`
}

// fail sends an error, and logs it if it is internal.
func fail(w http.ResponseWriter, r *http.Request, id string, err error) {
	f := asFault(r.Context(), id, err)
	if f.status == http.StatusInternalServerError {
		door.Log(r.Context(), id, err, "method", r.Method, "path", r.URL.Path)
	}
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	var body envelope
	body.Error.Code, body.Error.Message, body.Error.Details = f.code, f.message, f.details
	send(w, f.status, body)
}

func send(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = door.WriteJSON(w, body) // the caller may be gone
}
