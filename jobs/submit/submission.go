package submit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/digest"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

const (
	MaxPromptRunes = 10_000
	maxPromptBytes = 40_000
	// maxMarks is how many accents, vowel signs and other combining marks one character may have:
	// the limit of Unicode's Stream-Safe Text Format. No script needs more, and more would be drawn
	// over the surrounding text.
	maxMarks       = 30
	MaxKeyRunes    = 255
	MaxUserIDBytes = 255
	// MaxPriority is the highest priority, and its negation the lowest.
	MaxPriority    = 100
	maxMaxAttempts = 20
)

// Submission is a client's request for a job. Nil pointers and empty values mean the default.
type Submission struct {
	Type           string
	Model          string
	Prompt         string
	Params         json.RawMessage
	Tier           models.Tier
	Priority       int
	IdempotencyKey *string
	MaxAttempts    *int
	TimeoutSeconds *int
	UserID         string
	Metadata       json.RawMessage
	// CallbackURL is called when a run of the job ends. If it is empty, only the account's
	// endpoints are called.
	CallbackURL string
	// RunAt is the earliest time at which the job may start; nil means at once. The job
	// expires if it has not started by ExpiresAt; nil means never.
	RunAt, ExpiresAt *time.Time
	// DependsOn are jobs of the same account that must be COMPLETED first.
	DependsOn []models.JobID
	// Region is a preference, or a requirement if RequireRegion is set.
	Region        string
	RequireRegion bool
	// Retry narrows the backoff between attempts.
	Retry *models.RetryPolicy
	// AtMostOnce ends the job FAILED if its only attempt ends without success, for any reason. It
	// excludes MaxAttempts above 1 and Retry.
	AtMostOnce bool
	// Reuse accepts the result of an equal job of the account. It excludes AtMostOnce and Draft.
	Reuse bool
	// Fallback names the models that may render the job instead, in order; nil means the model's own list. Each must
	// take the request as it is. It excludes AtMostOnce and Draft.
	Fallback []string
	// MaxPreemptions is the number of losses of spot workers, 0 to 1000, after which a run
	// continues on on-demand capacity only; nil means never.
	MaxPreemptions *int
	// FinishBy is the deadline; nil means none. Without slack before the deadline, the job runs on
	// on-demand capacity only.
	FinishBy *time.Time
	// MaxPricePerHour is the highest price of a worker that may run the job, in USD per hour, 0 to
	// 10,000. It is rounded to steps, see priceSteps; nil means any price.
	MaxPricePerHour *float64
	// Draft asks for a draft of the video; nil asks for the video.
	Draft *Draft
	// Video is the Videos API's own data; nil for any other caller.
	Video *VideoRequest

	// takes is the id that the drafts of one request share. continues is the draft that the job
	// continues.
	takes     models.TakesID
	continues models.JobID
	// node is the job's node in a workflow, or nil.
	node *GraphNode
}

// Draft asks for a job that ends after some steps, with a preview and a checkpoint instead of a
// video.
type Draft struct {
	// Steps is 1 to the steps of the whole video.
	Steps int
}

// VideoRequest is the additional part of a Submission from the Videos API.
type VideoRequest struct {
	// Model, Size and Seconds are the client's own values, and are returned unchanged.
	Model, Size, Seconds string
	// RemixOf is the job that it is a remix of.
	RemixOf models.JobID
	// Digest (32 bytes) is equal for equal requests of the same caller.
	Digest []byte
	// Retry is the number of the retry, as the sender states it; 0 is the first request.
	Retry int
	// Age is how long ago the request arrived.
	Age time.Duration
}

// GraphNode is a node of a [Graph]. JobID is always set: to the id of the new job, or of the job
// that is reused.
type GraphNode struct {
	models.WorkflowNode
	// Submission is the request of the new job. It has no idempotency key.
	Submission Submission
	// Parents are the jobs of the nodes that it waits for.
	Parents []models.JobID
	// Continues is the job of the approval whose picked draft the node continues, or "".
	Continues models.JobID
}

