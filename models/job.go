package models

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// JobStatus is the state of a job. The transitions are in jobs/change/state.go.
type JobStatus string

const (
	JobScheduled  JobStatus = "SCHEDULED"
	JobBlocked    JobStatus = "BLOCKED"
	JobQueued     JobStatus = "QUEUED"
	JobAssigned   JobStatus = "ASSIGNED"
	JobRunning    JobStatus = "RUNNING"
	JobCompleting JobStatus = "COMPLETING"
	JobCompleted  JobStatus = "COMPLETED"
	JobFailed     JobStatus = "FAILED"
	JobCancelled  JobStatus = "CANCELLED"
)

// JobStatuses lists the states in the order of a job's life.
var JobStatuses = []JobStatus{JobScheduled, JobBlocked, JobQueued, JobAssigned, JobRunning, JobCompleting, JobCompleted, JobFailed,
	JobCancelled}

// Terminal reports whether the job's run has ended.
func (s JobStatus) Terminal() bool {
	return s == JobCompleted || s == JobFailed || s == JobCancelled
}

// Live reports whether a worker holds the job.
func (s JobStatus) Live() bool { return s == JobAssigned || s == JobRunning || s == JobCompleting }

// Waiting reports whether the job waits for a worker, its time or another job.
func (s JobStatus) Waiting() bool { return s == JobScheduled || s == JobBlocked || s == JobQueued }

// Phase is the stage of a job's work, for people.
type Phase string

const (
	PhaseWaiting      Phase = "WAITING"
	PhaseStarting     Phase = "STARTING"
	PhaseLoadingModel Phase = "LOADING_MODEL"
	PhaseResuming     Phase = "RESUMING"
	PhaseRendering    Phase = "RENDERING"
	PhaseEncoding     Phase = "ENCODING"
	// The phases of a job at a hosted provider.
	PhaseSubmitted      Phase = "SUBMITTED"
	PhaseGenerating     Phase = "GENERATING"
	PhasePostProcessing Phase = "POST_PROCESSING"
	PhaseUploading      Phase = "UPLOADING"
	PhaseDone           Phase = "DONE"
)

// AtProvider reports whether a hosted provider works in the phase: the worker only asks how it goes.
func (p Phase) AtProvider() bool {
	return p == PhaseSubmitted || p == PhaseGenerating || p == PhasePostProcessing
}

// FailureClass is why an attempt failed. It decides what happens next.
type FailureClass string

const (
	FailTransient         FailureClass = "TRANSIENT"
	FailRateLimited       FailureClass = "RATE_LIMITED"
	FailProvider          FailureClass = "PROVIDER_UNAVAILABLE"
	FailTimeout           FailureClass = "TIMEOUT"
	FailEndpoint          FailureClass = "ENDPOINT_FAILED" // a server that the job names
	FailPreempted         FailureClass = "PREEMPTED"
	FailWorkerLost        FailureClass = "WORKER_LOST"
	FailYielded           FailureClass = "YIELDED" // it gave way to a job of a higher lane
	FailModelCrash        FailureClass = "MODEL_CRASH"
	FailOutOfMemory       FailureClass = "OUT_OF_MEMORY"
	FailCheckpointCorrupt FailureClass = "CHECKPOINT_CORRUPT"
	FailDefectiveResult   FailureClass = "DEFECTIVE_RESULT"
	FailInvalidInput      FailureClass = "INVALID_INPUT"
	FailContentPolicy     FailureClass = "CONTENT_POLICY"
	FailUnauthorized      FailureClass = "UNAUTHORIZED"
	FailBudget            FailureClass = "BUDGET_EXCEEDED"
	FailDependency        FailureClass = "DEPENDENCY_FAILED"
	FailPoison            FailureClass = "POISON"
	FailRejected          FailureClass = "REJECTED"       // the candidates of an approval were rejected
	FailSubmitUnknown     FailureClass = "SUBMIT_UNKNOWN" // a paid submit was not answered, and may have begun
)

