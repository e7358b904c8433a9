// Package rest is the REST API: a thin layer over what jobs can do, described by
// the OpenAPI document that it serves at /api/openapi.json.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/auth"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/jobs/watch"
)

// Config is what the REST API calls.
type Config struct {
	// Keys knows who holds a key, and ends what is open under one that is not
	// valid any more.
	Keys      *auth.KeyWatch
	Submitter *jobs.Submitter
	Canceller *jobs.Canceller
	Reader    *query.Reader
	Watcher   *watch.Watcher
	// Base returns the scheme and host at which the caller reaches this server, such
	// as https://reelay.example: links are made with it. Without it they are paths.
	Base func(*http.Request) string
}

// service answers the operations.
type service struct{ Config }

const (
	openAPIPath = "/api/openapi.json"
	// linkTTL is how long the links in an answer are good for.
	linkTTL = 24 * time.Hour
)

// New serves the REST API under /api/. A request whose context ends is answered
// at once: a held one with the job as it is then.
func New(config Config) http.Handler {
	if config.Base == nil {
		config.Base = func(*http.Request) string { return "" }
	}
	mux := http.NewServeMux()
	s := &service{config}
	document := s.register(mux)
	mux.HandleFunc("GET "+openAPIPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	})
	return &door{inside: mux, authenticate: config.Keys.Authenticate, base: config.Base}
}

// OpenAPI is the document that describes the REST API.
func OpenAPI() []byte { return new(service).register(http.NewServeMux()) }

// register puts the operations on a mux and returns the document that describes
// them.
func (s *service) register(mux *http.ServeMux) []byte {
	api := humago.New(mux, apiConfig())
	s.registerVideos(api)
	s.registerEvents(api)
	s.registerJobs(api)
	s.registerLists(api)
	s.registerEstimates(api)
	s.registerModels(api)
	s.registerQueue(api)
	// Requests may have no fields but these; answers may have more one day.
	for name, schema := range api.OpenAPI().Components.Schemas.Map() {
		if !slices.Contains([]string{"VideoRequest", "JobRequest", "RetryPolicy"}, name) {
			schema.AdditionalProperties = nil
		}
	}
	var document bytes.Buffer
	raw, err := json.Marshal(api.OpenAPI())
	if err == nil {
		err = json.Indent(&document, raw, "", "  ")
	}
	if err != nil {
		panic(fmt.Errorf("describe the REST API: %w", err)) // it depends on nothing but this code
	}
	return append(document.Bytes(), '\n')
}

func apiConfig() huma.Config {
	format := huma.Format{Marshal: writeJSON, Unmarshal: readJSON}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Reelay", Version: "1",
				Description: "AI video generation on GPUs that may vanish at any moment. Errors are problem documents (RFC 9457) with a `code`.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"key": {Type: "http", Scheme: "bearer", Description: "An API key: rl_…"},
				},
			},
			Security: []map[string][]string{{"key": {}}},
		},
		// "json" is for application/problem+json.
		Formats:                      map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// notTaken stands between a field and what it was sent, in errors that huma keeps
// only the text of.
const notTaken = " does not take the "

// readJSON decodes a body that the door found to be well-formed: first into any
// value, whose numbers are left as they were written, so that what checks it can
// name one that is out of range.
func readJSON(data []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err := decoder.Decode(v)
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return errors.New(mistyped.Field + notTaken + mistyped.Value)
	case err != nil:
		return errors.New("the body cannot be read")
	}
	return nil
}

// serve registers one operation. What run returns as an error goes out as a
// problem document.
func serve[I, O any](api huma.API, op huma.Operation, run func(ctx context.Context, in *I) (*O, error)) {
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // the door has read the body
	op.Errors = append(op.Errors, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := run(ctx, in)
		if err != nil {
			return nil, describe(ctx, err)
		}
		return out, nil
	})
}

// example is a body that the document shows.
func example(summary string, body map[string]any) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/json": {Examples: map[string]*huma.Example{"example": {Summary: summary, Value: body}}},
	}}
}