// validate checks a submission as far as that needs no database, and returns its job. It makes in canonical.
func (in *Submission) validate(known *catalogue.Snapshot, outside outbound.Policy, prices *priceSteps) (*models.Job, error) {
	if err := in.takeFallback(known); err != nil {
		return nil, err
	}
	model, params, err := chooseModel(known, in)
	if err != nil {
		return nil, err
	}
	job, err := in.job(model, params, outside, prices)
	if err == nil {
		job.Fallback, err = in.fallback(known, model, job)
	}
	return job, err
}

// job returns the job of a submission with these params, which are valid for the model.
func (in *Submission) job(model *catalogue.Model, params json.RawMessage, outside outbound.Policy,
	prices *priceSteps) (*models.Job, error) {
	if err := in.validLimits(); err != nil {
		return nil, err
	}
	if in.CallbackURL != "" {
		if err := change.ValidCallback(outside, "callbackUrl", in.CallbackURL); err != nil {
			return nil, err
		}
	}
	job := &models.Job{
		ID: models.NewJobID(), Type: model.Type, Model: model.Name, ModelVersion: model.Version, Run: 1,
		Region: in.Region, RequireRegion: in.RequireRegion, RetryPolicy: in.Retry,
		Priority: in.Priority, Params: params, Metadata: in.Metadata, UserID: in.UserID,
		CallbackURL: in.CallbackURL, AtMostOnce: in.AtMostOnce,
		TimeoutSeconds: model.Timeout(params), EstimatedGPUSeconds: model.EstimateGPUSeconds(params), TimeClass: model.TimeClass(params),
	}
	if in.node != nil {
		job.ID, job.WorkflowID = in.node.JobID, in.node.WorkflowID
	}
	if !in.AtMostOnce && in.Draft == nil {
		job.Reuse = in.Reuse
		job.ReuseDigest, job.ReuseRefs = digest.Of(model, in.Prompt, params)
	}
	in.makeDraft(model, job)
	in.setConstraints(job, prices)
	if in.Model != model.Name {
		job.Alias = in.Model
	}
	if model.Retry != nil {
		job.MaxAttempts = lo.FromPtr(model.Retry.MaxAttempts)
		if in.Retry == nil {
			job.RetryPolicy = model.Retry.Policy()
		}
	}
	if in.AtMostOnce {
		job.MaxAttempts, job.RetryPolicy = 1, nil
	}
	if in.MaxAttempts != nil {
		job.MaxAttempts = *in.MaxAttempts
	}
	if in.TimeoutSeconds != nil {
		job.TimeoutSeconds = *in.TimeoutSeconds
	}
	if in.IdempotencyKey != nil {
		job.IdempotencyKey = *in.IdempotencyKey
	}
	return job, nil
}

// sameRequest reports whether two requests under one key are the same: with the account's defaults
// filled in, or as they were sent, since an operator may have changed the account in between. A row
// has both digests. A deleted job has none, so that every request counts as the same.
func sameRequest(first, repeated []byte) bool {
	if len(first) == 0 {
		return true
	}
	return bytes.Equal(first[:sha256.Size], repeated[:sha256.Size]) || bytes.Equal(first[sha256.Size:], repeated[sha256.Size:])
}

// requestDigests returns both digests of a request, see sameRequest.
func requestDigests(job, asked *models.Job, in Submission) ([]byte, error) {
	meant, err := requestDigest(job, in)
	if err != nil {
		return nil, err
	}
	bare, err := requestDigest(asked, in)
	return append(meant, bare...), err
}

