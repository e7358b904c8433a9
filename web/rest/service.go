package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
)

// Config is what the REST API calls.
type Config struct {
	// Keys authenticates callers, and ends streams whose key becomes invalid.
	Keys      *auth.KeyWatch
	Submitter *submit.Submitter
	Canceller *operate.Canceller
	Inputs    *inputs.Inputs
	Reads     *query.Reads
	Watcher   *watch.Watcher
	Pools     *fleet.Pools
	Budgets   *budget.Budgets
	Operator  *operate.QueueOperator
	Schedules *schedule.Schedules
	Workflows *workflow.Workflows
	Alerts    *alert.Desk
	// Region returns how the regions stand, or nil if there is only one; it is nil if that is never known.
	Region func(context.Context) (*region.Report, error)
	// Large has the places of workflows of more than [httpguard.SmallBody].
	Large *httpguard.LargeBodies
	// Base returns the scheme and host at which the caller reaches this server, such
	// as https://reelay.example. Links begin with it; without it they are paths.
	Base func(*http.Request) string
}

// service runs the operations.
type service struct {
	Config
	Summaries *wire.Summaries
}

// linkTTL is how long the links in a response are valid.
const linkTTL = 24 * time.Hour

// serve registers one operation. An error of run is sent as a problem document.
func serve[I, O any](api huma.API, op huma.Operation, run func(ctx context.Context, in *I) (*O, error)) {
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // the handler has read the body
	op.Metadata = map[string]any{schemasKey: api.OpenAPI().Components.Schemas}
	op.Errors = append(op.Errors, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := run(ctx, in)
		if err != nil {
			return nil, describe(ctx, err)
		}
		return out, nil
	})
}

const (
	openAPIPath = "/api/openapi.json"
	videosPath  = "/api/video-generations"
	jobsPath    = "/api/v1/jobs"

	generatePath = "/api/v1/generate"
)

// caller is the sender of a request, and how the response should look.
type caller struct {
	jobs.Principal
	secret string
	base   string // the scheme and host at which the caller reaches this server
	stream bool   // the response is server-sent events
}

type callerKey struct{}

// callerOf returns the caller that the handler put into a request's context. huma's
// operations take nothing else. They pass the principal on as an argument.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// JobPath names a job. huma reads only exported parts of inputs.
type JobPath struct {
	ID models.JobID `path:"id" doc:"Id of the job: job_…"`
}

// example is a body that the document shows.
func example(summary string, body map[string]any) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/json": {Examples: map[string]*huma.Example{"example": {Summary: summary, Value: body}}},
	}}
}
