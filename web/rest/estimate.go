package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
)

// estimate is a forecast for a job that was not submitted.
type estimate struct {
	WaitSeconds    *float64      `json:"wait_seconds" doc:"Seconds until a worker would start the job. Null if no worker can run it, or its queue is paused."`
	WaitSecondsP90 *float64      `json:"wait_seconds_p90" doc:"90th percentile of the wait: one wait in ten is longer."`
	RenderSeconds  *float64      `json:"render_seconds" doc:"Seconds that the job would keep a worker busy. Null if no worker can run it."`
	CostUSD        *float64      `json:"cost_usd" doc:"What the job would cost, in US dollars: its render on the dearest pool that could run it. Null if that is unknown."`
	Position       int           `json:"position" minimum:"0" doc:"The job's place among the queued jobs that the same workers can run. 1 is next, and 0 is a job that reuses a result."`
	ReusedFrom     *models.JobID `json:"reused_from" doc:"Id of the job whose result a job with reuse would have now. Null without one."`
}

type estimateOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         estimate
}

func (s *service) registerEstimates(api huma.API) {
	const description = "Takes the body of a submit, but submits nothing. The response is an estimate from the current queue and workers. Invalid input is refused like at a submit."
	refusals := []int{http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}
	serve(api, huma.Operation{
		OperationID: "estimateVideo", Method: http.MethodPost, Path: videosPath + "/estimate", DefaultStatus: http.StatusOK,
		Summary:     "Estimate wait and render time of a video",
		Description: description, Errors: refusals,
		RequestBody: example("A video of four seconds", map[string]any{"prompt": "A lighthouse in the fog", "duration_sec": 4,
			"resolution": "720p"}),
	}, s.estimateVideo)
	serve(api, huma.Operation{
		OperationID: "estimateJob", Method: http.MethodPost, Path: jobsPath + "/estimate", DefaultStatus: http.StatusOK,
		Summary:     "Estimate wait and render time of a job of any type",
		Description: description, Errors: refusals,
		RequestBody: example("A video of four seconds, of low priority", map[string]any{
			"model": "testcard", "priority": "low", "payload": map[string]any{"prompt": "A lighthouse in the fog", "durationSeconds": 4},
		}),
	}, s.estimateJob)
}

func (s *service) estimateVideo(ctx context.Context, in *videoInput) (*estimateOutput, error) {
	submission, names, err := s.videoSubmission(callerOf(ctx).Principal, in)
	if err != nil {
		return nil, renamed(err, names)
	}
	out, err := s.estimate(ctx, submission)
	return out, renamed(err, names)
}

func (s *service) estimateJob(ctx context.Context, in *submitInput) (*estimateOutput, error) {
	submission, err := s.jobSubmission(callerOf(ctx).Principal, in)
	if err != nil {
		return nil, jobWords(err)
	}
	out, err := s.estimate(ctx, submission)
	return out, jobWords(err)
}

func (s *service) estimate(ctx context.Context, submission submit.Submission) (*estimateOutput, error) {
	found, err := s.Submitter.Estimate(ctx, callerOf(ctx).Principal, submission)
	if err != nil {
		return nil, err
	}
	return &estimateOutput{CacheControl: "no-store", Body: estimate{
		WaitSeconds: found.WaitSeconds, WaitSecondsP90: found.WaitSecondsP90, RenderSeconds: found.RenderSeconds, CostUSD: amount(found.CostUSD),
		Position: found.Position, ReusedFrom: found.ReusedFrom,
	}}, nil
}
