package shell

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/web/door"
)

var (
	ErrNoPage      = apierror.NotFound("page")
	errCrossOrigin = apierror.Forbidden("This request came from another site and was refused. Open the page here and try again.")
)

// failure is the view of the error page.
type failure struct {
	Status  int
	Title   string
	Message string
	// RetryAfterSeconds is when a retry can succeed; 0 if it cannot.
	RetryAfterSeconds int
	// RequestID identifies an internal error in the log.
	RequestID string
	// Back is the address of the page to return to.
	Back string
}

// Describe turns an error into what a person is shown.
func Describe(ctx context.Context, err error) failure {
	var unread *door.Refusal
	if errors.As(err, &unread) {
		return failure{Status: unread.Status, Title: headline(unread.Status), Message: unread.Message}
	}
	if known := door.Known(ctx, err); known != nil {
		status := door.Status(known.Code)
		return failure{Status: status, Title: headline(status), Message: known.Message, RetryAfterSeconds: known.RetryAfterSeconds}
	}
	return failure{
		Status: http.StatusInternalServerError, Title: "Something went wrong",
		Message:   "Try again. If the error persists, give this request id to your administrator: it is in the server's log.",
		RequestID: uuid.NewString(),
	}
}

// headline says in the words of people what a status means.
func headline(status int) string {
	switch status {
	case http.StatusNotFound:
		return "Not found"
	case http.StatusUnauthorized:
		return "Please log in"
	case http.StatusForbidden:
		return "Not allowed"
	case http.StatusConflict:
		return "Not possible now"
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "Something in this request is wrong"
	case http.StatusRequestEntityTooLarge:
		return "Too large"
	case http.StatusTooManyRequests:
		return "Too many requests"
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "Not available right now"
	}
	return http.StatusText(status)
}

// fail renders the error page, with a link back, and logs internal errors.
func (c *Shell) fail(w http.ResponseWriter, r *http.Request, err error, back string) {
	if r.Context().Err() != nil {
		return // the browser is gone
	}
	f := Describe(r.Context(), err)
	if f.Back = back; f.Status == http.StatusForbidden {
		f.Back = Home() // the same page would refuse again
	}
	if f.RequestID != "" {
		door.Log(r.Context(), f.RequestID, err, "method", r.Method, "path", r.URL.Path)
	}
	if f.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfterSeconds))
	}
	p, loginErr := c.Principal(r)
	r, _ = c.visitedBy(r, p) // what is halted may not be readable, either
	if err := Render(w, r, f.Status, errorPage(f, loginErr == nil)); err != nil {
		slog.ErrorContext(r.Context(), "the error page failed", "error", err)
	}
}

// Render sends a complete page, or nothing if its template fails.
func Render(w http.ResponseWriter, r *http.Request, status int, page templ.Component) error {
	var body bytes.Buffer
	if err := page.Render(r.Context(), &body); err != nil {
		return err
	}
	if v := visitOf(r.Context()); v.Flash != "" {
		v.forget(w)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // the browser may be gone
	return nil
}

// ReadForm parses a posted form.
func ReadForm(r *http.Request) error {
	err := r.ParseForm()
	if err == nil && strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		err = r.ParseMultipartForm(maxForm) // larger files go to the disk
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return door.Unread(err)
	}
	if err != nil {
		return apierror.Invalid("", "The form could not be read: send it again.")
	}
	return nil
}

// forgetFiles deletes the files that a form came with.
func forgetFiles(r *http.Request) {
	if r.MultipartForm == nil {
		return
	}
	if err := r.MultipartForm.RemoveAll(); err != nil {
		slog.WarnContext(r.Context(), "the files of a form were not deleted", "error", err)
	}
}
