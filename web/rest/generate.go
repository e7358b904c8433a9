package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// generateRequest submits a video in the words that hosted services have in common.
type generateRequest struct {
	Provider        *string  `json:"provider,omitempty" doc:"Who renders: the runtime of a model of the catalogue, such as runway, veo, comfyui or testcard. The default is the model's."`
	Model           *string  `json:"model,omitempty" doc:"A model's name. The default is the only model of the provider; without a provider, the first video model of the catalogue."`
	Prompt          string   `json:"prompt" doc:"What the video should show: 1 to 10,000 characters, at most 40,000 bytes."`
	DurationSeconds *number  `json:"durationSeconds,omitempty" doc:"The length in seconds."`
	Resolution      *string  `json:"resolution,omitempty" doc:"The shorter side, such as 720p, or the size, such as 1280x720."`
	AspectRatio     *string  `json:"aspectRatio,omitempty" doc:"Width to height, such as 16:9."`
	Seed            *number  `json:"seed,omitempty" doc:"Another seed makes another video from the same prompt."`
	NegativePrompt  *string  `json:"negativePrompt,omitempty" doc:"What the video should not show."`
	ImageURL        *string  `json:"imageUrl,omitempty" doc:"An image with which the video begins: an https URL, or the id of an uploaded input."`
	Fallback        []string `json:"fallback,omitempty" nullable:"false" doc:"Up to 5 models that may render the video instead, in order: see docs/users/fallback.md. The default is the model's own list."`
	Priority        *string  `json:"priority,omitempty" enum:"critical,high,normal,low" doc:"critical is for operators. high starts before the account's normal jobs. low is the tier BATCH."`
	WebhookURL      *string  `json:"webhookUrl,omitempty" doc:"An https URL that receives a webhook when a run of the job ends: see docs/users/webhooks.md."`
	UserID          *string  `json:"userId,omitempty" doc:"Your id for the end user."`
	Metadata        object   `json:"metadata,omitempty" doc:"Your own data, up to 64 keys, stored with the job, shown with it and sent with its webhooks."`
	IdempotencyKey  *string  `json:"idempotencyKey,omitempty" doc:"1 to 255 printable characters. The header Idempotency-Key has the same meaning. The same key with the same request returns the same job."`
}

// generated is the response to it.
type generated struct {
	JobID                models.JobID `json:"jobId"`
	Status               string       `json:"status" enum:"queued,assigned,running,completing,completed,failed,cancelled,scheduled,blocked" doc:"queued, or blocked until the image at imageUrl is fetched. For a repeated request, the job's current status."`
	Model                string       `json:"model"`
	Provider             *string      `json:"provider" doc:"Null if the model no longer exists."`
	EstimatedWaitSeconds *float64     `json:"estimatedWaitSeconds" doc:"Estimated seconds until a worker starts the job. Null once one has, or if unknown."`
	StatusURL            string       `json:"statusUrl" format:"uri" doc:"The URL of the job, also in the header Location."`
}

type generatedOutput struct {
	Location     string `header:"Location"`
	CacheControl string `header:"Cache-Control"`
	Body         generated
}

// generateInput is a request for a video.
type generateInput struct {
	IdempotencyHeader
	Body generateRequest
}

// Generation is a job in the words that hosted services have in common. huma reads only exported parts.
type Generation struct {
	ID                   models.JobID   `json:"jobId" doc:"The same as job_id."`
	Provider             *string        `json:"provider" doc:"Who renders: the runtime of the model. Null if the model no longer exists, or has none."`
	Progress             float64        `json:"progress" minimum:"0" maximum:"100" doc:"The progress in percent."`
	Phase                *string        `json:"phase" enum:"SUBMITTED,GENERATING,POST_PROCESSING" doc:"SUBMITTED once a worker has the job, GENERATING while the video is made, POST_PROCESSING while it is encoded, checked and stored. Null before and after."`
	VideoURL             *string        `json:"videoUrl" doc:"A signed link to the video."`
	ThumbnailURL         *string        `json:"thumbnailUrl" doc:"A signed link to a still image of the video."`
	Error                *generateError `json:"error" doc:"Why the job failed. Null otherwise."`
	EstimatedWaitSeconds *float64       `json:"estimatedWaitSeconds" doc:"Estimated seconds until a worker starts the job. Null once one has, or if unknown."`
	EstimatedCost        *float64       `json:"estimatedCost" doc:"The same as estimated_cost_usd."`
	ActualCost           *float64       `json:"actualCost" doc:"The same as cost_usd."`
	CreatedAt            time.Time      `json:"createdAt"`
	CompletedAt          *time.Time     `json:"completedAt" doc:"When the job ended."`
}