// requestDigest identifies a request. It hashes the canonical JSON of everything requested except
// the key, with the defaults that the job has by now.
func requestDigest(job *models.Job, in Submission) ([]byte, error) {
	request := []any{
		job.Type, job.Model, in.Prompt, job.Params, job.Tier, job.Priority, job.MaxAttempts, job.TimeoutSeconds,
		job.UserID, job.Metadata,
	}
	if job.Alias != "" { // another model may be chosen each time, so its defaults do not count
		request[0], request[1], request[3], request[6], request[7] = in.Type, job.Alias, in.Params, in.MaxAttempts, in.TimeoutSeconds
	}
	if when := in.conditions(); when != nil {
		request = append(request, when)
	}
	if job.CallbackURL != "" {
		request = append(request, map[string]string{"callbackUrl": job.CallbackURL})
	}
	if in.Draft != nil {
		request = append(request, map[string]int{"draft": in.Draft.Steps})
	}
	if in.AtMostOnce {
		request = append(request, map[string]bool{"atMostOnce": true})
	}
	if in.Reuse {
		request = append(request, map[string]bool{"reuse": true})
	}
	if in.Fallback != nil {
		request = append(request, map[string][]string{"fallback": in.Fallback})
	}
	if constraints := in.constraints(); constraints != nil {
		request = append(request, constraints)
	}
	canonical, err := json.Marshal(request)
	if err != nil {
		return nil, apierror.Wrap(err, "encode the request")
	}
	sum := sha256.Sum256(canonical)
	return sum[:], nil
}

func (in *Submission) validLimits() error {
	switch {
	case in.Priority < -MaxPriority || in.Priority > MaxPriority:
		return apierror.Invalid("priority", "priority must be from %d to %d; it is %d.", -MaxPriority, MaxPriority, in.Priority)
	case in.MaxAttempts != nil && (*in.MaxAttempts < 1 || *in.MaxAttempts > maxMaxAttempts):
		return apierror.Invalid("maxAttempts", "maxAttempts must be from 1 to %d; it is %d.", maxMaxAttempts, *in.MaxAttempts)
	case in.AtMostOnce && in.MaxAttempts != nil && *in.MaxAttempts > 1:
		return apierror.Invalid("maxAttempts", "maxAttempts is %d, but a job with atMostOnce has one attempt: leave out one of them.",
			*in.MaxAttempts)
	case in.AtMostOnce && in.Retry != nil:
		return apierror.Invalid("retry", "A job with atMostOnce is not retried: leave out retry or atMostOnce.")
	case in.AtMostOnce && in.Reuse:
		return apierror.Invalid("reuse", "A job with atMostOnce cannot have the result of another job: leave out reuse or atMostOnce.")
	case in.Draft != nil && in.Reuse:
		return apierror.Invalid("reuse", "A draft has no result that another job could have: leave out reuse or draft.")
	case in.TimeoutSeconds != nil && (*in.TimeoutSeconds < 1 || *in.TimeoutSeconds > catalogue.MaxTimeout):
		return apierror.Invalid("timeoutSeconds", "timeoutSeconds must be from 1 to %d; it is %d.", catalogue.MaxTimeout, *in.TimeoutSeconds)
	case in.IdempotencyKey != nil && !text.Valid(*in.IdempotencyKey, 1, MaxKeyRunes):
		return apierror.Invalid("idempotencyKey", "idempotencyKey must have 1 to %d printable characters.", MaxKeyRunes)
	case !text.Valid(in.UserID, 0, MaxUserIDBytes):
		return apierror.Invalid("userId", "userId may have %d printable characters.", MaxUserIDBytes)
	}
	if err := in.validConditions(); err != nil {
		return err
	}
	if err := in.validConstraints(); err != nil {
		return err
	}
	return in.validMetadata()
}

// makeDraft makes job a draft if the request asks for one. The request was checked.
func (in *Submission) makeDraft(model *catalogue.Model, job *models.Job) {
	if in.Draft == nil {
		return
	}
	job.DraftSteps, job.TakesID = in.Draft.Steps, in.takes
	job.EstimatedGPUSeconds *= float64(job.DraftSteps) / float64(model.Steps(job.Params))
}
