package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Code is the kind of an Error, as the API defines it.
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
	CodeParseFailed         Code = "GRAPHQL_PARSE_FAILED"
)

// Error says why a call failed. Its message is written for people.
type Error struct {
	Code    Code
	Message string
	// Field names the invalid input, if the error is about one.
	Field string
	// RetryAfter is how long the API asks the caller to wait before a retry.
	RetryAfter time.Duration
	// RequestID identifies the failure in the server's log, if the server failed.
	RequestID string
	// Unsettled means that it is unknown whether the call took effect.
	Unsettled bool

	cause error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the underlying error, such as context.Canceled, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Retryable reports whether the same call can succeed later.
func (e *Error) Retryable() bool {
	switch e.Code {
	case CodeUnavailable, CodeOverloaded, CodeRateLimited:
		return true
	}
	return false
}

// ErrorCode returns the code of the *Error in err's chain, or "" if there is none.
func ErrorCode(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// graphError is one entry in the errors of a GraphQL answer.
type graphError struct {
	Message    string `json:"message"`
	Extensions struct {
		Code       Code    `json:"code"`
		Field      string  `json:"field"`
		RetryAfter float64 `json:"retryAfterSeconds"`
		RequestID  string  `json:"requestId"`
	} `json:"extensions"`
}

func (g graphError) asError(answer *http.Response) *Error {
	e := &Error{
		Code:       g.Extensions.Code,
		Message:    g.Message,
		Field:      g.Extensions.Field,
		RetryAfter: time.Duration(g.Extensions.RetryAfter * float64(time.Second)),
		RequestID:  g.Extensions.RequestID,
	}
	if e.Code == "" {
		e.Code = CodeInternal
		if answer != nil && answer.StatusCode != http.StatusOK {
			e.Code = codeOfStatus(answer.StatusCode)
		}
	}
	if e.RetryAfter == 0 && answer != nil {
		e.RetryAfter = retryAfter(answer)
	}
	e.Unsettled = e.Code == CodeUnavailable || e.Code == CodeInternal
	return e
}

// unreachable returns the error of a request that got no answer.
func unreachable(host string, err error) *Error {
	return &Error{Code: CodeUnavailable, Message: fmt.Sprintf("%s cannot be reached: %s", host, reason(err)), Unsettled: !unsent(err),
		cause: err}
}

// reason says why a request failed, without the URL and the steps that Go's errors list.
func reason(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "there is no such host"
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "no answer in time"
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return call.Err.Error()
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	return err.Error()
}

// strangeAnswer returns the error of an answer that is not GraphQL: the page of a
// proxy, a wrong address, a server that is starting or stopping.
func strangeAnswer(answer *http.Response, body []byte) *Error {
	code := codeOfStatus(answer.StatusCode)
	return &Error{
		Code:       code,
		Unsettled:  code == CodeUnavailable,
		Message:    fmt.Sprintf("%s answered %s%s", answer.Request.URL.Host, answer.Status, remark(answer, body)),
		RetryAfter: retryAfter(answer),
	}
}

func codeOfStatus(status int) Code {
	switch status {
	case http.StatusUnauthorized:
		return CodeUnauthenticated
	case http.StatusForbidden, http.StatusGone:
		return CodeForbidden
	case http.StatusNotFound:
		return CodeNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return CodeConflict
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return CodeInvalidInput
	case http.StatusTooManyRequests:
		return CodeRateLimited
	}
	return CodeUnavailable
}

func retryAfter(answer *http.Response) time.Duration {
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// remark says what an answer that is not GraphQL has besides its status. The pages that servers and
// proxies have for browsers say nothing more.
func remark(answer *http.Response, body []byte) string {
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		return excerpt(body)
	}
	if answer.StatusCode == http.StatusNotFound {
		return ": there is no Reelay API at " + answer.Request.URL.String()
	}
	return " with a page for browsers"
}

// excerpt returns the start of a body, for an error message.
func excerpt(body []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "�")), " ")
	if text == "" {
		return ""
	}
	if utf8.RuneCountInString(text) > 200 {
		text = string([]rune(text)[:200]) + "…"
	}
	return ": " + text
}
