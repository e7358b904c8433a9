package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// The calls that use repeater are safe to repeat: see WithTries.

// Viewer returns the key's account and role.
func (c *Client) Viewer(ctx context.Context) (*Viewer, error) {
	data, err := viewer(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return &data.Viewer, nil
}

// Job returns one of the caller's jobs, or a NOT_FOUND error.
func (c *Client) Job(ctx context.Context, id string) (*Job, error) {
	data, err := job(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return found(data.Job, "job", id)
}

// JobHistory returns a job with the reasons why it waits, its estimate, attempts,
// artifacts and first 200 events, or a NOT_FOUND error.
func (c *Client) JobHistory(ctx context.Context, id string) (*JobHistory, error) {
	data, err := jobHistory(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return found(data.Job, "job", id)
}

// Previews returns the pictures of a job's unfinished video that the server still has, or a
// NOT_FOUND error.
func (c *Client) Previews(ctx context.Context, id string) ([]Artifact, error) {
	data, err := previews(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	job, err := found(data.Job, "job", id)
	if err != nil {
		return nil, err
	}
	return job.Artifacts, nil
}

// Jobs returns one page of the caller's jobs with their prompts, newest first: at most first of them (0
// means 50), after the cursor after.
func (c *Client) Jobs(ctx context.Context, filter JobFilter, first int, after string) (*JobPage, error) {
	data, err := jobs(ctx, repeater{c}, &filter, Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Jobs, nil
}

// JobsExplained is Jobs, with why each job waits.
func (c *Client) JobsExplained(ctx context.Context, filter JobFilter, first int, after string) (*ExplainedJobPage, error) {
	data, err := jobsExplained(ctx, repeater{c}, &filter, Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Jobs, nil
}

// Models lists the models that jobs can use.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	data, err := models(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.Models, nil
}

// Model returns a version of a model, or a NOT_FOUND error. Version 0 means the current one.
func (c *Client) Model(ctx context.Context, name string, version int) (*Model, error) {
	data, err := model(ctx, repeater{c}, name, Optional(version))
	if err != nil {
		return nil, err
	}
	return found(data.Model, "model", name)
}

// ModelAliases lists the names that spread jobs over models.
func (c *Client) ModelAliases(ctx context.Context) ([]ModelAlias, error) {
	data, err := modelAliases(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.ModelAliases, nil
}

// ApplyModels adds and changes the entries of a file of models, all or none. If dryRun is
// true, it only returns what would change. Applying a file again changes nothing.
func (c *Client) ApplyModels(ctx context.Context, file, source string, dryRun bool) ([]ModelChange, error) {
	data, err := applyModels(ctx, repeater{c}, ApplyModelsInput{Source: source, File: &file, DryRun: &dryRun})
	if err != nil {
		return nil, err
	}
	return data.ApplyModels, nil
}

// ModelSource returns a version of a model as a file that ApplyModels takes, in YAML, or a NOT_FOUND error.
// Version 0 means the current one.
func (c *Client) ModelSource(ctx context.Context, name string, version int) (string, error) {
	data, err := modelSource(ctx, repeater{c}, name, Optional(version))
	if err != nil {
		return "", err
	}
	m, err := found(data.Model, "model", name)
	if err != nil {
		return "", err
	}
	if m.Source == nil {
		return "", &Error{Code: CodeForbidden, Message: "The entry of a model is for operators: this key has another role."}
	}
	return *m.Source, nil
}

// ExportModels returns models and aliases as a file that ApplyModels takes, in YAML: those of these names,
// or all if there are none.
func (c *Client) ExportModels(ctx context.Context, names []string) (string, error) {
	data, err := exportModels(ctx, repeater{c}, names)
	if err != nil {
		return "", err
	}
	return data.ExportModels, nil
}

// RemovedModels lists the models and aliases that were removed, the newest first.
func (c *Client) RemovedModels(ctx context.Context) ([]RemovedModel, error) {
	data, err := removedModels(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.RemovedModels, nil
}

// ModelUses returns what names a model.
func (c *Client) ModelUses(ctx context.Context, name string) (*ModelUses, error) {
	data, err := modelUses(ctx, repeater{c}, name)
	if err != nil {
		return nil, err
	}
	return &data.ModelUses, nil
}

// RemoveModel removes a model or an alias from the catalogue. With fromPools, it is taken out of the pools
// that name it.
func (c *Client) RemoveModel(ctx context.Context, name string, fromPools bool) error {
	_, err := removeModel(ctx, caller{c}, name, &fromPools)
	return err
}

// RestoreModel puts back a model or an alias that was removed, with its last version.
func (c *Client) RestoreModel(ctx context.Context, name string) (*ModelChange, error) {
	data, err := restoreModel(ctx, caller{c}, name)
	if err != nil {
		return nil, err
	}
	return &data.RestoreModel, nil
}

// SubmitJob submits a job. Its idempotency key, a new one if in has none, ensures that
// repetitions do not create a second job.
func (c *Client) SubmitJob(ctx context.Context, in SubmitJobInput) (*Submission, error) {
	in = keyed(in)
	data, err := submitJob(ctx, repeater{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.SubmitJob, nil
}

// SubmitJobs submits up to 1000 jobs in one call. The results are in the order of all.
// Each is a job or the reason why that submission was refused; a refusal does not stop
// the others. Idempotency keys work as in SubmitJob.
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

// SubmitTakes submits drafts of one request that differ only in their seeds: one for each of
// seeds if there are any, else count (1 to 64; 0 means 8). in.Draft must be set. The results are
// as for SubmitJobs; the drafts share Draft.Takes.
func (c *Client) SubmitTakes(ctx context.Context, in SubmitJobInput, count int, seeds []int64) (*Submissions, error) {
	data, err := submitTakes(ctx, repeater{c}, keyed(in), Optional(count), seeds)
	if err != nil {
		return nil, err
	}
	return &Submissions{Accepted: data.SubmitTakes.Accepted, Rejected: data.SubmitTakes.Rejected, Results: data.SubmitTakes.Results}, nil
}

// ContinueJob submits the job that makes the video of a COMPLETED draft. A repeated call returns
// the same job. It returns a CONFLICT error for other jobs, and for a draft that is no longer
// kept.
func (c *Client) ContinueJob(ctx context.Context, id string) (*Submission, error) {
	data, err := continueJob(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.ContinueJob, nil
}

// JobTotals sums up the jobs of a filter: how many have each status, why those failed that did, and
// when the last one may end.
func (c *Client) JobTotals(ctx context.Context, filter JobFilter) (*JobTotals, error) {
	data, err := jobTotals(ctx, repeater{c}, filter)
	if err != nil {
		return nil, err
	}
	return &data.JobTotals, nil
}

// Takes returns the drafts of one SubmitTakes, in the order of their seeds.
func (c *Client) Takes(ctx context.Context, id string) ([]Job, error) {
	data, err := takes(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return data.Takes, nil
}

// Estimate forecasts the wait and the render time of a job with this input. It submits
// nothing.
func (c *Client) Estimate(ctx context.Context, in SubmitJobInput) (*Estimate, error) {
	data, err := estimate(ctx, repeater{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.Estimate, nil
}

// keyed adds an idempotency key if there is none.
func keyed(in SubmitJobInput) SubmitJobInput {
	if in.IdempotencyKey == nil {
		in.IdempotencyKey = new("go-" + uuid.NewString())
	}
	return in
}

// CancelJob cancels a waiting job at once, and asks the worker of a running job to
// stop. If the job has completed or failed, it returns a CONFLICT error.
func (c *Client) CancelJob(ctx context.Context, id string) (*Job, error) {
	return c.CancelJobBecause(ctx, id, "")
}

// CancelJobBecause is CancelJob with a reason of up to 200 characters, which the job shows.
func (c *Client) CancelJobBecause(ctx context.Context, id, reason string) (*Job, error) {
	data, err := cancelJob(ctx, repeater{c}, id, Optional(reason))
	if err != nil {
		return nil, err
	}
	return &data.CancelJob, nil
}

// RetryJob retries a FAILED or CANCELLED job, from its newest checkpoint or from
// scratch. For a job in another state it returns a CONFLICT error.
func (c *Client) RetryJob(ctx context.Context, id string, fromScratch bool) (*Job, error) {
	data, err := retryJob(ctx, caller{c}, id, &fromScratch)
	if err != nil {
		return nil, err
	}
	return &data.RetryJob, nil
}

// DeleteJob permanently deletes a job's prompt and artifacts. If the job has not ended,
// it returns a CONFLICT error.
func (c *Client) DeleteJob(ctx context.Context, id string) (*Job, error) {
	data, err := deleteJob(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.DeleteJob, nil
}

// WorkerFilter selects workers. Its zero value selects all.
type WorkerFilter struct {
	PoolID string
	Status []WorkerStatus
	// Zone also selects the workers of a region with that name that have no zone.
	GPUType, Zone, AgentVersion string
	// Quarantined selects the workers whose host is in quarantine now.
	Quarantined bool
}

// Workers returns one page of the workers; first and after are those of Jobs.
func (c *Client) Workers(ctx context.Context, filter WorkerFilter, first int, after string) (*WorkerPage, error) {
	data, err := workers(ctx, repeater{c}, Optional(filter.PoolID), filter.Status, Optional(filter.GPUType), Optional(filter.Zone),
		Optional(filter.AgentVersion), Optional(filter.Quarantined), Optional(first), Optional(after))
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

// Machines returns one page of the ledger of machines; first and after are those of Jobs.
func (c *Client) Machines(ctx context.Context, filter MachineFilter, first int, after string) (*MachinePage, error) {
	data, err := machines(ctx, repeater{c}, &filter, Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Machines, nil
}

// Pools returns the pools, with how often their workers save checkpoints.
func (c *Client) Pools(ctx context.Context) ([]Pool, error) {
	data, err := pools(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.Pools, nil
}

// CostRequest asks for a report of costs. Nil days mean the last 30; an empty account means all that the key may see.
type CostRequest struct {
	From, To *time.Time
	By       CostGroup
	Account  string
	First    int
}

// Costs returns what the attempts of some days cost, with up to First rows (1 to 5,000).
func (c *Client) Costs(ctx context.Context, in CostRequest) (*CostReport, error) {
	data, err := costs(ctx, repeater{c}, in.From, in.To, in.By, Optional(in.Account), in.First)
	if err != nil {
		return nil, err
	}
	return &data.Costs, nil
}

// DraftUsage returns what the drafts of the last days (1 to 90) cost, by what became of them: the
// account's own, or for an operator those of all accounts.
func (c *Client) DraftUsage(ctx context.Context, days int) (*DraftUsage, error) {
	data, err := draftUsage(ctx, repeater{c}, days)
	if err != nil {
		return nil, err
	}
	return &data.DraftUsage, nil
}

// PoolHistory returns the scaler's newest decisions for a pool, newest first, at most first
// (1 to 200).
func (c *Client) PoolHistory(ctx context.Context, id string, first int) ([]ScalingDecision, error) {
	data, err := poolHistory(ctx, repeater{c}, id, first)
	if err != nil {
		return nil, err
	}
	pool, err := found(data.Pool, "pool", id)
	if err != nil {
		return nil, err
	}
	return pool.ScalingHistory, nil
}

// ExplainPool returns what the scaler would do with a pool now, and why.
func (c *Client) ExplainPool(ctx context.Context, id string) (*PoolExplanation, error) {
	data, err := poolExplanation(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	pool, err := found(data.Pool, "pool", id)
	if err != nil {
		return nil, err
	}
	return &pool.Explanation, nil
}

// PausePool stops a pool: it gets no more workers, and those that it has finish their job and
// leave.
func (c *Client) PausePool(ctx context.Context, id string) (*Pool, error) {
	data, err := pausePool(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.PausePool, nil
}

// ResumePool ends a pause.
func (c *Client) ResumePool(ctx context.Context, id string) (*Pool, error) {
	data, err := resumePool(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.ResumePool, nil
}

// CreatePool creates a pool. It returns a CONFLICT error if one has its name, or one of its engines.
func (c *Client) CreatePool(ctx context.Context, in PoolInput) (*Pool, error) {
	in.Models = append([]string{}, in.Models...) // the API refuses null
	data, err := createPool(ctx, caller{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.CreatePool, nil
}

// HoldEngine takes an engine of a pool out of service: its worker finishes its job and leaves.
func (c *Client) HoldEngine(ctx context.Context, pool, url string) (*Engine, error) {
	data, err := holdEngine(ctx, repeater{c}, pool, url)
	if err != nil {
		return nil, err
	}
	return &data.HoldEngine, nil
}

// ResumeEngine puts an engine of a pool back into service.
func (c *Client) ResumeEngine(ctx context.Context, pool, url string) (*Engine, error) {
	data, err := resumeEngine(ctx, repeater{c}, pool, url)
	if err != nil {
		return nil, err
	}
	return &data.ResumeEngine, nil
}

// DeletePool deletes a pool that has no workers. Otherwise it returns a CONFLICT error.
func (c *Client) DeletePool(ctx context.Context, id string) error {
	_, err := deletePool(ctx, caller{c}, id)
	return err
}

// ApplyPools adds and changes the pools of a file, all or none. If dryRun is true, it only
// returns what would change. Applying a file again changes nothing.
func (c *Client) ApplyPools(ctx context.Context, file, source string, dryRun bool) ([]PoolChange, error) {
	data, err := applyPools(ctx, repeater{c}, ApplyPoolsInput{Source: source, File: &file, DryRun: &dryRun})
	if err != nil {
		return nil, err
	}
	return data.ApplyPools, nil
}

// Queues returns how many jobs wait and run in each lane.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	data, err := queues(ctx, repeater{c})
	if err != nil {
		return nil, err
	}
	return data.Queues, nil
}

// PauseQueue stops leasing the jobs of a lane, or of one model in it if model is not
// "". The reason is shown to operators and can be empty.
func (c *Client) PauseQueue(ctx context.Context, tier Tier, model, reason string) (*Queue, error) {
	data, err := pauseQueue(ctx, repeater{c}, tier, Optional(model), Optional(reason))
	if err != nil {
		return nil, err
	}
	return &data.PauseQueue, nil
}

// ResumeQueue ends the pause of a lane, or of one model in it.
func (c *Client) ResumeQueue(ctx context.Context, tier Tier, model string) (*Queue, error) {
	data, err := resumeQueue(ctx, repeater{c}, tier, Optional(model))
	if err != nil {
		return nil, err
	}
	return &data.ResumeQueue, nil
}

// PreemptWorker simulates the preemption of the spot machine of a worker.
func (c *Client) PreemptWorker(ctx context.Context, id string, notice time.Duration) (*Worker, error) {
	data, err := preemptWorker(ctx, caller{c}, id, int(notice.Seconds()))
	if err != nil {
		return nil, err
	}
	return &data.PreemptWorker, nil
}

// TerminateWorker ends a worker and its machine at once.
func (c *Client) TerminateWorker(ctx context.Context, id string) (*Worker, error) {
	data, err := terminateWorker(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.TerminateWorker, nil
}

// DrainWorker makes a worker take no new job, finish its current one within the
// deadline, and leave.
func (c *Client) DrainWorker(ctx context.Context, id string, deadline time.Duration) (*Worker, error) {
	data, err := drainWorker(ctx, repeater{c}, id, int(deadline.Seconds()))
	if err != nil {
		return nil, err
	}
	return &data.DrainWorker, nil
}

// QuarantineWorker keeps jobs from a worker's host for a time of at least a minute.
func (c *Client) QuarantineWorker(ctx context.Context, id string, lasting time.Duration, reason string) (*Worker, error) {
	data, err := quarantineWorker(ctx, repeater{c}, id, int(lasting.Minutes()), reason)
	if err != nil {
		return nil, err
	}
	return &data.QuarantineWorker, nil
}

// ReleaseQuarantine ends the quarantine of a worker's host.
func (c *Client) ReleaseQuarantine(ctx context.Context, id string) (*Worker, error) {
	data, err := releaseQuarantine(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return &data.ReleaseQuarantine, nil
}

// Terminal reports whether a job with this status has ended.
func (s JobStatus) Terminal() bool {
	return s == JobStatusCompleted || s == JobStatusFailed || s == JobStatusCancelled
}

// found turns null into a NOT_FOUND error.
func found[T any](v *T, kind, id string) (*T, error) {
	if v == nil {
		return nil, &Error{Code: CodeNotFound, Message: "there is no " + kind + " " + id}
	}
	return v, nil
}

// Optional returns nil for a zero value, which a request leaves out.
func Optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// header reads the target's HTTP headers.
func (t *UploadTarget) header() (map[string]string, error) {
	var h map[string]string
	err := json.Unmarshal(t.Headers, &h)
	return h, err
}
