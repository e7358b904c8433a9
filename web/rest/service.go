package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/auth"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/jobs/watch"
)

// Config is what the REST API calls.
type Config struct {
	// Keys authenticates callers, and ends streams whose key becomes invalid.
	Keys      *auth.KeyWatch
	Submitter *jobs.Submitter
	Canceller *jobs.Canceller
	Reader    *query.Reader
	Watcher   *watch.Watcher
	// Base returns the scheme and host at which the caller reaches this server, such
	// as https://reelay.example. Links begin with it; without it they are paths.
	Base func(*http.Request) string
}

// service runs the operations.
type service struct{ Config }

// linkTTL is how long the links in a response are valid.
const linkTTL = 24 * time.Hour

// serve registers one operation. An error of run is sent as a problem document.
func serve[I, O any](api huma.API, op huma.Operation, run func(ctx context.Context, in *I) (*O, error)) {
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // the handler has read the body
	op.Errors = append(op.Errors, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := run(ctx, in)
		if err != nil {
			return nil, describe(ctx, err)
		}
		return out, nil
	})
}
