package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
)

// queueStats is how the whole queue stands.
type queueStats struct {
	Waiting   int `json:"waiting" doc:"Queued for a worker, in paused queues too."`
	Active    int `json:"active" doc:"Held by a worker."`
	Completed int `json:"completed" doc:"Completed, of the jobs that are kept."`
	Failed    int `json:"failed" doc:"Failed, of the jobs that are kept."`
	Delayed   int `json:"delayed" doc:"Scheduled for later, or blocked by other jobs."`
	Paused    int `json:"paused" doc:"How many queues operators paused: lanes, and models of lanes."`
	// PausedQueues are those queues.
	PausedQueues []queuePause `json:"paused_queues" nullable:"false" doc:"The queues that operators paused."`
}

type queuePause struct {
	Tier   models.Tier `json:"tier" doc:"The lane."`
	Model  *string     `json:"model" doc:"The model whose jobs do not start in this lane; null: all of the lane's."`
	By     string      `json:"paused_by" doc:"The name of the operator's key."`
	At     time.Time   `json:"paused_at" doc:"When it was paused."`
	Reason *string     `json:"reason" doc:"What the operator gave as the reason, or null."`
}

type queueOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         queueStats
}

func (s *service) registerQueue(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "getQueueStats", Method: http.MethodGet, Path: "/api/v1/queue/stats", Summary: "Count the jobs of all accounts",
		Description: "For operators. Counts are exact up to 100,000 each; beyond that they are PostgreSQL's estimates.",
		Errors:      []int{http.StatusTooManyRequests},
	}, func(ctx context.Context, _ *struct{}) (*queueOutput, error) {
		ctx, read, err := s.Reader.Shares.Admit(ctx, callerOf(ctx).Principal, len(models.JobStatuses)*query.CountPrice)
		if err != nil {
			return nil, err
		}
		defer read.End()
		stats, err := s.Reader.QueueStats(ctx, callerOf(ctx).Principal)
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

// orNull is nil for "".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
