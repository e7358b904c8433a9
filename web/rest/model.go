package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// modelView is a model of the catalogue.
type modelView struct {
	Name         string   `json:"name" doc:"The name to use in model_version and model."`
	JobType      string   `json:"job_type" doc:"The type of its jobs."`
	Description  string   `json:"description"`
	ParamsSchema object   `json:"params_schema" doc:"The JSON Schema of its parameters, with defaults."`
	GPUTypes     []string `json:"gpu_types" nullable:"false" doc:"The GPU types that can run it."`
	Available    bool     `json:"available" doc:"Whether a worker that can run it is registered now."`
}

type modelList struct {
	Models []modelView `json:"models" nullable:"false" doc:"In the catalogue's order: the first is the default."`
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
	found, err := s.Reader.Models(ctx, s.Reader.Catalogue.Current())
	if err != nil {
		return nil, err
	}
	out := &modelsOutput{CacheControl: "no-store"}
	for _, m := range found {
		out.Body.Models = append(out.Body.Models, modelView{m.Name, m.Type, m.Description, object(m.Schema), m.GPUTypes, m.Available})
	}
	return out, nil
}
