package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// desiredWorkers is what an autoscaler reads. KEDA's metrics-api scaler takes a number by its
// path: valueLocation: desired.
type desiredWorkers struct {
	Pool    string `json:"pool" doc:"The pool's name."`
	Desired int    `json:"desired" doc:"Number of workers that the pool should have now."`
	Workers int    `json:"workers" doc:"Number of workers in the pool, without those that drain."`
	Reason  string `json:"reason" doc:"Why, in a sentence."`
}

type desiredInput struct {
	Name string `path:"name" maxLength:"100" doc:"The pool's name."`
}

type desiredOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         desiredWorkers
}

func (s *service) registerPools(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "getDesiredWorkers", Method: http.MethodGet, Path: "/api/v1/pools/{name}/desired",
		Summary:     "Read how many workers a pool should have",
		Description: "For operators, and for autoscalers that start the agents of a static pool, such as KEDA.",
		Errors:      []int{http.StatusNotFound},
	}, func(ctx context.Context, in *desiredInput) (*desiredOutput, error) {
		found, err := s.Pools.ExplainNamed(ctx, callerOf(ctx).Principal, in.Name)
		if err != nil {
			return nil, err
		}
		return &desiredOutput{CacheControl: "no-store", Body: desiredWorkers{found.Pool.Name, found.Desired, found.Workers, found.Reason}}, nil
	})
}
