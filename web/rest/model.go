package rest

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// modelView is a model of the catalogue.
type modelView struct {
	Name          string   `json:"name" doc:"The name to use in model_version and model."`
	JobType       string   `json:"job_type" doc:"The type of its jobs."`
	Description   string   `json:"description"`
	ParamsSchema  object   `json:"params_schema" doc:"The JSON Schema of its parameters, with defaults."`
	GPUTypes      []string `json:"gpu_types" nullable:"false" doc:"The GPU types that can run it."`
	Available     bool     `json:"available" doc:"Whether a worker that can run it is registered now."`
	State         string   `json:"state" enum:"available,no_worker,not_served" doc:"no_worker: no worker can run it, though a pool names it or jobs wait for it. not_served: no worker can run it, and nothing asks for it."`
	Version       int      `json:"version" doc:"Counts the changes of the entry. A job keeps the version with which it was submitted."`
	Produces      string   `json:"produces" enum:"video,image,output" doc:"Kind of result of a completed job."`
	Fallback      []string `json:"fallback" nullable:"false" doc:"The models that may render its jobs instead, in order, unless a job has a list of its own: see docs/users/fallback.md. Without those that you do not see."`
	TimeDependsOn []string `json:"time_depends_on" nullable:"false" doc:"The parameters on which the time of a render depends: times are learned per class of their values. Empty means resolution and durationSeconds."`
}

// aliasView is a name that spreads jobs over models.
type aliasView struct {
	Name   string      `json:"name" doc:"The name to use in model_version and model."`
	Models []shareView `json:"models" nullable:"false"`
}

type shareView struct {
	Name   string  `json:"name" doc:"A model or another alias."`
	Weight float64 `json:"weight" doc:"Share of the jobs, relative to the sum of all weights."`
}

type modelList struct {
	Models  []modelView `json:"models" nullable:"false" doc:"In the catalogue's order: the first is the default."`
	Aliases []aliasView `json:"aliases" nullable:"false" doc:"Names that spread jobs over models."`
}

type modelsOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         modelList
}

func (s *service) registerModels(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "listModels", Method: http.MethodGet, Path: "/api/v1/models", Summary: "List the models and their parameters",
	}, s.listModels)
}

func (s *service) listModels(ctx context.Context, _ *struct{}) (*modelsOutput, error) {
	known := s.Reads.Models.Catalogue.Current().For(callerOf(ctx).Scope())
	found, err := s.Reads.Models.List(ctx, known)
	if err != nil {
		return nil, err
	}
	out := &modelsOutput{CacheControl: "no-store"}
	for _, m := range found {
		out.Body.Models = append(out.Body.Models, modelView{
			m.Name, m.Type, m.Description, object(m.Schema), m.GPUTypes, m.Available, strings.ToLower(string(m.State)), m.Version,
			strings.ToLower(string(m.Produces)), append([]string{}, m.Fallback...), append([]string{}, m.TimeDependsOn...),
		})
	}
	out.Body.Aliases = []aliasView{}
	for _, a := range known.Aliases() {
		view := aliasView{Name: a.Name}
		for _, w := range a.Weights {
			view.Models = append(view.Models, shareView(w))
		}
		out.Body.Aliases = append(out.Body.Aliases, view)
	}
	return out, nil
}