// FailureClasses lists them all.
var FailureClasses = []FailureClass{
	FailTransient, FailRateLimited, FailProvider, FailTimeout, FailEndpoint, FailPreempted, FailWorkerLost, FailYielded, FailModelCrash,
	FailOutOfMemory,
	FailCheckpointCorrupt, FailDefectiveResult, FailInvalidInput, FailContentPolicy, FailUnauthorized, FailBudget, FailDependency, FailPoison,
	FailRejected, FailSubmitUnknown,
}

// Job is one requested video and its durable state, from submit to outcome.
type Job struct {
	bun.BaseModel `bun:"table:jobs,alias:j"`

	ID        JobID     `bun:"id,pk" json:"id"`
	AccountID AccountID `bun:"account_id" json:"account_id"`
	CreatedBy KeyID     `bun:"created_by" json:"created_by"`
	Type      string    `bun:"type" json:"type"`
	Model     string    `bun:"model" json:"model"`
	// ModelVersion is the version of the catalogue's entry with which Params were validated.
	ModelVersion int `bun:"model_version" json:"model_version"`
	// Alias is the alias that the client named instead of Model, or "".
	Alias    string    `bun:"alias,nullzero" json:"alias,omitzero"`
	Status   JobStatus `bun:"status" json:"status"`
	Tier     Tier      `bun:"tier" json:"tier"`
	Lane     Tier      `bun:"lane" json:"lane"`
	Run      int       `bun:"run" json:"run"`
	Priority int       `bun:"priority" json:"priority"`
	// Requeued jobs keep their place: they come before the account's other jobs.
	Requeued            bool            `bun:"requeued" json:"requeued"`
	QueueOrder          int64           `bun:"queue_order,nullzero,default:generated" json:"queue_order,omitzero"`
	Params              json.RawMessage `bun:"params,type:jsonb" json:"params"`
	Metadata            json.RawMessage `bun:"metadata,type:jsonb,nullzero" json:"metadata,omitzero"`
	UserID              string          `bun:"user_id,nullzero" json:"user_id,omitzero"`
	IdempotencyKey      string          `bun:"idempotency_key,nullzero" json:"idempotency_key,omitzero"`
	RequestDigest       []byte          `bun:"request_digest,nullzero" json:"request_digest,omitzero"`
	MaxAttempts         int             `bun:"max_attempts" json:"max_attempts"`
	TimeoutSeconds      int             `bun:"timeout_seconds" json:"timeout_seconds"`
	EstimatedGPUSeconds float64         `bun:"estimated_gpu_seconds" json:"estimated_gpu_seconds"`
	// EstimatedUSD is what the job was expected to cost when it was submitted, in US dollars; nil is unknown.
	EstimatedUSD *decimal.Decimal `bun:"estimated_usd" json:"estimated_usd"`
	// TimeClass is the class of Params by the time that a render takes (catalogue.Model.TimeClass).
	TimeClass string    `bun:"time_class" json:"time_class"`
	RunAt     time.Time `bun:"run_at,nullzero" json:"run_at,omitzero"`
	// ExpiresAt is the deadline for the start of the job.
	ExpiresAt     time.Time    `bun:"expires_at,nullzero" json:"expires_at,omitzero"`
	RetryPolicy   *RetryPolicy `bun:"retry_policy,type:jsonb,nullzero" json:"retry_policy,omitzero"`
	Region        string       `bun:"region,nullzero" json:"region,omitzero"`
	RequireRegion bool         `bun:"require_region" json:"require_region"`
	// CallbackURL is notified of the ends of this job, in addition to the account's endpoints.
	CallbackURL string `bun:"callback_url,nullzero" json:"callback_url,omitzero"`
	// Traceparent is the W3C traceparent under which the job was submitted, or "".
	Traceparent string `bun:"traceparent,nullzero" json:"traceparent,omitzero"`
	// DraftSteps is the step after which a draft ends; 0 for other jobs. KeptUntil is until when
	// a COMPLETED draft's preview and checkpoint are kept.
	DraftSteps int       `bun:"draft_steps,nullzero" json:"draft_steps,omitzero"`
	KeptUntil  time.Time `bun:"kept_until,nullzero" json:"kept_until,omitzero"`
	// TakesID is shared by the drafts of one submitTakes, which differ in their seeds. It is ""
	// for other jobs.
	TakesID TakesID `bun:"takes_id" json:"takes_id"`
	// Continues is the draft that the job continues, or "".
	Continues JobID `bun:"continues" json:"continues"`
	// Reuse means that the job accepts the result of an equal one. Equal jobs have the same ReuseDigest; nil
	// equals none. ReuseRefs name the files and values whose contents the digest still lacks.
	Reuse       bool     `bun:"reuse" json:"reuse"`
	ReuseDigest []byte   `bun:"reuse_digest,nullzero" json:"reuse_digest,omitzero"`
	ReuseRefs   []string `bun:"reuse_refs,type:jsonb,nullzero" json:"reuse_refs,omitzero"`
	// ReusedFrom is the job whose result this one has, or "". That job may no longer exist.
	ReusedFrom JobID `bun:"reused_from" json:"reused_from"`
	// Fallback are the models that may render it instead; nil means none. Routes are the changes of its model.
	Fallback *Fallback  `bun:"fallback,type:jsonb,nullzero" json:"fallback,omitzero"`
	Routes   []JobRoute `bun:"routes,type:jsonb,nullzero" json:"routes,omitzero"`
	// WorkflowID is the workflow that submitted the job, or "".
	WorkflowID WorkflowID `bun:"workflow_id" json:"workflow_id"`
	// AtMostOnce means that a run of the job has one attempt at most, however that ends.
	AtMostOnce bool `bun:"at_most_once" json:"at_most_once"`
	// MaxPreemptions is after how many losses of spot workers a run continues on on-demand
	// capacity only; nil means never. Preemptions counts those of this run.
	MaxPreemptions *int `bun:"max_preemptions" json:"max_preemptions"`
	Preemptions    int  `bun:"preemptions" json:"preemptions"`
	// FinishBy is when the job should be complete. Without slack, it runs on on-demand
	// capacity only.
	FinishBy time.Time `bun:"finish_by,nullzero" json:"finish_by,omitzero"`
	// SlackUntil is when a queued job with FinishBy is looked at again: the end of its slack.
	SlackUntil time.Time `bun:"slack_until,nullzero" json:"slack_until,omitzero"`
	// MaxPricePerHour is the highest price of a worker that may run the job, in USD; nil means
	// any.
	MaxPricePerHour *float64 `bun:"max_price_per_hour" json:"max_price_per_hour"`
	// Needs is what the job requires of a worker's capacity and price now.
	Needs Needs `bun:"needs" json:"needs"`
	// BlockedBy counts the dependencies that are not COMPLETED, and the image that is still to
	// be fetched.
	BlockedBy int `bun:"blocked_by" json:"blocked_by"`
	AttemptNo int `bun:"attempt_no" json:"attempt_no"`
	// Failures counts the failures of this run that count against MaxAttempts.
	Failures int `bun:"failures" json:"failures"`
	// Crashes counts this run's crashes, and losses without notice, since its newest
	// checkpoint.
	Crashes int `bun:"crashes" json:"crashes"`
	// GPURank is how many GPU types of its model's list have turned out too small for the job.
	GPURank int `bun:"gpu_rank" json:"gpu_rank"`
	// AvoidWorkerID is the worker on which the job failed last. Until AvoidUntil another
	// worker is preferred.
	AvoidWorkerID      WorkerID   `bun:"avoid_worker_id" json:"avoid_worker_id"`
	AvoidUntil         time.Time  `bun:"avoid_until,nullzero" json:"avoid_until,omitzero"`
	EventSeq           int        `bun:"event_seq" json:"event_seq"`
	CurrentAttemptID   AttemptID  `bun:"current_attempt_id" json:"current_attempt_id"`
	LatestCheckpointID ArtifactID `bun:"latest_checkpoint_id" json:"latest_checkpoint_id"`
	// Handle names work that goes on outside the job's worker, such as a job on another server,
	// for the next attempt. It is "" if there is none. Only the job's worker may see it.
	Handle           string          `bun:"handle,nullzero" json:"handle,omitzero"`
	ResultID         ArtifactID      `bun:"result_id" json:"result_id"`
	Output           json.RawMessage `bun:"output,type:jsonb,nullzero" json:"output,omitzero"`
	FailureClass     FailureClass    `bun:"failure_class,nullzero" json:"failure_class,omitzero"`
	FailureReason    string          `bun:"failure_reason,nullzero" json:"failure_reason,omitzero"`
	WastedGPUSeconds float64         `bun:"wasted_gpu_seconds" json:"wasted_gpu_seconds"`

	CancelBy          string    `bun:"cancel_by,nullzero" json:"cancel_by,omitzero"`
	CancelReason      string    `bun:"cancel_reason,nullzero" json:"cancel_reason,omitzero"`
	CancelRequestedAt time.Time `bun:"cancel_requested_at,nullzero" json:"cancel_requested_at,omitzero"`
	CancelDeliveredAt time.Time `bun:"cancel_delivered_at,nullzero" json:"cancel_delivered_at,omitzero"`
	CancelStoppedAt   time.Time `bun:"cancel_stopped_at,nullzero" json:"cancel_stopped_at,omitzero"`

	Progress

	// PROGRESS events are thinned out. The last one was written at this time and percentage.
	ProgressEventAt      time.Time `bun:"progress_event_at,nullzero" json:"progress_event_at,omitzero"`
	ProgressEventPercent *float64  `bun:"progress_event_percent" json:"progress_event_percent"`

	// PredictedWaitSeconds and PredictedSeconds are the forecast at submit: until the first
	// lease, and until the job is complete. WaitedSeconds is how long the run was queued
	// before its first lease, nil until then.
	PredictedWaitSeconds *float64 `bun:"predicted_wait_seconds" json:"predicted_wait_seconds"`
	PredictedSeconds     *float64 `bun:"predicted_seconds" json:"predicted_seconds"`
	WaitedSeconds        *float64 `bun:"waited_seconds" json:"waited_seconds"`
	// QueuedSeconds is how long the run was QUEUED, LeasedSeconds how long workers held it.
	// Both exclude the current period, which Waited and Ran add. nil means unknown.
	QueuedSeconds *float64 `bun:"queued_seconds" json:"queued_seconds"`
	LeasedSeconds *float64 `bun:"leased_seconds" json:"leased_seconds"`
	// PausedSeconds is the part of QueuedSeconds in which its queue was closed. BackoffSeconds is
	// the time between failures of the run and their retries, DelayedSeconds that before it was due
	// and while it was BLOCKED. The last two exclude the current period, which began at DelayedAt;
	// zero means at the submit.
	PausedSeconds  float64   `bun:"paused_seconds" json:"paused_seconds"`
	BackoffSeconds float64   `bun:"backoff_seconds" json:"backoff_seconds"`
	DelayedSeconds float64   `bun:"delayed_seconds" json:"delayed_seconds"`
	DelayedAt      time.Time `bun:"delayed_at,nullzero" json:"delayed_at,omitzero"`

	CreatedAt time.Time `bun:"created_at,nullzero,default:clock_timestamp()" json:"created_at,omitzero"`
	QueuedAt  time.Time `bun:"queued_at,nullzero" json:"queued_at,omitzero"`
	// LeasedAt is when the newest lease began.
	LeasedAt    time.Time `bun:"leased_at,nullzero" json:"leased_at,omitzero"`
	StartedAt   time.Time `bun:"started_at,nullzero" json:"started_at,omitzero"`
	CompletedAt time.Time `bun:"completed_at,nullzero" json:"completed_at,omitzero"`
	// DeletedAt is when its prompt and artifacts were deleted.
	DeletedAt time.Time `bun:"deleted_at,nullzero" json:"deleted_at,omitzero"`
}

