package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// The calls that go through repeater may be repeated: see WithTries.

// Viewer tells whose key this is and what it may do.
func (c *Client) Viewer(ctx context.Context) (*Viewer, error) {
	data, err := viewer(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return &data.Viewer, nil
}

// Job returns a job of the caller's, or a NOT_FOUND error.
func (c *Client) Job(ctx context.Context, id string) (*Job, error) {
	data, err := job(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return found(data.Job, "job", id)
}

// JobHistory returns a job with what it waits for and how long it may take, its
// attempts, artifacts and first 200 events, or a NOT_FOUND error.
func (c *Client) JobHistory(ctx context.Context, id string) (*JobHistory, error) {
	data, err := jobHistory(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return found(data.Job, "job", id)
}

// Jobs returns one page of the caller's jobs, newest first: at most first of
// them (50 if it is 0), from behind the cursor after on.
func (c *Client) Jobs(ctx context.Context, filter JobFilter, first int, after string) (*JobPage, error) {
	data, err := jobs(ctx, repeater{c}, &filter, optional(first), optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Jobs, nil
}

// Models lists what jobs can ask for.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	data, err := models(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.Models, nil
}

// SubmitJob asks for a job. The idempotency key, a new one if in has none, makes
// one job of it however often it is sent.
func (c *Client) SubmitJob(ctx context.Context, in SubmitJobInput) (*Submission, error) {
	in = keyed(in)
	data, err := submitJob(ctx, repeater{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.SubmitJob, nil
}

// SubmitJobs asks for up to 1000 jobs at once; each result, in the order of all,
// is a job or why it was refused, which stops no other. Idempotency keys are
// SubmitJob's.
func (c *Client) SubmitJobs(ctx context.Context, all []SubmitJobInput) (*Submissions, error) {
	inputs := make([]SubmitJobInput, 0, len(all))
	for _, in := range all {
		inputs = append(inputs, keyed(in))
	}
	data, err := submitJobs(ctx, repeater{c}, inputs)
	if err != nil {
		return nil, err
	}
	return &data.SubmitJobs, nil
}

// Estimate guesses what SubmitJob with this input would have to expect. Nothing is
// submitted.
func (c *Client) Estimate(ctx context.Context, in SubmitJobInput) (*Estimate, error) {
	data, err := estimate(ctx, repeater{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.Estimate, nil
}

// keyed gives a submit without an idempotency key one.
func keyed(in SubmitJobInput) SubmitJobInput {
	if in.IdempotencyKey == nil {
		in.IdempotencyKey = new("go-" + uuid.NewString())
	}
	return in
}

// CancelJob cancels a waiting job at once, and asks the worker of a running one
// to stop. A job that ended otherwise is a CONFLICT error.
func (c *Client) CancelJob(ctx context.Context, id string) (*Job, error) {
	data, err := cancelJob(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.CancelJob, nil
}

// RetryJob opens a new run of a FAILED or CANCELLED job, from its newest
// checkpoint or from scratch. A job in another state is a CONFLICT error.
func (c *Client) RetryJob(ctx context.Context, id string, fromScratch bool) (*Job, error) {
	data, err := retryJob(ctx, caller{c}, id, &fromScratch)
	if err != nil {
		return nil, err
	}
	return &data.RetryJob, nil
}

// DeleteJob deletes a job's prompt and artifacts for good. A job that waits or runs
// is a CONFLICT error.
func (c *Client) DeleteJob(ctx context.Context, id string) (*Job, error) {
	data, err := deleteJob(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.DeleteJob, nil
}

// WorkerFilter chooses workers; its zero value means all of them.
type WorkerFilter struct {
	PoolID string
	Status []WorkerStatus
}

// Workers returns one page of the fleet, as Jobs does of jobs.
func (c *Client) Workers(ctx context.Context, filter WorkerFilter, first int, after string) (*WorkerPage, error) {
	data, err := workers(ctx, repeater{c}, optional(filter.PoolID), filter.Status, optional(first), optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Workers, nil
}

// Worker returns a worker, or a NOT_FOUND error.
func (c *Client) Worker(ctx context.Context, id string) (*Worker, error) {
	data, err := worker(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return found(data.Worker, "worker", id)
}

// Queues lists what waits and runs in each lane.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	data, err := queues(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.Queues, nil
}

// PauseQueue stops giving workers jobs of a lane, or of one model in it ("": of all).
// The reason is shown to operators; it may be "".
func (c *Client) PauseQueue(ctx context.Context, tier Tier, model, reason string) (*Queue, error) {
	data, err := pauseQueue(ctx, repeater{c}, tier, optional(model), optional(reason))
	if err != nil {
		return nil, err
	}
	return &data.PauseQueue, nil
}

// ResumeQueue ends the pause of a lane, or of one model in it.
func (c *Client) ResumeQueue(ctx context.Context, tier Tier, model string) (*Queue, error) {
	data, err := resumeQueue(ctx, repeater{c}, tier, optional(model))
	if err != nil {
		return nil, err
	}
	return &data.ResumeQueue, nil
}

// PreemptWorker does to a worker what a cloud does to a spot machine.
func (c *Client) PreemptWorker(ctx context.Context, id string, notice time.Duration) (*Worker, error) {
	data, err := preemptWorker(ctx, caller{c}, id, int(notice.Seconds()))
	if err != nil {
		return nil, err
	}
	return &data.PreemptWorker, nil
}

// TerminateWorker ends a worker's machine now.
func (c *Client) TerminateWorker(ctx context.Context, id string) (*Worker, error) {
	data, err := terminateWorker(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.TerminateWorker, nil
}

// DrainWorker lets a worker finish its job, at most until the deadline, and go.
func (c *Client) DrainWorker(ctx context.Context, id string, deadline time.Duration) (*Worker, error) {
	data, err := drainWorker(ctx, repeater{c}, id, int(deadline.Seconds()))
	if err != nil {
		return nil, err
	}
	return &data.DrainWorker, nil
}

// Terminal tells whether a job of this status has ended.
func (s JobStatus) Terminal() bool {
	return s == JobStatusCompleted || s == JobStatusFailed || s == JobStatusCancelled
}

// found turns null into the error that the API uses for what is not there.
func found[T any](v *T, kind, id string) (*T, error) {
	if v == nil {
		return nil, &Error{Code: CodeNotFound, Message: "there is no " + kind + " " + id}
	}
	return v, nil
}

// optional leaves out an argument that has its zero value.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// headers reads an upload target's headers.
func (t *UploadTarget) header() (map[string]string, error) {
	var h map[string]string
	err := json.Unmarshal(t.Headers, &h)
	return h, err
}
