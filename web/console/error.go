package console

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

const codeTooLarge apierror.Code = "TOO_LARGE"

var (
	errNoPage      = &apierror.Error{Code: apierror.CodeNotFound, Message: "There is no such page."}
	errCrossOrigin = &apierror.Error{Code: apierror.CodeForbidden, Message: "This request came from another site, so nothing was done. Open the page here and try again."}
	errTooLarge    = &apierror.Error{Code: codeTooLarge, Message: "The form is larger than the console takes."}
)

// statuses is how each of the caller's errors is answered.
var statuses = map[apierror.Code]int{
	apierror.CodeUnauthenticated:     http.StatusUnauthorized,
	apierror.CodeForbidden:           http.StatusForbidden,
	apierror.CodeNotFound:            http.StatusNotFound,
	apierror.CodeInvalidInput:        http.StatusUnprocessableEntity,
	apierror.CodeIdempotencyConflict: http.StatusConflict,
	apierror.CodeConflict:            http.StatusConflict,
	apierror.CodeQuotaExceeded:       http.StatusTooManyRequests,
	apierror.CodeUnavailable:         http.StatusServiceUnavailable,
	apierror.CodeRateLimited:         http.StatusTooManyRequests,
	apierror.CodeOverloaded:          http.StatusServiceUnavailable,
	codeTooLarge:                     http.StatusRequestEntityTooLarge,
}

// failure is the error page's view.
type failure struct {
	Status  int
	Title   string
	Message string
	// RetryAfterSeconds is when to try again, if that helps.
	RetryAfterSeconds int
	// RequestID finds an error of ours in the log.
	RequestID string
	// Back is the page to return to.
	Back string
}

// backLabel names the page to return to.
func (f failure) backLabel() string {
	switch {
	case strings.HasPrefix(f.Back, "/workers"):
		return "Back to workers"
	case strings.HasPrefix(f.Back, "/queues"):
		return "Back to queues"
	case f.Back == "/jobs/new":
		return "Back to the form"
	case strings.HasPrefix(f.Back, "/jobs/"):
		return "Back to the job"
	}
	return "Back to jobs"
}

// describe turns an error into what a person may see of it.
func describe(err error) failure {
	var known *apierror.Error
	if models.IsOutage(err) {
		err = apierror.ErrUnavailable
	}
	if errors.As(err, &known) && statuses[known.Code] != 0 {
		status := statuses[known.Code]
		return failure{Status: status, Title: http.StatusText(status), Message: known.Message, RetryAfterSeconds: known.RetryAfterSeconds}
	}
	return failure{
		Status: http.StatusInternalServerError, Title: "Something went wrong here",
		Message: "The error is in the log. Try again, and tell whoever runs this Reelay if it stays.", RequestID: uuid.NewString(),
	}
}

// fail renders the error page, with a link back, and logs an error of ours.
func (c *console) fail(w http.ResponseWriter, r *http.Request, err error, back string) {
	if r.Context().Err() != nil {
		return // nobody is there to read it
	}
	f := describe(err)
	f.Back = back
	if f.RequestID != "" {
		slog.ErrorContext(r.Context(), "console request failed", "method", r.Method, "path", r.URL.Path, "request", f.RequestID, "error", err)
	}
	if models.IsOutage(err) {
		slog.WarnContext(r.Context(), "a service cannot be reached", "error", err)
	}
	if f.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfterSeconds))
	}
	_, loginErr := c.principal(r)
	if err := render(w, r, f.Status, errorPage(f, loginErr == nil)); err != nil {
		slog.ErrorContext(r.Context(), "the error page failed", "error", err)
	}
}

// render sends a whole page, or nothing if its template fails.
func render(w http.ResponseWriter, r *http.Request, status int, page templ.Component) error {
	var body bytes.Buffer
	if err := page.Render(r.Context(), &body); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// Who has gone away needs no page.
	_, _ = body.WriteTo(w)
	return nil
}

// readForm parses a posted form.
func readForm(r *http.Request) error {
	err := r.ParseForm()
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return errTooLarge
	}
	if err != nil {
		return &apierror.Error{Code: apierror.CodeInvalidInput, Message: "The form could not be read: send it again."}
	}
	return nil
}
