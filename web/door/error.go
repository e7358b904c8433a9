package door

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/models/postgres"
)

// Reason is what is wrong with a request that no API can read.
type Reason string

const (
	BadHeader  Reason = "bad header" // or a bad URL
	Malformed  Reason = "malformed"
	Duplicated Reason = "duplicated"
	Incomplete Reason = "incomplete"
	TooLarge   Reason = "too large"
	WrongMedia Reason = "wrong media type"
	Needless   Reason = "needless body"
)

// Refusal is a request that no API can read.
type Refusal struct {
	Status  int
	Reason  Reason
	Field   string // the header, parameter or key that is wrong, if it is one
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

func refuse(status int, reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Duplicate refuses a header, parameter or key that a request has twice.
func Duplicate(in, what, name string) *Refusal {
	if len(name) > maxShown {
		return refuse(http.StatusBadRequest, Duplicated, "%s has a %s twice: send it once.", in, what)
	}
	r := refuse(http.StatusBadRequest, Duplicated, "%s has the %s %s twice: send it once.", in, what, name)
	r.Field = name
	return r
}

// malformed describes what wellformed found.
func malformed(err error) *Refusal {
	var twice *wellformed.DuplicateError
	switch {
	case errors.As(err, &twice):
		return Duplicate("The body", "key", twice.Path)
	case errors.Is(err, wellformed.ErrNotUTF8):
		return refuse(http.StatusBadRequest, Malformed, "The body is not valid UTF-8.")
	case errors.Is(err, wellformed.ErrLoneSurrogate):
		return refuse(http.StatusBadRequest, Malformed,
			`The body contains half of a character (a \ud800–\udfff escape without its other half): send the whole character.`)
	case errors.Is(err, wellformed.ErrTooDeep):
		return refuse(http.StatusBadRequest, Malformed, "The body is nested more than %d levels deep.", wellformed.MaxDepth)
	}
	return refuse(http.StatusBadRequest, Malformed, "The body is not one JSON document.")
}

// statuses are the HTTP statuses of error codes. The Videos API has its own table, because
// OpenAI's clients retry some of these statuses.
var statuses = map[apierror.Code]int{
	apierror.CodeUnauthenticated:     http.StatusUnauthorized,
	apierror.CodeForbidden:           http.StatusForbidden,
	apierror.CodeNotFound:            http.StatusNotFound,
	apierror.CodeInvalidInput:        http.StatusUnprocessableEntity,
	apierror.CodeChecksumMismatch:    http.StatusUnprocessableEntity,
	apierror.CodeContentPolicy:       http.StatusUnprocessableEntity,
	apierror.CodeIdempotencyConflict: http.StatusConflict,
	apierror.CodeConflict:            http.StatusConflict,
	apierror.CodeLeaseLost:           http.StatusConflict,
	apierror.CodeRateLimited:         http.StatusTooManyRequests,
	apierror.CodeQuotaExceeded:       http.StatusTooManyRequests,
	apierror.CodeBudgetExceeded:      http.StatusPaymentRequired,
	apierror.CodeOverloaded:          http.StatusServiceUnavailable,
	apierror.CodeUnavailable:         http.StatusServiceUnavailable,
}

// Status returns the HTTP status of an error code.
func Status(code apierror.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// Known returns the error that the caller is shown, or nil if err is internal. It logs
// outages.
func Known(ctx context.Context, err error) *apierror.Error {
	var known *apierror.Error
	switch {
	case errors.As(err, &known) && statuses[known.Code] != 0:
		return known
	case ctx.Err() != nil:
		return apierror.Later(apierror.CodeUnavailable, time.Second, "The request was interrupted.")
	case postgres.IsClosedAccount(err):
		return apierror.ErrAccountClosed
	case postgres.IsOutage(err):
		slog.WarnContext(ctx, "a service cannot be reached, or is busy", "error", err)
		return apierror.Outage(postgres.IsBusy(err), postgres.Answers(err))
	}
	return nil
}

// Log logs an internal error under the request id that the caller is shown.
func Log(ctx context.Context, requestID string, err error, details ...any) {
	slog.ErrorContext(context.WithoutCancel(ctx), "request failed", append(details, "request", requestID, "error", err)...)
}

// PlainError sends an error as plain text.
func PlainError(w http.ResponseWriter, r *http.Request, err error) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		http.Error(w, refusal.Message, refusal.Status)
		return
	}
	known := Known(r.Context(), err)
	if known == nil {
		id := uuid.NewString()
		Log(r.Context(), id, err, "method", r.Method, "path", r.URL.Path)
		known = apierror.Internal(id)
	}
	if known.Code == apierror.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if known.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(known.RetryAfterSeconds))
	}
	http.Error(w, known.Message, Status(known.Code))
}

// maxShown bounds how much of a caller's own text a message repeats.
const maxShown = 64

// Clip shortens a caller's own text for a message.
func Clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
