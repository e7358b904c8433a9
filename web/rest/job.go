package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/samber/lo"
)

// jobRequest submits a job of any type.
type jobRequest struct {
	JobType     *string      `json:"job_type,omitempty" doc:"The type of the job. The default is the model's type, the only one that it supports." example:"video.generate"`
	Model       *string      `json:"model,omitempty" doc:"A model's name. The default is the first model of the catalogue with this type."`
	ExecuteAt   *string      `json:"execute_at,omitempty" format:"date-time" doc:"The earliest start, at most one year ahead. The default is at once."`
	Priority    *string      `json:"priority,omitempty" enum:"critical,high,normal,low" doc:"critical is for operators. high starts before the account's normal jobs. low is the tier BATCH."`
	Payload     object       `json:"payload" doc:"The prompt and the model's parameters."`
	RetryPolicy *retryPolicy `json:"retry_policy,omitempty"`
	CallbackURL *string      `json:"callback_url,omitempty" doc:"An https URL that receives a webhook when a run of the job ends: see docs/users/webhooks.md."`
	AtMostOnce  *bool        `json:"at_most_once,omitempty" doc:"Never start the job twice: if its only attempt ends without a result, the job fails. Not with retry_policy, unless max_retries alone is 0."`
	Reuse       *bool        `json:"reuse,omitempty" doc:"Accept the result of an equal job of the account, if one has completed: see docs/users/jobs.md. Not with at_most_once or draft."`
	Fallback    []string     `json:"fallback,omitempty" nullable:"false" doc:"Up to 5 models that may render the job instead, in order: see docs/users/fallback.md. The default is the model's own list. Not with at_most_once or draft."`
	Placing
	Constraints
	Own
	Draft          *draftAsked `json:"draft,omitempty" doc:"Ends the job after some steps, with a preview and without a video: see docs/users/drafts.md."`
	IdempotencyKey *string     `json:"idempotency_key,omitempty" doc:"1 to 255 printable characters. The header Idempotency-Key has the same meaning. The same key with the same request returns the same job."`
}

type draftAsked struct {
	Steps int `json:"steps" doc:"1 to the steps of the whole video."`
}

type retryPolicy struct {
	MaxRetries      *int     `json:"max_retries,omitempty" minimum:"0" maximum:"19" doc:"The number of failures that are retried. Lost workers do not count. The default depends on the tier."`
	Backoff         *string  `json:"backoff,omitempty" enum:"exponential,fixed"`
	InitialDelaySec *float64 `json:"initial_delay_sec,omitempty" minimum:"0.1" maximum:"86400"`
}

// scheduled is the response to a submit.
type scheduled struct {
	JobID     models.JobID `json:"job_id"`
	Status    string       `json:"status" enum:"queued,assigned,running,completing,completed,failed,cancelled,scheduled,blocked"`
	ExecuteAt *time.Time   `json:"execute_at" doc:"The earliest start, if it is not at once."`
	DeletedAt *time.Time   `json:"deleted_at,omitempty" doc:"Only for a repeated request whose job was deleted since: when. A new key submits a new job."`
	StatusURL string       `json:"status_url" format:"uri" doc:"The URL of the job, also in the header Location."`
}

