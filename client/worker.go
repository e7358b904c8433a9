package client

import (
	"context"
	"time"
)

// Fence is an attempt and its fencing token. Every call of a worker about its job
// carries both. If the token is not the job's current one, the call always fails with
// LEASE_LOST.
type Fence struct {
	AttemptID    string
	FencingToken string
}

// Fence returns the attempt of the lease and its fencing token.
func (l *Lease) Fence() Fence { return Fence{l.AttemptId, l.FencingToken} }

// RegisterWorker registers the caller as a worker. The worker makes its calls through
// WithKey(registration.WorkerToken).
func (c *Client) RegisterWorker(ctx context.Context, in RegisterWorkerInput) (*Registration, error) {
	// The API requires the lists and refuses null.
	in.Models, in.WarmModels = append([]string{}, in.Models...), append([]string{}, in.WarmModels...)
	data, err := registerWorker(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.RegisterWorker, nil
}

// SyncEngines reports the engines of a pool, by the pool's name, and returns those that the pool lists now.
// Without reports it only asks. The caller has an enrolment key.
func (c *Client) SyncEngines(ctx context.Context, pool string, reports []EngineReport) (*WantedEngines, error) {
	// The API requires the lists and refuses null.
	reports = append([]EngineReport{}, reports...)
	for i := range reports {
		reports[i].Lacks = append([]EngineLackInput{}, reports[i].Lacks...)
	}
	data, err := syncEngines(ctx, caller{c}, SyncEnginesInput{Pool: pool, Reports: reports})
	if err != nil {
		return nil, err
	}
	return &data.SyncEngines, nil
}

// EnterProvider asks whether a call may be made at the hosted provider of a pool. The caller has an enrolment key.
func (c *Client) EnterProvider(ctx context.Context, in EnterProviderInput) (*ProviderTurn, error) {
	data, err := enterProvider(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.EnterProvider, nil
}

// TellProvider says how a call at the hosted provider of a pool ended. The caller has an enrolment key.
func (c *Client) TellProvider(ctx context.Context, in TellProviderInput) error {
	_, err := tellProvider(ctx, caller{c}, in)
	return err
}

// ProviderWebhook returns where the hosted provider of a job may send webhooks about it. The caller has an enrolment
// key.
func (c *Client) ProviderWebhook(ctx context.Context, jobID string) (string, error) {
	data, err := providerWebhook(ctx, caller{c}, jobID)
	if err != nil {
		return "", err
	}
	return data.ProviderWebhook, nil
}

// ModelPrograms returns the programs that workers need for models of the runtime command.
func (c *Client) ModelPrograms(ctx context.Context) ([]ModelProgram, error) {
	data, err := modelPrograms(ctx, caller{c})
	if err != nil {
		return nil, err
	}
	return data.ModelPrograms, nil
}

// LeaseJob waits up to in.WaitSeconds for a job. If there is none, the answer's lease is
// nil. A repetition with the same request id returns the same lease.
func (c *Client) LeaseJob(ctx context.Context, in LeaseJobInput) (*LeaseAnswer, error) {
	// An empty list means that no model is warm, a missing one that nothing changed.
	in.WarmModels = append([]string{}, in.WarmModels...)
	data, err := leaseJob(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.LeaseJob, nil
}

// Heartbeat extends the lease.
func (c *Client) Heartbeat(ctx context.Context, in HeartbeatInput) (*HeartbeatPayload, error) {
	data, err := heartbeat(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.Heartbeat, nil
}

// ReportProgress reports the job's progress and extends the lease.
func (c *Client) ReportProgress(ctx context.Context, in ProgressInput) (*HeartbeatPayload, error) {
	data, err := reportProgress(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.ReportProgress, nil
}

// RequestUpload requests a target for one object; see Upload.
func (c *Client) RequestUpload(ctx context.Context, in RequestUploadInput) (*UploadTarget, error) {
	data, err := requestUpload(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.RequestUpload, nil
}

// CommitCheckpoint makes an uploaded object the job's newest checkpoint.
func (c *Client) CommitCheckpoint(ctx context.Context, in CommitCheckpointInput) (*HeartbeatPayload, error) {
	data, err := commitCheckpoint(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.CommitCheckpoint, nil
}

// RejectCheckpoint reports that a checkpoint did not restore. No worker gets it again.
func (c *Client) RejectCheckpoint(ctx context.Context, hold Fence, artifactID, reason string) (*HeartbeatPayload, error) {
	data, err := rejectCheckpoint(ctx, caller{c}, hold.AttemptID, hold.FencingToken, artifactID, reason)
	if err != nil {
		return nil, err
	}
	return &data.RejectCheckpoint, nil
}

// StoreHandle keeps a text of up to 2,000 bytes for the job's next lease: it names work that goes
// on outside the worker, which the next attempt can adopt. An empty value clears it.
func (c *Client) StoreHandle(ctx context.Context, hold Fence, value string) (*HeartbeatPayload, error) {
	data, err := storeHandle(ctx, caller{c}, hold.AttemptID, hold.FencingToken, value)
	if err != nil {
		return nil, err
	}
	return &data.StoreHandle, nil
}

// AppendLog appends up to 16 KiB of the runtime's output to the log that readers see while the
// attempt runs, and extends the lease. position is the number of bytes that were sent before.
func (c *Client) AppendLog(ctx context.Context, hold Fence, position int64, text string) (*HeartbeatPayload, error) {
	data, err := appendLog(ctx, caller{c}, hold.AttemptID, hold.FencingToken, position, text)
	if err != nil {
		return nil, err
	}
	return &data.AppendLog, nil
}

// CommitArtifact publishes a PREVIEW or LOG object while the job runs.
func (c *Client) CommitArtifact(ctx context.Context, hold Fence, kind ArtifactType, object UploadedObject) (*HeartbeatPayload, error) {
	data, err := commitArtifact(ctx, caller{c}, hold.AttemptID, hold.FencingToken, kind, object)
	if err != nil {
		return nil, err
	}
	return &data.CommitArtifact, nil
}

// CompleteJob ends the attempt with its result. A repetition returns the same answer.
// CONFLICT means that the job was cancelled first.
func (c *Client) CompleteJob(ctx context.Context, in CompleteJobInput) (*EndPayload, error) {
	data, err := completeJob(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.CompleteJob, nil
}

// FailJob ends the attempt with a failure. Its class decides what happens to the job.
func (c *Client) FailJob(ctx context.Context, in FailJobInput) (*EndPayload, error) {
	data, err := failJob(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.FailJob, nil
}

// ReleaseJob returns the job: it is requeued and resumes from its newest checkpoint.
func (c *Client) ReleaseJob(ctx context.Context, hold Fence, reason FailureClass) (*ReleasedJob, error) {
	data, err := releaseJob(ctx, caller{c}, ReleaseJobInput{AttemptId: hold.AttemptID, FencingToken: hold.FencingToken, Reason: reason})
	if err != nil {
		return nil, err
	}
	return &data.ReleaseJob, nil
}

// DrainSelf reports that the worker takes no more jobs and, unless deadline is zero,
// when it will be gone.
func (c *Client) DrainSelf(ctx context.Context, workerID, reason string, deadline time.Time) error {
	_, err := drainSelf(ctx, caller{c}, workerID, reason, Optional(deadline))
	return err
}

// DeregisterWorker ends the worker and revokes its token.
func (c *Client) DeregisterWorker(ctx context.Context, workerID string) error {
	_, err := deregisterWorker(ctx, caller{c}, workerID)
	return err
}