type generateError struct {
	Code    string `json:"code" doc:"The failure class, such as TIMEOUT or CONTENT_POLICY."`
	Message string `json:"message" doc:"A sentence that says why the job failed."`
}

func (s *service) registerGenerate(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "generate", Method: http.MethodPost, Path: generatePath, DefaultStatus: http.StatusAccepted,
		Summary: "Submit a video in the words of hosted services",
		Description: "The settings are those that hosted services have in common. Each is passed on under the name and in the form that the model has for it, " +
			"and refused if the model does not take it. When the response arrives, the job is stored durably.",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
			http.StatusTooManyRequests},
		RequestBody: example("A video of eight seconds", map[string]any{
			"provider": "testcard", "prompt": "A lighthouse in the fog, waves below", "durationSeconds": 8, "resolution": "720p",
			"aspectRatio": "16:9", "idempotencyKey": "order-1236", "metadata": map[string]any{"order": 1236},
		}),
	}, s.generate)
}

// generateNames are the request's names of the domain's fields.
var generateNames = map[string]string{"callbackUrl": "webhookUrl", "callback_url": "webhookUrl", "idempotency_key": "idempotencyKey",
	"tier": "priority"}

func (s *service) generate(ctx context.Context, in *generateInput) (*generatedOutput, error) {
	p := callerOf(ctx).Principal
	submission, names, err := s.generateSubmission(p, in)
	if err != nil {
		return nil, renamed(err, names)
	}
	job, _, err := s.Submitter.Submit(ctx, p, submission)
	if err != nil {
		return nil, renamed(err, names)
	}
	summary, err := s.summary(ctx, job)
	if err != nil {
		return nil, err
	}
	url := callerOf(ctx).base + jobsPath + "/" + string(job.ID)
	return &generatedOutput{Location: url, CacheControl: "no-store", Body: generated{
		JobID: job.ID, Status: summary.Status, Model: job.Model, Provider: s.provider(job), EstimatedWaitSeconds: summary.EstimatedWaitSeconds,
		StatusURL: url,
	}}, nil
}

// generateSubmission converts a request. names are the request's names of the domain's fields.
func (s *service) generateSubmission(p jobs.Principal, in *generateInput) (submission submit.Submission, names map[string]string,
	err error) {
	asked, names := &in.Body, generateNames
	if err := notEmpty(given{"provider", asked.Provider}, given{"model", asked.Model}, given{"resolution", asked.Resolution},
		given{"aspectRatio", asked.AspectRatio}, given{"imageUrl", asked.ImageURL}); err != nil {
		return submission, names, err
	}
	key, err := in.with(asked.IdempotencyKey)
	if err != nil {
		return submission, names, err
	}
	callback, err := readCallback(asked.WebhookURL)
	if err != nil {
		return submission, names, err
	}
	model, name, err := s.generator(p, value(asked.Provider), value(asked.Model))
	if err != nil {
		return submission, names, err
	}
	params, from, err := model.Express(catalogue.Common{
		DurationSeconds: digits(asked.DurationSeconds), Seed: digits(asked.Seed), Resolution: value(asked.Resolution),
		AspectRatio: value(asked.AspectRatio), NegativePrompt: asked.NegativePrompt, Image: value(asked.ImageURL),
	})
	if err != nil {
		return submission, names, err
	}
	names = withExpressed(names, from)
	raw, err := json.Marshal(params)
	if err != nil {
		return submission, names, err
	}
	submission = submit.Submission{Model: name, Prompt: asked.Prompt, Params: raw, IdempotencyKey: key, CallbackURL: callback,
		Fallback: asked.Fallback, UserID: value(asked.UserID), Metadata: []byte(asked.Metadata)}
	return submission, names, prioritize(p, value(asked.Priority), &submission)
}

