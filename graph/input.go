package graph

import (
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// The inputs of a worker's calls combine an input of the domain with the fence of the
// attempt.
type (
	// HeartbeatInput says that an attempt is alive. It has the newest sample of each GPU.
	HeartbeatInput struct {
		jobs.Fence
		GPUs []jobs.GPUSample
	}
	// ProgressInput reports the progress of an attempt.
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
	// CompleteJobInput names the artifacts of a completed job.
	CompleteJobInput struct {
		jobs.Fence
		jobs.Completion
	}
	// FailJobInput says how an attempt failed.
	FailJobInput struct {
		jobs.Fence
		jobs.Failure
	}
	// ReleaseJobInput returns a job to its queue.
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

// valueOr returns the value of an argument, or a default if the caller sent null.
func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
