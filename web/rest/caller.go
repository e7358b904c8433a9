package rest

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

const (
	openAPIPath = "/api/openapi.json"
	videosPath  = "/api/video-generations"
	jobsPath    = "/api/v1/jobs"
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

// JobInput names a job. huma reads only exported parts of inputs.
type JobInput struct {
	ID models.JobID `path:"id" doc:"The job's id: job_…"`
}

// example is a body that the document shows.
func example(summary string, body map[string]any) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/json": {Examples: map[string]*huma.Example{"example": {Summary: summary, Value: body}}},
	}}
}