func digits(n *number) json.Number {
	if n == nil {
		return ""
	}
	return json.Number(*n)
}

// withExpressed adds the names of the fields that parameters express.
func withExpressed(names, from map[string]string) map[string]string {
	all := map[string]string{}
	for domain, name := range names {
		all[domain] = name
	}
	for param, name := range from {
		all["params."+param] = name
	}
	return all
}

// generator returns the model that a request is for and the name to submit: that of the model, or of
// an alias, all of whose models are then the provider's. Empty names are left open.
func (s *service) generator(p jobs.Principal, provider, name string) (*catalogue.Model, string, error) {
	known := s.Submitter.Catalogue.Current().For(p.Scope())
	all := lo.Filter(known.Models(), func(m *catalogue.Model, _ int) bool { return m.RequiresVideo() && m.Type == videoType })
	own := all
	if provider != "" {
		own = lo.Filter(all, func(m *catalogue.Model, _ int) bool { return m.Runtime == provider })
	}
	if len(own) == 0 {
		there := lo.Uniq(lo.Map(all, func(m *catalogue.Model, _ int) string { return m.Runtime }))
		slices.Sort(there)
		return nil, "", apierror.Invalid("provider", "No model here is of this provider%s The providers with models are: %s.",
			cmp.Or(text.DidYouMean(provider, there), "."), text.Clip(strings.Join(there, ", "), 500))
	}
	if name != "" {
		candidates, err := known.Candidates(name)
		if err != nil {
			return nil, "", err
		}
		for _, one := range candidates {
			switch {
			case !slices.Contains(all, one.Model):
				return nil, "", apierror.Invalid("model", "The model %s makes no video from a prompt: submit its jobs to %s.", one.Model.Name, jobsPath)
			case !slices.Contains(own, one.Model):
				return nil, "", apierror.Invalid("model", "The model %s is of the provider %s: name that one, or leave provider out.", one.Model.Name,
					one.Model.Runtime)
			}
		}
		return candidates[0].Model, name, nil
	}
	if provider != "" && len(own) > 1 {
		names := lo.Map(own, func(m *catalogue.Model, _ int) string { return m.Name })
		return nil, "", apierror.Invalid("model", "The provider %s has several models: name one of %s.", provider,
			text.Clip(strings.Join(names, ", "), 500))
	}
	return own[0], own[0].Name, nil
}

// provider returns who renders a job, or nil if that is not known.
func (s *service) provider(job *models.Job) *string {
	model := s.Submitter.Catalogue.Current().At(job.Model, job.ModelVersion)
	if model == nil {
		return nil
	}
	return lo.EmptyableToPtr(model.Runtime)
}

// generation returns a job in the words that hosted services have in common.
func (s *service) generation(job *models.Job, summary *wire.Summary) Generation {
	g := Generation{
		ID: job.ID, Provider: s.provider(job), Progress: summary.ProgressPct, Phase: lo.EmptyableToPtr(phase(job)),
		VideoURL: summary.ResultURL, ThumbnailURL: summary.ThumbnailURL, EstimatedWaitSeconds: summary.EstimatedWaitSeconds,
		EstimatedCost: summary.EstimatedCostUSD, ActualCost: summary.CostUSD, CreatedAt: summary.CreatedAt, CompletedAt: summary.CompletedAt,
	}
	if job.Status == models.JobFailed {
		g.Error = &generateError{string(job.FailureClass), job.FailureReason}
	}
	return g
}

// phase returns the phase of a job that a worker has, or "".
func phase(job *models.Job) string {
	switch job.Status {
	case models.JobAssigned:
		return "SUBMITTED"
	case models.JobCompleting:
		return "POST_PROCESSING"
	case models.JobRunning:
	default:
		return ""
	}
	switch job.Phase {
	case models.PhaseRendering, models.PhaseResuming, models.PhaseGenerating:
		return "GENERATING"
	case models.PhaseEncoding, models.PhaseUploading, models.PhasePostProcessing:
		return "POST_PROCESSING"
	}
	return "SUBMITTED"
}
