package client

import (
	"context"
	"time"
)

// Hold names an attempt and the fencing token that proves it: what every call of
// a worker about its job carries. A call with a token that is not the job's
// current one is refused with LEASE_LOST, for good.
type Hold struct {
	AttemptID    string
	FencingToken string
}

// Hold is the attempt that the lease is for.
func (l *Lease) Hold() Hold { return Hold{l.AttemptId, l.FencingToken} }

// RegisterWorker makes the caller a worker. The worker's own calls go through
// WithKey(registration.WorkerToken).
func (c *Client) RegisterWorker(ctx context.Context, in RegisterWorkerInput) (*Registration, error) {
	// the lists are required: null would be refused
	in.Models, in.WarmModels = append([]string{}, in.Models...), append([]string{}, in.WarmModels...)
	data, err := registerWorker(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.RegisterWorker, nil
}

// LeaseJob waits for a job, up to in.WaitSeconds. The answer's lease is nil if
// there was none. Repeated with the same request id it gives the same lease.
func (c *Client) LeaseJob(ctx context.Context, in LeaseJobInput) (*LeaseAnswer, error) {
	// an empty list says that nothing is warm, a missing one that nothing is new
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

// ReportProgress shows how far the job is.
func (c *Client) ReportProgress(ctx context.Context, in ProgressInput) (*HeartbeatPayload, error) {
	data, err := reportProgress(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.ReportProgress, nil
}

// RequestUpload asks where to send one object; see Upload.
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

// RejectCheckpoint says that a checkpoint did not restore: nobody gets it again.
func (c *Client) RejectCheckpoint(ctx context.Context, hold Hold, artifactID, reason string) (*HeartbeatPayload, error) {
	data, err := rejectCheckpoint(ctx, caller{c}, hold.AttemptID, hold.FencingToken, artifactID, reason)
	if err != nil {
		return nil, err
	}
	return &data.RejectCheckpoint, nil
}

// CommitArtifact publishes a PREVIEW or LOG object while the job runs.
func (c *Client) CommitArtifact(ctx context.Context, hold Hold, kind ArtifactType, object UploadedObject) (*HeartbeatPayload, error) {
	data, err := commitArtifact(ctx, caller{c}, hold.AttemptID, hold.FencingToken, kind, object)
	if err != nil {
		return nil, err
	}
	return &data.CommitArtifact, nil
}

// CompleteJob ends the attempt well. It may be repeated and gives the same
// answer. CONFLICT means that a cancel came first.
func (c *Client) CompleteJob(ctx context.Context, in CompleteJobInput) (*EndPayload, error) {
	data, err := completeJob(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.CompleteJob, nil
}

// FailJob ends the attempt badly; the class decides what happens to the job.
func (c *Client) FailJob(ctx context.Context, in FailJobInput) (*EndPayload, error) {
	data, err := failJob(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.FailJob, nil
}

// ReleaseJob hands the job back: it is queued again from its newest checkpoint.
func (c *Client) ReleaseJob(ctx context.Context, hold Hold, reason FailureClass) (*ReleasedJob, error) {
	data, err := releaseJob(ctx, caller{c}, ReleaseJobInput{AttemptId: hold.AttemptID, FencingToken: hold.FencingToken, Reason: reason})
	if err != nil {
		return nil, err
	}
	return &data.ReleaseJob, nil
}

// DrainSelf says that the worker takes no more work, and, unless deadline is
// zero, when it will be gone.
func (c *Client) DrainSelf(ctx context.Context, workerID, reason string, deadline time.Time) error {
	_, err := drainSelf(ctx, caller{c}, workerID, reason, optional(deadline))
	return err
}

// DeregisterWorker ends the worker. Its token is good for nothing afterwards.
func (c *Client) DeregisterWorker(ctx context.Context, workerID string) error {
	_, err := deregisterWorker(ctx, caller{c}, workerID)
	return err
}