// TraceID returns the id of the job's trace, or "" if it is not traced.
func (j *Job) TraceID() string {
	if _, rest, ok := strings.Cut(j.Traceparent, "-"); ok {
		id, _, _ := strings.Cut(rest, "-")
		return id
	}
	return ""
}

// SubmitUnknown reports whether the job waits for a decision: a hosted provider did not answer its submit.
func (j *Job) SubmitUnknown() bool {
	return j.Status == JobScheduled && j.FailureClass == FailSubmitUnknown
}

// HasHandle reports whether the next attempt would get a handle.
func (j *Job) HasHandle() bool { return j.Handle != "" }

// Waited returns how many seconds the job's run has been QUEUED until now, summed over all its
// waits. Time before the job was due, while it was BLOCKED, and between a failure and its
// retry does not count. nil means unknown.
func (j *Job) Waited(now time.Time) *float64 {
	if j.Status == JobQueued {
		return addSince(j.QueuedSeconds, j.QueuedAt, now)
	}
	return j.QueuedSeconds
}

// Ran returns how many seconds workers have held the job's run until now, summed over all
// attempts. nil means unknown.
func (j *Job) Ran(now time.Time) *float64 {
	if j.Status.Live() {
		return addSince(j.LeasedSeconds, j.LeasedAt, now)
	}
	return j.LeasedSeconds
}

