// Package door has the request handling that the REST API, the Videos API, the Comfy API and the
// console share: keys, limits of bodies, strict JSON, panics, and the status of an error. Each of
// them writes errors in its own format.
package door

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/urlkey"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
)

// Authenticate returns the holder of a key, or UNAUTHENTICATED.
type Authenticate func(ctx context.Context, secret string) (jobs.Principal, error)

// Admit returns the caller of a request and the request's key. It returns FORBIDDEN if the
// key lacks the permissions of the role. A VIEWER may read with GET what the role may.
func Admit(r *http.Request, authenticate Authenticate, role access.Role) (p jobs.Principal, secret string, err error) {
	if urlkey.IsIn(r.URL.Query()) {
		return p, "", refuse(http.StatusBadRequest, BadHeader, urlkey.Refusal)
	}
	secret, err = bearer(r.Header)
	if err != nil {
		return p, "", err
	}
	p, err = authenticate(r.Context(), secret)
	if err != nil {
		return p, "", err
	}
	httpguard.ConnOf(r.Context()).MarkKnown()
	may := p.May
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		may = p.MayRead
	}
	if !may(role) {
		return p, "", apierror.Forbidden("This operation requires a key with the role %s. This key has the role %s.", role, p.Role)
	}
	return p.From(r.RemoteAddr), secret, nil
}

// bearer returns the key in the Authorization header, or "".
func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) > 1 {
		refusal := Duplicate("The request", "header", "Authorization")
		refusal.Reason = BadHeader
		return "", refusal
	}
	scheme, key, _ := strings.Cut(strings.TrimSpace(strings.Join(values, "")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	return strings.TrimSpace(key), nil
}

// IdempotencyKey returns the key that a client sends to make retries safe for as long as the job
// exists; nil if there is none.
func IdempotencyKey(h http.Header) (*string, error) {
	switch keys := h.Values("Idempotency-Key"); len(keys) {
	case 0:
		return nil, nil
	case 1:
		return &keys[0], nil
	}
	refusal := Duplicate("The request", "header", "Idempotency-Key")
	refusal.Reason = BadHeader
	return nil, refusal
}

// NewRequestID returns an id under which an internal error is logged and shown.
func NewRequestID() string {
	random := make([]byte, 16)
	rand.Read(random)
	return "req_" + hex.EncodeToString(random)
}

// Serve runs serve. If serve fails or panics, fail writes the error. If a part of the
// response was already sent, the connection is closed instead, so that the response
// does not look complete.
func Serve(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter) error, fail func(http.ResponseWriter, error)) {
	answer := &writer{ResponseWriter: w}
	err := protect(func() error { return serve(answer) })
	if err != nil && !answer.begun {
		failure := err
		err = protect(func() error { fail(answer, failure); return nil })
	}
	if err != nil {
		slog.ErrorContext(r.Context(), "a response failed halfway", "method", r.Method, "path", r.URL.Path, "error", err)
		panic(http.ErrAbortHandler)
	}
}

// protect turns a panic into an error.
func protect(run func() error) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p)
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run()
}

// writer knows whether a part of the response was sent.
type writer struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
