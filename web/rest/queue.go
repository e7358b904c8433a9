package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// queueStats is how the whole queue stands.
type queueStats struct {
	Waiting   int `json:"waiting" doc:"Queued for a worker, in paused queues too."`
	Active    int `json:"active" doc:"Held by a worker."`
	Completed int `json:"completed" doc:"Completed, of the jobs that are kept."`
	Failed    int `json:"failed" doc:"Failed, of the jobs that are kept."`
	Delayed   int `json:"delayed" doc:"Scheduled for later, or blocked by other jobs."`
	Paused    int `json:"paused" doc:"Queues that an operator paused: lanes, and models of lanes."`
}

type queueOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         queueStats
}

func (s *service) registerQueue(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "getQueueStats", Method: http.MethodGet, Path: "/api/v1/queue/stats", Summary: "Count the jobs of all accounts",
		Description: "For operators. Counts are exact up to 100,000 each; beyond that they are PostgreSQL's estimates.",
	}, func(ctx context.Context, _ *struct{}) (*queueOutput, error) {
		stats, err := s.Reader.QueueStats(ctx, callerOf(ctx).Principal)
		if err != nil {
			return nil, err
		}
		return &queueOutput{CacheControl: "no-store", Body: queueStats(*stats)}, nil
	})
}
