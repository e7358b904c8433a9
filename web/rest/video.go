package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/door"
)

// videoType is the type of jobs that make a video.
const videoType = "video.generate"

// videoRequest submits a video job.
type videoRequest struct {
	Prompt         string  `json:"prompt" doc:"What the video should show: 1 to 10,000 characters, at most 40,000 bytes."`
	ModelVersion   *string `json:"model_version,omitempty" doc:"A model's name. The default is the first model of the catalogue."`
	DurationSec    *number `json:"duration_sec,omitempty" doc:"The length in seconds (the model's parameter durationSeconds)."`
	Resolution     *string `json:"resolution,omitempty" doc:"For example 720p. The model's schema lists the values."`
	AspectRatio    *string `json:"aspect_ratio,omitempty" doc:"For example 16:9 (the model's parameter aspectRatio)."`
	FPS            *number `json:"fps,omitempty" doc:"Frames per second."`
	Seed           *number `json:"seed,omitempty" doc:"Another seed makes another video from the same prompt."`
	Style          *string `json:"style,omitempty" doc:"For models with the parameter style."`
	ReferenceImage *string `json:"reference_image_url,omitempty" doc:"An image with which the video begins: an https URL, or the id of an uploaded input. For models with the parameter referenceImage."`
	CallbackURL    *string `json:"callback_url,omitempty" doc:"An https URL that receives a webhook when a run of the job ends: see docs/users/webhooks.md."`
	AtMostOnce     *bool   `json:"at_most_once,omitempty" doc:"Never start the job twice: if its only attempt ends without a result, the job fails."`
	Reuse          *bool   `json:"reuse,omitempty" doc:"Accept the result of an equal job of the account, if one has completed: see docs/users/jobs.md. Not with at_most_once."`
	Constraints
	IdempotencyKey *string `json:"idempotency_key,omitempty" doc:"1 to 255 printable characters. The header Idempotency-Key has the same meaning. The same key with the same request returns the same job."`
	PriorityTier   *string `json:"priority_tier,omitempty" doc:"critical, enterprise, pro, free or batch: the account's tier (the default) or a lower one."`
	Params         object  `json:"params,omitempty" doc:"Further parameters of the model. None may be one of the fields above."`
	Own
}

// IdempotencyHeader is the header with the same meaning as idempotency_key.
type IdempotencyHeader struct {
	Key string `header:"Idempotency-Key" doc:"The same as idempotency_key in the body. If both are sent, they must be equal."`
	// sent distinguishes an empty header from none.
	sent bool
}

// Resolve implements huma.Resolver. huma itself would use the first of several headers,
// and would ignore an empty one.
func (h *IdempotencyHeader) Resolve(ctx huma.Context) []error {
	n := 0
	ctx.EachHeader(func(name, _ string) {
		if strings.EqualFold(name, "Idempotency-Key") {
			n++
		}
	})
	h.sent = n > 0
	if n > 1 {
		return []error{door.Duplicate("The request", "header", "Idempotency-Key")}
	}
	return nil
}

// with returns the key of the header or the body; nil if there is none.
func (h *IdempotencyHeader) with(body *string) (*string, error) {
	switch {
	case h.sent && strings.TrimSpace(h.Key) == "":
		return nil, apierror.Invalid("idempotency_key",
			"The header Idempotency-Key is empty: send a key of 1 to 255 printable characters, or no such header.")
	case body != nil && strings.TrimSpace(*body) == "":
		return nil, apierror.Invalid("idempotency_key", "idempotency_key is empty: send a key of 1 to 255 printable characters, or none.")
	case !h.sent:
		return body, nil
	case body != nil && *body != h.Key:
		return nil, apierror.Invalid("idempotency_key", "idempotency_key and the header Idempotency-Key differ: send one of them.")
	}
	return &h.Key, nil
}

// accepted is the response to a submit.
type accepted struct {
	JobID                models.JobID   `json:"job_id"`
	Status               string         `json:"status" enum:"queued,assigned,running,completing,completed,failed,cancelled,scheduled,blocked" doc:"queued, or blocked until the image at reference_image_url is fetched. For a repeated request, the job's current status."`
	EstimatedWaitSeconds *float64       `json:"estimated_wait_seconds" doc:"Estimated seconds until a worker starts the job. Null once one has, or if unknown."`
	Deadline             *wire.Deadline `json:"deadline,omitempty" doc:"What is expected of finish_by, if the request has one."`
	DeletedAt            *time.Time     `json:"deleted_at,omitempty" doc:"Only for a repeated request whose job was deleted since: when. A new key submits a new job."`
	StatusURL            string         `json:"status_url" format:"uri" doc:"The URL of the job, also in the header Location."`
}