// addSince adds the time from then to now to seconds, in whole milliseconds. It adds nothing
// if then is after now: PostgreSQL's clock may have been set back.
func addSince(seconds *float64, then, now time.Time) *float64 {
	if seconds == nil || then.IsZero() {
		return nil
	}
	return new(math.Round(1000*(*seconds+max(now.Sub(then).Seconds(), 0))) / 1000)
}

// RetryPolicy is a client's restriction of the backoff between a job's attempts.
type RetryPolicy struct {
	Backoff             Backoff  `json:"backoff"`
	InitialDelaySeconds *float64 `json:"initialDelaySeconds,omitempty"`
	MaxDelaySeconds     *float64 `json:"maxDelaySeconds,omitempty"`
}

// Backoff is how the delay between attempts grows.
type Backoff string

const (
	BackoffExponential Backoff = "EXPONENTIAL"
	BackoffFixed       Backoff = "FIXED"
)

// queue_order is the bit notRequeued, which puts a job behind the account's requeued jobs, then
// maxPriority minus the job's priority, and a ticket in the lowest bits.
const (
	notRequeued   = int64(1) << 50
	maxPriority   = 100
	priorityShift = 42
	priorityBits  = int64(255) << priorityShift
)

// CurrentOrder returns the queue_order that the database will generate for the row as it is in
// memory.
func (j *Job) CurrentOrder() int64 {
	order := j.QueueOrder&^priorityBits | int64(maxPriority-j.Priority)<<priorityShift
	if j.Requeued {
		return order &^ notRequeued
	}
	return order | notRequeued
}