// jobView is a job of any type.
type jobView struct {
	JobID          models.JobID   `json:"job_id"`
	JobType        string         `json:"job_type" doc:"The type of the job, such as video.generate."`
	Model          string         `json:"model"`
	Status         string         `json:"status" enum:"queued,assigned,running,completing,completed,failed,cancelled,scheduled,blocked"`
	ExecuteAt      *time.Time     `json:"execute_at" doc:"The earliest start."`
	StartedAt      *time.Time     `json:"started_at"`
	CompletedAt    *time.Time     `json:"completed_at" doc:"When the job ended."`
	DeletedAt      *time.Time     `json:"deleted_at,omitempty" doc:"When the job was deleted: its prompt, its files and its texts are gone. Only of a deleted job."`
	Retries        int            `json:"retries" doc:"The number of attempts after the first."`
	Waited         *float64       `json:"waited_seconds" doc:"Seconds that this run has been queued, all waits together. The current wait is added when it ends."`
	Ran            *float64       `json:"ran_seconds" doc:"Seconds that workers have held this run, all attempts together. The current attempt is added when it ends."`
	CostUSD        *float64       `json:"cost_usd" doc:"What the account pays, in US dollars: the useful time of the run that completed. 0 if the job failed or was cancelled. Until it ends, what it would be now. Null if a pool, or the model of a hosted provider, had no price."`
	EstimatedCost  *float64       `json:"estimated_cost_usd" doc:"What the job was expected to cost when it was submitted, in US dollars. Null if that is unknown."`
	PreviewURL     *string        `json:"preview_url" doc:"A signed link to the newest picture of the unfinished video. Null if its runtime sends none, and once the job has ended; of a completed draft, its clip or picture."`
	AtMostOnce     bool           `json:"at_most_once,omitempty" doc:"True if the job is never started twice."`
	TimeoutSeconds int            `json:"timeout_seconds" doc:"Seconds that one attempt may run."`
	ExpiresAt      *time.Time     `json:"expires_at,omitempty" doc:"The job fails if no worker has started it by then."`
	Region         string         `json:"region,omitempty" doc:"The region that the job prefers, or that it must run in if require_region is true."`
	RequireRegion  bool           `json:"require_region,omitempty" doc:"True if the job runs only in its region."`
	DependsOn      []models.JobID `json:"depends_on,omitempty" nullable:"false" doc:"The jobs that must be completed before this one starts."`
	wire.ConstraintState
	Deadline *wire.Deadline `json:"deadline,omitempty" doc:"What is expected of finish_by, as things are now. Only of a job with finish_by that has not ended."`
	wire.Given
	HasHandle  bool           `json:"has_handle,omitempty" doc:"True if the next attempt adopts what this one runs at an external service."`
	Draft      *wire.Draft    `json:"draft,omitempty" doc:"Only of a draft. A completed one has no result_url; preview_url shows it."`
	Continues  models.JobID   `json:"continues,omitempty" doc:"Id of the draft that the job continues."`
	ReusedFrom models.JobID   `json:"reused_from,omitempty" doc:"Id of the equal job whose result this one has. That job can be deleted since."`
	Fallback   []string       `json:"fallback,omitempty" nullable:"false" doc:"The models that may render the job instead, in order."`
	Routes     []jobRoute     `json:"routes,omitempty" nullable:"false" doc:"How the job came to its model: the changes from one to the next, oldest first."`
	Inputs     []jobInputView `json:"inputs" nullable:"false" doc:"The files that the payload names, referenceImage first: see docs/users/inputs.md."`
	Generation
	Result object `json:"result" doc:"For a completed job: result_url, thumbnail_url, duration_sec, and output, the data that its runtime returned."`
}

// jobRoute is a change of a job's model.
type jobRoute struct {
	Run    int       `json:"run"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason" doc:"Why, in a sentence."`
	At     time.Time `json:"at"`
}

type scheduledOutput struct {
	Location     string `header:"Location"`
	CacheControl string `header:"Cache-Control"`
	Body         scheduled
}

// jobOutput is the response with a job, or 304.
type jobOutput struct {
	Status       int
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Body         *jobView
}

