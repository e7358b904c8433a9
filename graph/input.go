package graph

import (
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// The inputs of a worker's calls are the domain's own, behind the fence that
// each of them carries.
type (
	// HeartbeatInput is a sign of life, with the newest sample of each GPU.
	HeartbeatInput struct {
		jobs.Fence
		GPUs []jobs.GPUSample
	}
	// ProgressInput is what a worker says of its work.
	ProgressInput struct {
		jobs.Fence
		jobs.ProgressReport
	}
	// RequestUploadInput announces one object.
	RequestUploadInput struct {
		jobs.Fence
		jobs.UploadRequest
	}
	// CommitCheckpointInput names an uploaded checkpoint.
	CommitCheckpointInput struct {
		jobs.Fence
		jobs.Checkpoint
	}
	// CompleteJobInput is what a worker brings at the end.
	CompleteJobInput struct {
		jobs.Fence
		jobs.Completion
	}
	// FailJobInput is how an attempt went wrong.
	FailJobInput struct {
		jobs.Fence
		jobs.Failure
	}
	// ReleaseJobInput hands a job back.
	ReleaseJobInput struct {
		jobs.Fence
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

func newFence(attempt, token string) jobs.Fence {
	return jobs.Fence{AttemptID: models.AttemptID(attempt), Token: models.FencingToken(token)}
}

// valueOr is an argument's value, or its default where the caller sent null.
func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