// Progress is the newest known progress of a job. It can go back.
type Progress struct {
	Percent     float64   `bun:"percent" json:"percent"`
	Phase       Phase     `bun:"phase" json:"phase"`
	Message     string    `bun:"progress_message,nullzero" json:"progress_message,omitzero"`
	Step        *int      `bun:"step" json:"step"`
	TotalSteps  *int      `bun:"total_steps" json:"total_steps"`
	Frame       *int      `bun:"frame" json:"frame"`
	TotalFrames *int      `bun:"total_frames" json:"total_frames"`
	ETASeconds  *float64  `bun:"eta_seconds" json:"eta_seconds"`
	UpdatedAt   time.Time `bun:"progress_at,nullzero" json:"progress_at,omitzero"`
	// PreviewID is the newest picture of the unfinished video.
	PreviewID ArtifactID `bun:"preview_id" json:"preview_id"`
}

// Enter begins a phase with its own message, which may be empty. What the phase before said, its
// frames and its estimate do not describe this one.
func (p *Progress) Enter(phase Phase, message string, at time.Time) {
	p.Phase, p.Message, p.UpdatedAt = phase, message, at
	p.Frame, p.TotalFrames, p.ETASeconds = nil, nil, nil
}

// JobKey is an account's idempotency key.
type JobKey struct {
	Account AccountID
	Key     string
}

