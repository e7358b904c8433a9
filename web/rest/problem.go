package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/google/uuid"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// problem is an error as RFC 9457 has it, with the code that GraphQL has, too.
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

// statuses is how each of the domain's codes is answered; others are 500.
var statuses = map[apierror.Code]int{
	apierror.CodeUnauthenticated:     http.StatusUnauthorized,
	apierror.CodeForbidden:           http.StatusForbidden,
	apierror.CodeNotFound:            http.StatusNotFound,
	apierror.CodeInvalidInput:        http.StatusUnprocessableEntity,
	apierror.CodeChecksumMismatch:    http.StatusUnprocessableEntity,
	apierror.CodeIdempotencyConflict: http.StatusConflict,
	apierror.CodeConflict:            http.StatusConflict,
	apierror.CodeLeaseLost:           http.StatusConflict,
	apierror.CodeRateLimited:         http.StatusTooManyRequests,
	apierror.CodeQuotaExceeded:       http.StatusTooManyRequests,
	apierror.CodeOverloaded:          http.StatusServiceUnavailable,
	apierror.CodeUnavailable:         http.StatusServiceUnavailable,
}

// huma asks this package for its errors. Field names are as they are written:
// encoding/json alone would take Prompt for prompt.
func init() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return refused(status, message, errs)
	}
	huma.ValidateStrictCasing = true
}

// describe turns an error into what the caller may know of it. An error of ours
// is logged, here and only here.
func describe(ctx context.Context, err error) *problem {
	var known *apierror.Error
	var done *problem
	switch {
	case errors.As(err, &done):
		return done
	case errors.As(err, &known) && statuses[known.Code] != 0:
	case ctx.Err() != nil:
		known = &apierror.Error{Code: apierror.CodeUnavailable, RetryAfterSeconds: 1, Message: "The request was cut short: send it again."}
	case models.IsOutage(err):
		slog.WarnContext(ctx, "a service cannot be reached", "error", err)
		known = apierror.ErrUnavailable
	default:
		return internal(ctx, "request failed", "error", err)
	}
	p := newProblem(statuses[known.Code], known.Code, known.Message)
	p.Field, p.RetryAfterSeconds = known.Field, known.RetryAfterSeconds
	return p
}

// internal logs what went wrong under a request id, and shows only that.
func internal(ctx context.Context, message string, details ...any) *problem {
	p := newProblem(http.StatusInternalServerError, apierror.CodeInternal, "Something went wrong on our side. The request id finds it in the server's log.")
	p.RequestID = uuid.NewString()
	slog.ErrorContext(ctx, message, append(details, "request", p.RequestID)...)
	return p
}

func newProblem(status int, code apierror.Code, detail string) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

func badRequest(format string, args ...any) *problem {
	return newProblem(http.StatusBadRequest, apierror.CodeInvalidInput, fmt.Sprintf(format, args...))
}

func invalid(field, format string, args ...any) *apierror.Error {
	return &apierror.Error{Code: apierror.CodeInvalidInput, Field: field, Message: fmt.Sprintf(format, args...)}
}

// maxShown bounds what is repeated of a caller's own words.
const maxShown = 64

// refused is what huma found wrong with a request: of all of it, what comes
// first in the alphabet.
func refused(status int, message string, errs []error) *problem {
	p := newProblem(status, apierror.CodeInvalidInput, message+".")
	var first *huma.ErrorDetail
	for _, err := range errs {
		if done, ok := err.(*problem); ok {
			return done
		}
		detail, ok := err.(*huma.ErrorDetail)
		if ok && (first == nil || detail.Location+detail.Message < first.Location+first.Message) {
			first = detail
		}
	}
	if first != nil {
		p.Field, p.Detail = sentence(first)
	}
	return p
}

// sentence names the field that a finding is about, and says what is wrong.
func sentence(found *huma.ErrorDetail) (field, says string) {
	_, field, _ = strings.Cut(found.Location, ".") // body, query, header or path
	if len(field) > maxShown {
		field = strings.ToValidUTF8(field[:maxShown], "") + "…"
	}
	name := field
	if field == "" {
		name = "The request"
	}
	before, after, _ := strings.Cut(validation.MsgExpectedRequiredProperty, "%s")
	missing, ok := strings.CutPrefix(found.Message, before)
	missing, whole := strings.CutSuffix(missing, after)
	switch {
	case ok && whole:
		field = strings.TrimPrefix(field+"."+missing, ".")
		return field, field + " is missing."
	case found.Message == validation.MsgUnexpectedProperty, found.Message == "unknown query parameter":
		return field, fmt.Sprintf("There is no field %s here: %s describes those that there are.", name, openAPIPath)
	}
	if path, _, ok := strings.Cut(found.Message, notTaken); ok && field == "" {
		return path, found.Message + "."
	}
	if digits, ok := found.Value.(json.Number); ok {
		if _, err := digits.Float64(); err != nil {
			return field, name + " is a number that is out of range."
		}
	}
	return field, fmt.Sprintf("%s is not acceptable: %s.", name, strings.TrimSuffix(found.Message, "."))
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

// write sends the problem where huma was not asked.
func (p *problem) write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = writeJSON(w, p)
}