type acceptedOutput struct {
	Location     string `header:"Location"`
	CacheControl string `header:"Cache-Control"`
	Body         accepted
}

// summaryOutput is the response with a job, or 304.
type summaryOutput struct {
	Status       int
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Body         *wire.Summary
}

type readInput struct {
	JobPath
	WaitInput
	IfNoneMatch
}

func (s *service) registerVideos(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "createVideo", Method: http.MethodPost, Path: videosPath, DefaultStatus: http.StatusAccepted,
		Summary:     "Submit a video job",
		Description: "When the response arrives, the job is stored durably. Send an idempotency key, so that you can repeat the request if the response is lost.",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
			http.StatusTooManyRequests},
		RequestBody: example("A video of four seconds", map[string]any{
			"prompt": "A lighthouse in the fog, waves below", "duration_sec": 4, "resolution": "720p", "aspect_ratio": "16:9",
			"seed": 7, "idempotency_key": "order-1234", "priority_tier": "pro", "metadata": map[string]any{"order": 1234},
		}),
	}, s.createVideo)
	serve(api, huma.Operation{
		OperationID: "getVideo", Method: http.MethodGet, Path: videosPath + "/{id}", Summary: "Read a job",
		Description: "With wait, the response comes when the job has ended, or after that many seconds.",
		Errors:      []int{http.StatusNotFound}, Responses: notModified(),
	}, s.getVideo)
	serve(api, huma.Operation{
		OperationID: "cancelVideo", Method: http.MethodDelete, Path: videosPath + "/{id}", Summary: "Cancel a job",
		Description: "A waiting job is cancelled at once, a running one when its worker has stopped. A completed or failed job is a conflict.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, s.cancelVideo)
	serve(api, huma.Operation{
		OperationID: "getVideoFile", Method: http.MethodGet, Path: videosPath + "/{id}/video", DefaultStatus: http.StatusFound,
		Summary:     "Download the video",
		Description: "Redirects to a signed link. Do not send the key to that link.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, s.linkVideo)
}

func notModified() map[string]*huma.Response {
	return map[string]*huma.Response{"304": {Description: "The job has not changed since the ETag in If-None-Match."}}
}

// submitNames are the request's names of the domain's fields.
var submitNames = map[string]string{"model": "model_version", "tier": "priority_tier", "userId": "user_id",
	"idempotencyKey": "idempotency_key", "callbackUrl": "callback_url",
	"maxPreemptions": "max_preemptions", "finishBy": "finish_by", "maxPricePerHour": "max_price_per_hour"}

func (s *service) createVideo(ctx context.Context, in *videoInput) (*acceptedOutput, error) {
	submission, names, err := s.videoSubmission(callerOf(ctx).Principal, in)
	if err != nil {
		return nil, renamed(err, names)
	}
	job, _, err := s.Submitter.Submit(ctx, callerOf(ctx).Principal, submission)
	if err != nil {
		return nil, renamed(err, names)
	}
	summaries, err := s.Summaries.OfJobs(ctx, callerOf(ctx).Principal, []*models.Job{job}, callerOf(ctx).base, linkTTL)
	if err != nil {
		return nil, err
	}
	url := callerOf(ctx).base + videosPath + "/" + string(job.ID)
	return &acceptedOutput{Location: url, CacheControl: "no-store", Body: accepted{
		JobID: job.ID, Status: summaries[0].Status, EstimatedWaitSeconds: summaries[0].EstimatedWaitSeconds, Deadline: summaries[0].Deadline,
		DeletedAt: summaries[0].DeletedAt, StatusURL: url,
	}}, nil
}

// videoInput is a request for a video.
type videoInput struct {
	IdempotencyHeader
	Body videoRequest
}

// videoSubmission converts a request. names are the request's names of the domain's
// fields.
func (s *service) videoSubmission(p jobs.Principal, in *videoInput) (submission submit.Submission, names map[string]string, err error) {
	asked := in.Body
	fields := asked.fields()
	names = withParams(submitNames, fields)
	key, err := in.with(asked.IdempotencyKey)
	if err != nil {
		return submission, names, err
	}
	model, name, err := s.model(p, asked.ModelVersion, "")
	if err != nil {
		return submission, names, err
	}
	callback, err := readCallback(asked.CallbackURL)
	if err != nil {
		return submission, names, err
	}
	params, err := merge(model, asked.Params, fields)
	if err != nil {
		return submission, names, err
	}
	var tier models.Tier
	if asked.PriorityTier != nil {
		if tier, err = readName("priority_tier", *asked.PriorityTier, models.Tiers); err != nil {
			return submission, names, err
		}
	}
	submission = submit.Submission{
		Model: name, Prompt: asked.Prompt, Params: params, Tier: tier, IdempotencyKey: key,
		CallbackURL: callback, AtMostOnce: asked.AtMostOnce != nil && *asked.AtMostOnce, Reuse: asked.Reuse != nil && *asked.Reuse,
	}
	asked.Own.addTo(&submission)
	return submission, names, asked.Constraints.addTo(&submission)
}

func (v *videoRequest) fields() []field {
	return []field{
		{"duration_sec", "durationSeconds", v.DurationSec}, {"resolution", "resolution", v.Resolution},
		{"aspect_ratio", "aspectRatio", v.AspectRatio}, {"fps", "fps", v.FPS}, {"seed", "seed", v.Seed},
		{"style", "style", v.Style}, {"reference_image_url", "referenceImage", v.ReferenceImage},
	}
}

// withParams adds the names of the parameters that were sent as fields.
func withParams(names map[string]string, fields []field) map[string]string {
	all := map[string]string{}
	for domain, name := range names {
		all[domain] = name
	}
	for _, f := range fields {
		if sent(f.value) {
			all["params."+f.param] = f.name
		}
	}
	return all
}

func sent(value any) bool {
	switch v := value.(type) {
	case *string:
		return v != nil
	case *number:
		return v != nil
	}
	return false
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// readCallback refuses the empty URL. The domain would take it for none, and the caller
// would wait for a webhook that never comes.
func readCallback(url *string) (string, error) {
	if url != nil && *url == "" {
		return "", apierror.Invalid("callback_url", "callback_url is empty: send an https URL, or leave it out.")
	}
	return value(url), nil
}

// model returns the model of that name and the name to submit. For an alias it is one of its
// models. Without a name it is the first of the catalogue with jobs of that type.
func (s *service) model(p jobs.Principal, name *string, kind string) (*catalogue.Model, string, error) {
	known := s.Submitter.Catalogue.Current().For(p.Scope())
	if name != nil {
		candidates, err := known.Candidates(*name)
		if err != nil {
			return nil, "", err
		}
		return candidates[0].Model, *name, nil
	}
	for _, m := range known.Models() {
		if kind == "" || m.Type == kind {
			return m, m.Name, nil
		}
	}
	return nil, "", apierror.Invalid("type", "No model has jobs of this type.")
}

func (s *service) getVideo(ctx context.Context, in *readInput) (*summaryOutput, error) {
	job, err := s.awaitEnd(ctx, in.ID, in.Wait)
	if err != nil {
		return nil, err
	}
	summary, err := s.summary(ctx, job)
	if err != nil {
		return nil, err
	}
	out := &summaryOutput{Status: http.StatusOK, CacheControl: "private, no-cache", Body: summary}
	if out.ETag, err = tag(*summary); err == nil && in.matches(out.ETag) {
		out.Status = http.StatusNotModified
	}
	return out, err
}

func (s *service) cancelVideo(ctx context.Context, in *JobPath) (*summaryOutput, error) {
	job, err := s.Canceller.Cancel(ctx, callerOf(ctx).Principal, in.ID)
	if err != nil {
		return nil, err
	}
	summary, err := s.summary(ctx, job)
	if err != nil {
		return nil, err
	}
	return &summaryOutput{Status: http.StatusOK, CacheControl: "no-store", Body: summary}, nil
}

func (s *service) summary(ctx context.Context, job *models.Job) (*wire.Summary, error) {
	ctx, cancel := lasting(ctx)
	defer cancel()
	summaries, err := s.Summaries.OfJobs(ctx, callerOf(ctx).Principal, []*models.Job{job}, callerOf(ctx).base, linkTTL)
	if err != nil {
		return nil, err
	}
	return summaries[0], nil
}

type linkOutput struct {
	Location     string `header:"Location" doc:"A signed link to the video."`
	CacheControl string `header:"Cache-Control"`
}

func (s *service) linkVideo(ctx context.Context, in *JobPath) (*linkOutput, error) {
	video, err := s.Reads.Jobs.Video(ctx, callerOf(ctx).Principal, in.ID)
	if err != nil {
		return nil, err
	}
	link, err := s.Reads.Jobs.Link(ctx, video, linkTTL)
	return &linkOutput{Location: link.At(callerOf(ctx).base), CacheControl: "no-store"}, err
}