// FindJobsByKeys returns the jobs with these idempotency keys, in no particular order. If there is one, the end of the
// transaction waits for the same standbys as the submit did, see [postgres.AwaitSQL].
func FindJobsByKeys(ctx context.Context, db bun.IDB, keys []JobKey) ([]*Job, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var found []*Job
	err := db.NewRaw(`
		SELECT j.*, `+postgres.AwaitSQL+` FROM unnest(?::uuid[], ?::text[]) AS k (account, key)
		JOIN jobs j ON j.account_id = k.account AND j.idempotency_key = k.key`, keyArrays(keys)...).Scan(ctx, &found)
	return found, err
}

// FindUsedKeys returns the idempotency keys among these that have a job.
func FindUsedKeys(ctx context.Context, db bun.IDB, keys []JobKey) (used []JobKey, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	err = db.NewRaw(`
		SELECT j.account_id AS account, j.idempotency_key AS key FROM unnest(?::uuid[], ?::text[]) AS k (account, key)
		JOIN jobs j ON j.account_id = k.account AND j.idempotency_key = k.key`, keyArrays(keys)...).Scan(ctx, &used)
	return used, err
}

func keyArrays(keys []JobKey) []any {
	return []any{
		postgres.UUIDArray(postgres.Column(keys, func(k JobKey) AccountID { return k.Account })),
		postgres.TextArray(postgres.Column(keys, func(k JobKey) string { return k.Key })),
	}
}

var (
	getJobSQL  = postgres.SelectOf[Job]("WHERE j.id = @id::uuid")
	lockJobSQL = getJobSQL + " FOR NO KEY UPDATE"
	getJobsSQL = postgres.SelectOf[Job]("WHERE j.id = ANY ((SELECT @ids::uuid[])::uuid[])")
)

// GetJob returns a job, or sql.ErrNoRows.
func GetJob(ctx context.Context, db bun.IDB, id JobID) (*Job, error) {
	return postgres.ReadRow[Job](ctx, db, getJobSQL, pgx.NamedArgs{"id": postgres.UUID(id)})
}

// AwaitJob is GetJob for an answer that repeats what an earlier call did to the job: it waits as [FindJobsByKeys] does.
func AwaitJob(ctx context.Context, db bun.IDB, id JobID) (*Job, error) {
	job := new(Job)
	return job, postgres.Await(db.NewSelect().Model(job).Column("j.*")).Where("j.id = ?", id).Scan(ctx)
}

// GetJobStates is GetJobs with only the id, account, status and progress of each job. It saves
// reading some fifty other columns.
func GetJobStates(ctx context.Context, db bun.IDB, ids []JobID) (found []*Job, err error) {
	err = postgres.Read(ctx, db, `
		SELECT j.* FROM unnest((SELECT @ids::uuid[])) AS asked (id)
		CROSS JOIN LATERAL (
			SELECT id, account_id, status, percent, phase, progress_message, step, total_steps, frame, total_frames, eta_seconds,
				progress_at, preview_id
			FROM jobs WHERE id = asked.id LIMIT 1) j`,
		pgx.NamedArgs{"ids": postgres.Column(ids, postgres.UUID)}, &found)
	return found, err
}

