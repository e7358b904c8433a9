package apierror

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/reelay/reelay/internal/text"
)

// Code tells a program what went wrong; docs/users/errors.md lists them.
type Code string

const (
	CodeUnauthenticated     Code = "UNAUTHENTICATED"
	CodeForbidden           Code = "FORBIDDEN"
	CodeNotFound            Code = "NOT_FOUND"
	CodeInvalidInput        Code = "INVALID_INPUT"
	CodeIdempotencyConflict Code = "IDEMPOTENCY_CONFLICT"
	CodeConflict            Code = "CONFLICT"
	CodeLeaseLost           Code = "LEASE_LOST"
	CodeChecksumMismatch    Code = "CHECKSUM_MISMATCH"
	CodeContentPolicy       Code = "CONTENT_POLICY"
	CodeRateLimited         Code = "RATE_LIMITED"
	CodeQuotaExceeded       Code = "QUOTA_EXCEEDED"
	CodeBudgetExceeded      Code = "BUDGET_EXCEEDED"
	CodeOverloaded          Code = "OVERLOADED"
	CodeUnavailable         Code = "UNAVAILABLE"
	CodeInternal            Code = "INTERNAL"
)

// Codes lists all codes.
var Codes = []Code{
	CodeUnauthenticated, CodeForbidden, CodeNotFound, CodeInvalidInput, CodeIdempotencyConflict, CodeConflict, CodeLeaseLost,
	CodeChecksumMismatch, CodeContentPolicy, CodeRateLimited, CodeQuotaExceeded, CodeOverloaded, CodeUnavailable, CodeInternal,
}

// Error is a failure the caller caused or can act on. Its message is shown to
// callers as it stands; every other error reaches them as INTERNAL.
type Error struct {
	Code    Code
	Message string
	// Field names the input that is wrong, with INVALID_INPUT.
	Field string
	// At is where in the text of the field the problem begins, in characters from 1;
	// 0 if that is not known.
	At int
	// RetryAfterSeconds is when to try again, if that helps. The message says so
	// too: see Later.
	RetryAfterSeconds int
}

func (e *Error) Error() string { return e.Message }

// Is makes errors.Is compare by code, so that errors.Is(err, ErrLeaseLost) holds
// for every lost lease.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// HasCode reports whether err is an *Error with that code.
func HasCode(err error, code Code) bool { return errors.Is(err, &Error{Code: code}) }

// In returns the error with the input that is wrong.
func (e *Error) In(field string) *Error {
	named := *e
	named.Field = field
	return &named
}

var (
	// ErrLeaseLost means that the job was reaped, requeued or ended after the
	// caller leased it. The worker must stop and upload nothing more.
	ErrLeaseLost = New(CodeLeaseLost, "The lease on this job is gone: stop the work and upload nothing more.")
	// ErrUnavailable is the error that callers get if PostgreSQL does not answer: see postgres.IsOutage.
	// What was asked may have been done.
	ErrUnavailable = Later(CodeUnavailable, 2*time.Second, "The database cannot be reached now.")
	// ErrDatabaseBusy is the error that callers get for an outage of PostgreSQL if postgres.IsBusy returns
	// true, and ErrDatabaseUnfit if postgres.Answers does.
	ErrDatabaseBusy = Later(CodeUnavailable, 2*time.Second,
		"The database is busy: it gave this request up, since it took too long or others were in its way, and undid what was not finished. Smaller requests, or fewer at once, take less time.")
	ErrDatabaseUnfit = Later(CodeUnavailable, 2*time.Second,
		"The database answers, but cannot serve requests now: its operator finds the reason in its log.")
	// ErrBusy refuses a large request before its body is read: there is no place for it.
	ErrBusy = Later(CodeUnavailable, 2*time.Second, "Too many large requests are in progress.")
	// ErrAccountClosed refuses what would add something to an account that is being deleted.
	ErrAccountClosed = New(CodeForbidden, "This account is being deleted: it accepts nothing new.")
	// ErrKeyClosed refuses a key of such an account.
	ErrKeyClosed = New(CodeUnauthenticated, "The account of this key is being deleted: its keys are no longer valid.")
	// ErrUnauthenticated means that no valid key came with the request.
	ErrUnauthenticated = New(CodeUnauthenticated, "This request has no valid key: send the header Authorization: Bearer rl_live_…")
)

// Outage returns the error that callers get for an outage of PostgreSQL, given postgres.IsBusy and
// postgres.Answers of it.
func Outage(busy, answers bool) *Error {
	switch {
	case busy:
		return ErrDatabaseBusy
	case answers:
		return ErrDatabaseUnfit
	}
	return ErrUnavailable
}

// New returns an error of any code. Invalid, Conflict, Forbidden, NotFound and Later are for
// the most frequent ones. No other package builds an Error by itself.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Later is a refusal that is over after so long, in whole seconds, at least one:
// the message ends with when to try again.
func Later(code Code, after time.Duration, format string, args ...any) *Error {
	seconds := max(int(math.Ceil(after.Seconds())), 1)
	e := New(code, format, args...)
	e.RetryAfterSeconds = seconds
	e.Message += " Try again in " + wait(seconds) + "."
	return e
}

// wait formats a wait of two minutes or more in larger units, rounded up to minutes from an hour on, so that it is never too short.
func wait(seconds int) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%d s", seconds)
	case seconds >= 3600:
		seconds = (seconds + 59) / 60 * 60
	}
	return text.Setting(time.Duration(seconds) * time.Second)
}

func Invalid(field, format string, args ...any) *Error {
	return New(CodeInvalidInput, format, args...).In(field)
}

// Internal returns the error of a fault on our side. Its details are only logged, under the
// request id.
func Internal(requestID string) *Error {
	return New(CodeInternal, "An internal error occurred. The server's log has it under the request id %s.", requestID)
}

func Conflict(format string, args ...any) *Error {
	return New(CodeConflict, format, args...)
}

func Forbidden(format string, args ...any) *Error {
	return New(CodeForbidden, format, args...)
}

// NotFound is the one answer for an id that does not exist and for one that is
// not the caller's. It does not repeat the id, which may be anything.
func NotFound(what string) *Error {
	return New(CodeNotFound, "There is no such %s.", what)
}

// OrNotFound makes a missing row the caller's error.
func OrNotFound(err error, what string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return NotFound(what)
	}
	return err
}

// Wrap adds what was being done to an error of ours, and leaves the caller's
// as they are.
func Wrap(err error, format string, args ...any) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
