// Package rest is the REST API: a thin layer over jobs, described by the OpenAPI
// document that it serves at /api/openapi.json.
package rest

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/web/door"
)

// New serves the REST API under /api/. A request whose context ends is answered
// immediately: one that waits for a job, with the job's current state.
func New(config Config) http.Handler {
	if config.Base == nil {
		config.Base = func(*http.Request) string { return "" }
	}
	mux := http.NewServeMux()
	s := &service{Config: config, Summaries: wire.New(config.Reads)}
	described := s.register(mux)
	document := encoded(described)
	mux.HandleFunc("GET "+openAPIPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	})
	h := &handler{inside: mux, authenticate: config.Keys.Authenticate, base: config.Base, bodies: map[string]bool{},
		filled: map[string][]string{}, large: config.Large}
	h.methods = map[string][]string{}
	paths := maps.Clone(described.Paths)
	for path, item := range described.Paths {
		if rest, ok := strings.CutPrefix(path, schedulesPath); ok {
			paths[recurringPath+rest] = item
		}
	}
	for path, item := range paths {
		h.bodies[http.MethodPost+" "+path] = item.Post != nil && item.Post.RequestBody != nil
		for method, op := range map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodDelete: item.Delete} {
			if op != nil {
				h.filled[method+" "+path] = filledParams(op)
			}
			if op != nil && !strings.Contains(path, "{") {
				h.methods[path] = append(h.methods[path], method)
			}
		}
		if slices.Contains(h.methods[path], http.MethodGet) {
			h.methods[path] = append(h.methods[path], http.MethodHead)
		}
		slices.Sort(h.methods[path])
	}
	return h
}

// filledParams are the parameters of the URL for which an empty text is no value.
func filledParams(op *huma.Operation) (names []string) {
	for _, p := range op.Parameters {
		if p.In == "query" && (p.Required || p.Schema.Type != huma.TypeString || p.Schema.Format != "") {
			names = append(names, p.Name)
		}
	}
	return names
}

// OpenAPI returns the document that describes the REST API.
func OpenAPI() []byte { return encoded(new(service).register(http.NewServeMux())) }

// register adds the operations to a mux and returns what describes them.
func (s *service) register(mux *http.ServeMux) *huma.OpenAPI {
	api := humago.New(mux, apiConfig())
	s.registerVideos(api)
	s.registerEvents(api)
	s.registerJobs(api)
	s.registerGenerate(api)
	s.registerSchedules(api)
	s.registerWorkflows(api)
	s.registerLists(api)
	s.registerEstimates(api)
	s.registerInputs(api)
	s.registerModels(api)
	s.registerQueue(api)
	s.registerHalts(api)
	s.registerOverview(api)
	s.registerAttention(api)
	s.registerChanges(api)
	s.registerPools(api)
	s.registerMachines(api)
	s.registerDrafts(api)
	s.registerCosts(api)
	s.registerBudgets(api)
	s.registerReports(api)
	s.registerStatements(api)
	s.registerRegion(api)
	for name, schema := range api.OpenAPI().Components.Schemas.Map() {
		if !slices.Contains(requests, name) {
			schema.AdditionalProperties = nil
		}
	}
	return api.OpenAPI()
}

func apiConfig() huma.Config {
	format := huma.Format{Marshal: door.WriteJSON, Unmarshal: readJSON}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Reelay", Version: "1",
				Description: "AI video generation on GPUs that may vanish at any moment. Errors are problem documents (RFC 9457) with a `code`. " +
					"A path that does not take a method answers 405 with the header `Allow`, and an unknown path 404. Every GET can also be sent as HEAD. " +
					"A request whose header or URL is larger than 32 KiB is answered 431 in plain text.",
			},
			Servers: []*huma.Server{{URL: "/"}},
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