func (s *service) registerJobs(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "createJob", Method: http.MethodPost, Path: jobsPath, DefaultStatus: http.StatusCreated, Summary: "Submit a job of any type",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
			http.StatusTooManyRequests},
		RequestBody: example("A video with two retries", map[string]any{
			"job_type": "video.generate", "model": "testcard", "priority": "high", "idempotency_key": "order-1235",
			"payload":      map[string]any{"prompt": "A lighthouse in the fog", "durationSeconds": 4},
			"retry_policy": map[string]any{"max_retries": 2, "backoff": "fixed", "initial_delay_sec": 10},
		}),
	}, s.createJob)
	serve(api, huma.Operation{
		OperationID: "getJob", Method: http.MethodGet, Path: jobsPath + "/{id}", Summary: "Read a job of any type",
		Description: "With wait, the response comes when the job has ended, or after that many seconds.",
		Errors:      []int{http.StatusNotFound}, Responses: notModified(),
	}, s.getJob)
	serve(api, huma.Operation{
		OperationID: "cancelJob", Method: http.MethodDelete, Path: jobsPath + "/{id}", Summary: "Cancel a job of any type",
		Description: "Cancels the job. It does not delete it: the job stays, with its events and files. Cancelling again returns the same job.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, s.cancelJob)
	serve(api, huma.Operation{
		OperationID: "continueJob", Method: http.MethodPost, Path: jobsPath + "/{id}/continue", DefaultStatus: http.StatusCreated,
		Summary:     "Make the video of a draft",
		Description: "Submits the job that begins with the checkpoint of a completed draft. A draft is continued once: a repeated request returns the same job.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests},
	}, s.continueJob)
}

// jobNames are the request's names of the domain's fields.
var jobNames = map[string]string{
	"type": "job_type", "tier": "priority", "runAt": "execute_at", "idempotencyKey": "idempotency_key", "callbackUrl": "callback_url",
	"prompt": "payload.prompt", "params": "payload", "userId": "user_id",
	"maxAttempts": "retry_policy.max_retries", "retry": "retry_policy", "retry.initialDelaySeconds": "retry_policy.initial_delay_sec",
	"dependsOn": "depends_on", "timeoutSeconds": "timeout_seconds", "expiresAt": "expires_at", "requireRegion": "require_region",
	"maxPreemptions": "max_preemptions", "finishBy": "finish_by", "maxPricePerHour": "max_price_per_hour",
}

func (s *service) createJob(ctx context.Context, in *submitInput) (*scheduledOutput, error) {
	submission, err := s.jobSubmission(callerOf(ctx).Principal, in)
	if err != nil {
		return nil, jobWords(err)
	}
	job, _, err := s.Submitter.Submit(ctx, callerOf(ctx).Principal, submission)
	if err != nil {
		return nil, jobWords(err)
	}
	return submitted(ctx, job), nil
}

func (s *service) continueJob(ctx context.Context, in *JobPath) (*scheduledOutput, error) {
	job, _, err := s.Submitter.Continue(ctx, callerOf(ctx).Principal, in.ID)
	if err != nil {
		return nil, err
	}
	return submitted(ctx, job), nil
}

// submitted is the response with a job that was submitted.
func submitted(ctx context.Context, job *models.Job) *scheduledOutput {
	url := callerOf(ctx).base + jobsPath + "/" + string(job.ID)
	return &scheduledOutput{Location: url, CacheControl: "no-store", Body: scheduled{
		JobID: job.ID, Status: strings.ToLower(string(job.Status)), ExecuteAt: wire.KnownTime(job.RunAt), DeletedAt: wire.KnownTime(job.DeletedAt),
		StatusURL: url,
	}}
}

// jobWords renames the field of an error.
func jobWords(err error) error { return renamed(err, jobNames) }

// submitInput is a request with a job of any type.
type submitInput struct {
	IdempotencyHeader
	Body jobRequest
}

// jobSubmission converts a request.
func (s *service) jobSubmission(p jobs.Principal, in *submitInput) (submit.Submission, error) {
	asked := in.Body
	key, err := in.with(asked.IdempotencyKey)
	if err != nil {
		return submit.Submission{}, err
	}
	_, model, err := s.model(p, asked.Model, value(asked.JobType))
	if err != nil {
		return submit.Submission{}, err
	}
	prompt, params, err := readPayload(asked.Payload)
	if err != nil {
		return submit.Submission{}, err
	}
	callback, err := readCallback(asked.CallbackURL)
	if err != nil {
		return submit.Submission{}, err
	}
	due, err := readTime("execute_at", value(asked.ExecuteAt))
	if err != nil {
		return submit.Submission{}, err
	}
	submission := submit.Submission{
		Type: value(asked.JobType), Model: model, Prompt: prompt, Params: params, RunAt: wire.KnownTime(due), CallbackURL: callback,
		IdempotencyKey: key,
		Fallback:       asked.Fallback,
		AtMostOnce:     asked.AtMostOnce != nil && *asked.AtMostOnce, Reuse: asked.Reuse != nil && *asked.Reuse,
	}
	asked.Own.addTo(&submission)
	if err := asked.Placing.addTo(&submission); err != nil {
		return submission, err
	}
	if err := asked.Constraints.addTo(&submission); err != nil {
		return submission, err
	}
	if err := prioritize(p, value(asked.Priority), &submission); err != nil {
		return submission, err
	}
	if asked.Draft != nil {
		submission.Draft = &submit.Draft{Steps: asked.Draft.Steps}
	}
	asked.RetryPolicy.apply(&submission)
	return submission, nil
}

// prioritize applies one of the words for a priority.
func prioritize(p jobs.Principal, word string, submission *submit.Submission) error {
	switch word {
	case "critical":
		if !p.May(access.RoleOperator) {
			return apierror.New(apierror.CodeForbidden, "The priority critical is for operators.").In("priority")
		}
		submission.Tier = models.TierCritical
	case "high":
		submission.Priority = 1
	case "low":
		submission.Tier = models.TierBatch
	}
	return nil
}

func (r *retryPolicy) apply(submission *submit.Submission) {
	if r == nil {
		return
	}
	if r.MaxRetries != nil {
		attempts := *r.MaxRetries + 1
		submission.MaxAttempts = &attempts
	}
	if r.Backoff != nil || r.InitialDelaySec != nil {
		submission.Retry = &models.RetryPolicy{Backoff: models.BackoffExponential, InitialDelaySeconds: r.InitialDelaySec}
		if value(r.Backoff) == "fixed" {
			submission.Retry.Backoff = models.BackoffFixed
		}
	}
}

// readPayload splits a payload into the prompt and the parameters.
func readPayload(payload object) (prompt string, params json.RawMessage, err error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(or(payload, "{}"), &all); err != nil {
		return "", nil, err
	}
	if raw, ok := all["prompt"]; ok {
		if json.Unmarshal(raw, &prompt) != nil {
			return "", nil, apierror.Invalid("payload.prompt", "payload.prompt must be a string.")
		}
		delete(all, "prompt")
	}
	params, err = json.Marshal(all)
	return prompt, params, err
}

// readTime reads a time, or the zero time from an empty text.
func readTime(field, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := text.ParseTime(s)
	if err != nil {
		return t, apierror.Invalid(field, "%s must be a time as in 2026-01-31T12:00:00Z (RFC 3339).", field)
	}
	return t, nil
}

func (s *service) getJob(ctx context.Context, in *readInput) (*jobOutput, error) {
	job, err := s.awaitEnd(ctx, in.ID, in.Wait)
	if err != nil {
		return nil, err
	}
	view, tag, err := s.viewJob(ctx, job)
	out := &jobOutput{Status: http.StatusOK, ETag: tag, CacheControl: "private, no-cache", Body: view}
	if in.matches(tag) {
		out.Status = http.StatusNotModified
	}
	return out, err
}

// cancelInput names a job to cancel, and why.
type cancelInput struct {
	JobPath
	Reason string `query:"reason" doc:"Reason, shown with the job. Up to 200 characters."`
}

func (s *service) cancelJob(ctx context.Context, in *cancelInput) (*jobOutput, error) {
	job, err := s.Canceller.CancelFor(ctx, callerOf(ctx).Principal, in.ID, in.Reason)
	if err != nil {
		return nil, err
	}
	view, _, err := s.viewJob(ctx, job)
	return &jobOutput{Status: http.StatusOK, CacheControl: "no-store", Body: view}, err
}

// viewJob returns the view of a job, and its ETag.
func (s *service) viewJob(ctx context.Context, job *models.Job) (*jobView, string, error) {
	inputs, err := s.inputs(ctx, []*models.Job{job})
	if err != nil {
		return nil, "", err
	}
	deadlines, err := s.deadlines(ctx, []*models.Job{job})
	if err != nil {
		return nil, "", err
	}
	summary, err := s.summary(ctx, job)
	if err != nil {
		return nil, "", err
	}
	shown := view(job)
	shown.Generation, shown.CostUSD, shown.EstimatedCost = s.generation(job, summary), summary.CostUSD, summary.EstimatedCostUSD
	shown.Deadline = deadlines[job.ID].Steady()
	if shown.DependsOn, err = s.parents(ctx, job); err != nil {
		return nil, "", err
	}
	etag, err := shown.showOutcome(job, summary)
	if err != nil {
		return nil, "", err
	}
	shown.Deadline = deadlines[job.ID]
	etag, err = shown.showInputs(inputs[job.ID], etag)
	return shown, etag, err
}

// showOutcome adds what a job has made to its view, and returns the ETag of both.
func (v *jobView) showOutcome(job *models.Job, summary *wire.Summary) (etag string, err error) {
	v.Draft = summary.Draft
	bare := *v
	bare.VideoURL, bare.ThumbnailURL = nil, nil // tag does not hash links
	if etag, err = tag(*summary, bare, job.PreviewID, object(job.Output)); err != nil {
		return "", err
	}
	v.PreviewURL = summary.PreviewURL
	if job.Status == models.JobCompleted {
		v.Result, err = result(job, summary)
	}
	return etag, err
}

// view returns the view of a job without its inputs and its result.
func view(job *models.Job) *jobView {
	return &jobView{
		JobID: job.ID, JobType: job.Type, Model: job.Model, Status: strings.ToLower(string(job.Status)),
		ExecuteAt: wire.KnownTime(job.RunAt), StartedAt: wire.KnownTime(job.StartedAt), CompletedAt: wire.KnownTime(job.CompletedAt),
		DeletedAt: wire.KnownTime(job.DeletedAt), Retries: max(0, job.AttemptNo-1),
		Waited: job.QueuedSeconds, Ran: job.LeasedSeconds, Continues: job.Continues, ReusedFrom: job.ReusedFrom, AtMostOnce: job.AtMostOnce,
		HasHandle:      job.HasHandle(),
		TimeoutSeconds: job.TimeoutSeconds, ExpiresAt: wire.KnownTime(job.ExpiresAt), Region: job.Region, RequireRegion: job.RequireRegion,
		Fallback: job.FallbackModels(), Routes: lo.Map(job.Routes, func(r models.JobRoute, _ int) jobRoute { return jobRoute(r) }),
		Inputs: []jobInputView{}, ConstraintState: wire.ConstraintStateOf(job), Given: wire.GivenOf(job),
	}
}

// deadlines returns what is expected of the deadlines of those of the jobs that have one and have not
// ended. It takes the same few statements for any number of them, and none for no such job.
func (s *service) deadlines(ctx context.Context, rows []*models.Job) (map[models.JobID]*wire.Deadline, error) {
	pressed := lo.Filter(rows, func(j *models.Job, _ int) bool { return !j.FinishBy.IsZero() && !j.Status.Terminal() })
	if len(pressed) == 0 {
		return nil, nil
	}
	edges, err := s.Reads.Jobs.Of(callerOf(ctx).Principal, pressed...)
	if err != nil {
		return nil, err
	}
	estimates, err := edges.Estimates(ctx)
	found := make(map[models.JobID]*wire.Deadline, len(estimates))
	for id, e := range estimates {
		found[id] = wire.DeadlineOf(e.Deadline)
	}
	return found, err
}

// parents returns the jobs that a job depends on.
func (s *service) parents(ctx context.Context, job *models.Job) (ids []models.JobID, err error) {
	edges, err := s.Reads.Jobs.Of(callerOf(ctx).Principal, job)
	if err != nil {
		return nil, err
	}
	found, err := edges.Parents(ctx)
	for _, parent := range found[job.ID] {
		ids = append(ids, parent.ID)
	}
	return ids, err
}

// result is the result of a completed job.
func result(job *models.Job, summary *wire.Summary) (object, error) {
	return json.Marshal(map[string]any{
		"result_url": summary.ResultURL, "thumbnail_url": summary.ThumbnailURL, "duration_sec": summary.DurationSec, "output": object(job.Output),
	})
}
