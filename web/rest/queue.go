package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
)

// queueStats counts the jobs of all queues.
type queueStats struct {
	Waiting   int `json:"waiting" doc:"Jobs that wait for a worker, including those in paused queues."`
	Active    int `json:"active" doc:"Jobs that a worker holds."`
	Completed int `json:"completed" doc:"Completed jobs that are still kept."`
	Failed    int `json:"failed" doc:"Failed jobs that are still kept."`
	Delayed   int `json:"delayed" doc:"Jobs that are scheduled for later, or blocked."`
	Paused    int `json:"paused" doc:"The number of paused queues: lanes, and models in a lane."`
	// PausedQueues are those queues.
	PausedQueues []queuePause `json:"paused_queues" nullable:"false" doc:"The paused queues."`
}

type queuePause struct {
	Tier   models.Tier `json:"tier" doc:"The lane."`
	Model  *string     `json:"model" doc:"The paused model in this lane. Null if the whole lane is paused."`
	By     string      `json:"paused_by" doc:"The name of the operator's key."`
	At     time.Time   `json:"paused_at" doc:"When it was paused."`
	Reason *string     `json:"reason" doc:"The operator's reason, or null."`
}

type queueOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         queueStats
}

func (s *service) registerQueue(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "getQueueStats", Method: http.MethodGet, Path: "/api/v1/queue/stats", Summary: "Count the jobs of all accounts",
		Description: "For operators. Each count is exact up to 100,000, and PostgreSQL's estimate beyond that.",
		Errors:      []int{http.StatusTooManyRequests},
	}, func(ctx context.Context, _ *struct{}) (*queueOutput, error) {
		ctx, read, err := s.Reads.Shares.Admit(ctx, callerOf(ctx).Principal, len(models.JobStatuses)*query.CountPrice)
		if err != nil {
			return nil, err
		}
		defer read.End()
		stats, err := s.Reads.Queues.Stats(ctx, callerOf(ctx).Principal)
		if err != nil {
			return nil, err
		}
		body := queueStats{
			Waiting: stats.Waiting, Active: stats.Active, Completed: stats.Completed, Failed: stats.Failed, Delayed: stats.Delayed,
			Paused: len(stats.Pauses), PausedQueues: []queuePause{},
		}
		for _, p := range stats.Pauses {
			body.PausedQueues = append(body.PausedQueues, queuePause{p.Lane, orNull(p.Model), p.By, p.At.UTC(), orNull(p.Reason)})
		}
		return &queueOutput{CacheControl: "no-store", Body: body}, nil
	})
}

// orNull returns nil for "".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