// GetJobs returns jobs, in no particular order. Unknown ids are left out.
func GetJobs(ctx context.Context, db bun.IDB, ids []JobID) (found []*Job, err error) {
	err = postgres.Read(ctx, db, getJobsSQL, pgx.NamedArgs{"ids": postgres.Column(ids, postgres.UUID)}, &found)
	return found, err
}

// LockJob returns a job and locks it until the transaction ends, or returns sql.ErrNoRows.
func LockJob(ctx context.Context, tx bun.Tx, id JobID) (*Job, error) {
	return postgres.ReadRow[Job](ctx, tx, lockJobSQL, pgx.NamedArgs{"id": postgres.UUID(id)})
}

// LockFreeJob is LockJob, but also returns sql.ErrNoRows if another transaction has locked the job.
func LockFreeJob(ctx context.Context, tx bun.Tx, id JobID) (*Job, error) {
	return postgres.ReadRow[Job](ctx, tx, lockJobSQL+" SKIP LOCKED", pgx.NamedArgs{"id": postgres.UUID(id)})
}

// ShareJobs returns jobs in the order of their ids, under a shared lock until the transaction
// ends: others can read and share them, but not change them. Unknown ids are left out.
func ShareJobs(ctx context.Context, tx bun.Tx, ids []JobID) (found []*Job, err error) {
	err = tx.NewSelect().Model(&found).Where("j.id IN (?)", bun.List(ids)).Order("j.id").For("SHARE").Scan(ctx)
	return found, err
}

// ShareStates is ShareJobs with the status and the run alone.
func ShareStates(ctx context.Context, tx bun.Tx, ids []JobID) (found []*Job, err error) {
	return found, tx.NewSelect().Model(&found).Column("id", "status", "run").
		Where("j.id = ANY (?::uuid[])", postgres.UUIDArray(ids)).Order("j.id").For("SHARE").Scan(ctx)
}

// EditJobParams writes the params of a job's next run, their class, and the version of the model that
// they were validated with.
func EditJobParams(ctx context.Context, tx bun.Tx, job *Job) error {
	return postgres.MustChange(tx.NewRaw("UPDATE jobs SET params = ?, time_class = ?, model_version = ? WHERE id = ?",
		string(job.Params), job.TimeClass, job.ModelVersion, job.ID).Exec(ctx))
}

// ListExpiringJobs returns jobs that were not started by their deadline, the longest overdue
// first.
func ListExpiringJobs(ctx context.Context, db bun.IDB, limit int) ([]JobID, error) {
	var ids []JobID
	err := db.NewRaw(`
		SELECT id FROM jobs
		WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED') AND expires_at <= (SELECT clock_timestamp()) AND started_at IS NULL
		ORDER BY expires_at LIMIT ?`, limit).Scan(ctx, &ids)
	return ids, err
}

// ListSlackEnding returns queued jobs with FinishBy whose slack should end, the longest overdue
// first, without their params and metadata.
func ListSlackEnding(ctx context.Context, db bun.IDB, limit int) ([]*Job, error) {
	var found []*Job
	err := db.NewSelect().Model(&found).ExcludeColumn("params", "metadata").
		Where("j.status = 'QUEUED' AND j.slack_until <= (SELECT clock_timestamp()) AND j.needs NOT LIKE 'held%'").Order("j.slack_until").Limit(int64(limit)).Scan(ctx)
	return found, err
}

// DeliverCancel records when the cancel was first delivered to the worker.
func DeliverCancel(ctx context.Context, db bun.IDB, id JobID) error {
	_, err := db.NewRaw(`
		UPDATE jobs SET cancel_delivered_at = clock_timestamp()
		WHERE id = ? AND cancel_requested_at IS NOT NULL AND cancel_delivered_at IS NULL`, id).Exec(ctx)
	return err
}
