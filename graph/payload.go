package graph

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/samber/lo"
)

// Node is any row that has an id of its own in the API.
type Node any

// MemberInvitation is a member and the link with which it chooses a password.
type MemberInvitation struct {
	Member    *access.Member
	URL       string
	ExpiresAt time.Time
}

// invited returns an invitation with its link, which begins with the caller's address of this
// server.
func invited(ctx context.Context, invitation *auth.Invitation, err error) (*MemberInvitation, error) {
	if err != nil {
		return nil, err
	}
	return &MemberInvitation{Member: invitation.Member, URL: base(ctx) + "/join/" + invitation.Token, ExpiresAt: invitation.ExpiresAt}, nil
}

// CreatedAPIKey is a key and its secret, which no later answer shows.
type CreatedAPIKey struct {
	ID     models.KeyID
	Secret string
	Role   access.Role
}

// CreatedWebhookEndpoint is an endpoint and its secret, which no later answer shows.
type CreatedWebhookEndpoint struct {
	Endpoint *webhooks.Endpoint
	Secret   string
}

func createdEndpoint(endpoint *webhooks.Endpoint, secret string, err error) (*CreatedWebhookEndpoint, error) {
	if err != nil {
		return nil, err
	}
	return &CreatedWebhookEndpoint{endpoint, secret}, nil
}

// SubmitJobPayload answers submitJob.
type SubmitJobPayload struct {
	Job          *models.Job
	Deduplicated bool
}

// SubmitJobsPayload answers submitJobs.
type SubmitJobsPayload struct {
	Results            []*SubmitJobResult
	Accepted, Rejected int
}

// SubmitJobResult is the result of one input of submitJobs: a job or an error.
type SubmitJobResult struct {
	Job          *models.Job
	Deduplicated bool
	Error        *joblist.BulkError
}

func newSubmitJobs(all []submit.Submitted) *SubmitJobsPayload {
	payload := &SubmitJobsPayload{}
	for _, one := range all {
		result := &SubmitJobResult{Job: one.Job, Deduplicated: one.Deduplicated}
		if refused := one.Refused; refused != nil {
			result.Error = &joblist.BulkError{Code: string(refused.Code), Message: refused.Message, RetryAfterSeconds: refused.RetryAfterSeconds}
			if refused.Field != "" {
				result.Error.Field = strings.Split(refused.Field, ".")
			}
			payload.Rejected++
		} else {
			payload.Accepted++
		}
		payload.Results = append(payload.Results, result)
	}
	return payload
}

// RegisterWorkerPayload answers registerWorker. No later answer shows WorkerToken.
type RegisterWorkerPayload struct {
	Worker           *models.Worker
	WorkerToken      string
	HeartbeatSeconds int
	LeaseSeconds     int
}

// LeaseJobPayload answers leaseJob. Both parts may be nil.
type LeaseJobPayload struct {
	Lease     *Lease
	Directive *lease.Directive
}

// EndPayload answers completeJob and failJob.
type EndPayload struct {
	Job  *models.Job
	Next *Lease
}

// Lease is a lease in the form that its worker reads.
type Lease struct {
	*models.Attempt
	Job               *models.Job
	Checkpoints       []*models.Artifact
	Inputs            []*models.Artifact
	InputNames        []string
	InputFrames       []*InputFrame
	CheckpointSeconds float64
	TimeoutSeconds    int
	DraftSteps        *int
	Handle            string
	Traceparent       string
}

func newLease(l *lease.Lease) *Lease {
	if l == nil {
		return nil
	}
	job := *l.Job
	job.Params = l.Params
	return &Lease{
		Attempt: l.Attempt, Job: &job, Checkpoints: l.Checkpoints,
		Inputs:            lo.Map(l.Inputs, func(in inputs.Named, _ int) *models.Artifact { return in.Artifact }),
		InputNames:        lo.Map(l.Inputs, func(in inputs.Named, _ int) string { return in.Name }),
		InputFrames:       lo.Map(l.Inputs, func(in inputs.Named, _ int) *InputFrame { return frameOf(in.Take) }),
		CheckpointSeconds: l.CheckpointEvery.Seconds(), TimeoutSeconds: l.Job.TimeoutSeconds, DraftSteps: positive(l.Job.DraftSteps),
		Handle: l.Job.Handle, Traceparent: l.Traceparent(),
	}
}

// InputFrame is which frame of a video an input is.
type InputFrame string

const (
	InputFrameFirst InputFrame = "FIRST"
	InputFrameLast  InputFrame = "LAST"
)

// frameOf returns nil for a whole file.
func frameOf(take reference.Take) *InputFrame {
	switch take {
	case reference.TakeFirstFrame:
		return new(InputFrameFirst)
	case reference.TakeLastFrame:
		return new(InputFrameLast)
	}
	return nil
}

// positive returns n, or nil for 0.
func positive(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func newEnd(end *lease.End, err error) (*EndPayload, error) {
	if err != nil {
		return nil, err
	}
	return &EndPayload{Job: end.Job, Next: newLease(end.Next)}, nil
}

// UploadTarget says where and how to upload one object.
type UploadTarget struct {
	ObjectKey string
	URL       string
	Method    string
	Headers   json.RawMessage
	ExpiresAt time.Time
}

func newUploadTarget(base, key string, link jobs.UploadLink) (*UploadTarget, error) {
	headers, err := json.Marshal(link.Headers)
	return &UploadTarget{ObjectKey: key, URL: link.Link.At(base), Method: link.Method, Headers: headers, ExpiresAt: link.ExpiresAt}, err
}

// InputUpload answers requestInputUpload.
type InputUpload struct {
	ArtifactID models.ArtifactID
	Target     *UploadTarget
}

func pointers[T any](values []T) []*T {
	all := make([]*T, len(values))
	for i := range values {
		all[i] = &values[i]
	}
	return all
}

func ofType(artifacts []*models.Artifact, t models.ArtifactType) []*models.Artifact {
	return slices.DeleteFunc(slices.Clone(artifacts), func(a *models.Artifact) bool { return a.Type != t })
}

// The inputs of a worker's calls combine an input of the domain with the fence of the
// attempt.
type (
	// HeartbeatInput says that an attempt is alive. It has the newest sample of each GPU.
	HeartbeatInput struct {
		lease.Fence
		GPUs []lease.GPUSample
	}
	// ProgressInput reports the progress of an attempt.
	ProgressInput struct {
		lease.Fence
		lease.ProgressReport
	}
	// RequestUploadInput announces one object.
	RequestUploadInput struct {
		lease.Fence
		lease.UploadRequest
	}
	// CommitCheckpointInput names an uploaded checkpoint.
	CommitCheckpointInput struct {
		lease.Fence
		jobs.Checkpoint
	}
	// CompleteJobInput names the artifacts of a completed job.
	CompleteJobInput struct {
		lease.Fence
		lease.Completion
	}
	// FailJobInput says how an attempt failed.
	FailJobInput struct {
		lease.Fence
		lease.Failure
	}
	// ReleaseJobInput returns a job to its queue.
	ReleaseJobInput struct {
		lease.Fence
		Reason models.FailureClass
	}
)

// LeaseJobInput asks for a job.
type LeaseJobInput struct {
	WorkerID    models.WorkerID
	WaitSeconds int
	WarmModels  []string
	RequestID   string
}

func newFence(attempt, token string) lease.Fence {
	return lease.Fence{AttemptID: models.AttemptID(attempt), Token: models.FencingToken(token)}
}

// valueOr returns the value of an argument, or a default if the caller sent null.
func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
