package models

import (
	"context"
	"encoding/json"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// AttemptStatus is the state of an attempt.
type AttemptStatus string

const (
	AttemptLeased    AttemptStatus = "LEASED"
	AttemptRunning   AttemptStatus = "RUNNING"
	AttemptSucceeded AttemptStatus = "SUCCEEDED"
	AttemptFailed    AttemptStatus = "FAILED"
	AttemptLost      AttemptStatus = "LOST"
	AttemptReleased  AttemptStatus = "RELEASED"
	AttemptCancelled AttemptStatus = "CANCELLED"
)

// Attempt is one worker's try at a job, known by job and fencing token.
type Attempt struct {
	bun.BaseModel `bun:"table:job_attempts,alias:a"`

	ID              AttemptID     `bun:"id,pk" json:"id"`
	JobID           JobID         `bun:"job_id" json:"job_id"`
	Run             int           `bun:"run" json:"run"`
	AttemptNo       int           `bun:"attempt_no" json:"attempt_no"`
	WorkerID        WorkerID      `bun:"worker_id" json:"worker_id"`
	FencingToken    FencingToken  `bun:"fencing_token" json:"fencing_token"`
	LeaseRequestID  string        `bun:"lease_request_id,nullzero" json:"lease_request_id,omitzero"`
	Status          AttemptStatus `bun:"status" json:"status"`
	LeasedAt        time.Time     `bun:"leased_at" json:"leased_at"`
	LeaseExpiresAt  time.Time     `bun:"lease_expires_at" json:"lease_expires_at"`
	LastHeartbeatAt time.Time     `bun:"last_heartbeat_at,nullzero" json:"last_heartbeat_at,omitzero"`
	StartedAt       time.Time     `bun:"started_at,nullzero" json:"started_at,omitzero"`
	EndedAt         time.Time     `bun:"ended_at,nullzero" json:"ended_at,omitzero"`
	ResumedFromStep *int          `bun:"resumed_from_step" json:"resumed_from_step"`
	// CheckpointID is the newest checkpoint that this attempt committed, at CheckpointAt.
	CheckpointID  ArtifactID   `bun:"checkpoint_id" json:"checkpoint_id"`
	CheckpointAt  time.Time    `bun:"checkpoint_at,nullzero" json:"checkpoint_at,omitzero"`
	LogID         ArtifactID   `bun:"log_id" json:"log_id"`
	FailureClass  FailureClass `bun:"failure_class,nullzero" json:"failure_class,omitzero"`
	FailureReason string       `bun:"failure_reason,nullzero" json:"failure_reason,omitzero"`
	// ErrorDetail is a stack trace or the runtime's error output.
	ErrorDetail string `bun:"error_detail,nullzero" json:"error_detail,omitzero"`
	// Counted is true if the attempt counts against the job's max attempts.
	Counted bool `bun:"counted" json:"counted"`
	// Uploads is the number of keys that were issued to the attempt.
	Uploads          int     `bun:"uploads" json:"uploads"`
	GPUSeconds       float64 `bun:"gpu_seconds" json:"gpu_seconds"`
	WastedGPUSeconds float64 `bun:"wasted_gpu_seconds" json:"wasted_gpu_seconds"`
	// YieldRequestedAt is when the attempt was asked to give way to a job of the lane YieldTo, or
	// zero. An attempt is asked once.
	YieldRequestedAt time.Time `bun:"yield_requested_at,nullzero" json:"yield_requested_at,omitzero"`
	YieldTo          Tier      `bun:"yield_to,nullzero" json:"yield_to,omitzero"`
}

// GetAttempt returns an attempt, or sql.ErrNoRows.
func GetAttempt(ctx context.Context, db bun.IDB, id AttemptID) (*Attempt, error) {
	a := new(Attempt)
	err := db.NewSelect().Model(a).Where("a.id = ?", id).Scan(ctx)
	return a, err
}

// GetAttempts returns attempts, in no particular order. Unknown ids are left out.
func GetAttempts(ctx context.Context, db bun.IDB, ids []AttemptID) (found []*Attempt, err error) {
	err = db.NewSelect().Model(&found).Where("a.id IN (?)", bun.List(ids)).Scan(ctx)
	return found, err
}

// FindLiveAttempt returns the attempt that a worker holds, or sql.ErrNoRows.
func FindLiveAttempt(ctx context.Context, db bun.IDB, worker WorkerID) (*Attempt, error) {
	a := new(Attempt)
	err := db.NewSelect().Model(a).Where("a.worker_id = ? AND a.ended_at IS NULL", worker).Scan(ctx)
	return a, err
}

// EndedAnother reports whether the worker of an attempt has ended a later attempt of its own.
func EndedAnother(ctx context.Context, db bun.IDB, since *Attempt) (bool, error) {
	return db.NewSelect().Model((*Attempt)(nil)).
		Where("a.worker_id = ? AND a.leased_at > ? AND a.ended_at IS NOT NULL", since.WorkerID, since.LeasedAt).Exists(ctx)
}

// ListExpiredAttempts returns live attempts whose lease expired.
func ListExpiredAttempts(ctx context.Context, db bun.IDB, limit int) ([]*Attempt, error) {
	var attempts []*Attempt
	err := db.NewSelect().Model(&attempts).
		Where("a.ended_at IS NULL AND a.lease_expires_at < clock_timestamp()").
		Order("a.lease_expires_at").Limit(int64(limit)).Scan(ctx)
	return attempts, err
}

// ListOverdueAttempts returns live attempts of three kinds, each overdue by more than grace:
// they exceed their timeout, they are RENDERING without progress for longer than stall, or
// their job's cancel was requested.
func ListOverdueAttempts(ctx context.Context, db bun.IDB, stall, grace time.Duration, limit int) ([]*Attempt, error) {
	var attempts []*Attempt
	err := db.NewSelect().Model(&attempts).Join("JOIN jobs j ON j.id = a.job_id").
		Where("a.ended_at IS NULL").
		Where(`clock_timestamp() - make_interval(secs => ?) > least(
			j.cancel_requested_at,
			a.started_at + make_interval(secs => j.timeout_seconds),
			CASE WHEN j.phase = 'RENDERING' THEN j.progress_at + make_interval(secs => ?) END)`, grace.Seconds(), stall.Seconds()).
		Order("a.id").Limit(int64(limit)).Scan(ctx)
	return attempts, err
}

// ListAttempts returns the attempts of these jobs, oldest first.
func ListAttempts(ctx context.Context, db bun.IDB, jobs []JobID) ([]*Attempt, error) {
	var attempts []*Attempt
	err := db.NewSelect().Model(&attempts).Where("a.job_id IN (?)", bun.List(jobs)).Order("a.job_id", "a.attempt_no").Scan(ctx)
	return attempts, err
}

// ListLastWorkers returns the worker of the newest attempt of each of these jobs.
func ListLastWorkers(ctx context.Context, db bun.IDB, jobs []JobID) (map[JobID]WorkerID, error) {
	var found []struct {
		JobID    JobID    `bun:"job_id"`
		WorkerID WorkerID `bun:"worker_id"`
	}
	err := db.NewRaw(`
		SELECT a.job_id, a.worker_id FROM unnest(?::uuid[]) AS asked (id)
		CROSS JOIN LATERAL (SELECT * FROM job_attempts a WHERE a.job_id = asked.id ORDER BY a.attempt_no DESC LIMIT 1) a`,
		postgres.UUIDArray(jobs)).Scan(ctx, &found)
	last := make(map[JobID]WorkerID, len(found))
	for _, a := range found {
		last[a.JobID] = a.WorkerID
	}
	return last, err
}

// LeasedJob is a job with the worker that holds it.
type LeasedJob struct {
	Job
	WorkerID WorkerID `bun:"worker_id"`
}

// ListLeasedJobs returns the jobs that these workers hold.
func ListLeasedJobs(ctx context.Context, db bun.IDB, workers []WorkerID) ([]*LeasedJob, error) {
	var held []*LeasedJob
	err := db.NewRaw(`
		SELECT j.*, a.worker_id FROM job_attempts a JOIN jobs j ON j.id = a.job_id
		WHERE a.ended_at IS NULL AND a.worker_id IN (?)`, bun.List(workers)).Scan(ctx, &held)
	return held, err
}

// WorkerServed reports whether a worker has ever held a job of the account.
func WorkerServed(ctx context.Context, db bun.IDB, worker WorkerID, account AccountID) (bool, error) {
	var served bool
	err := db.NewRaw(`
		SELECT EXISTS (SELECT FROM job_attempts a JOIN jobs j ON j.id = a.job_id
			WHERE a.worker_id = ? AND j.account_id = ?)`, worker, account).Scan(ctx, &served)
	return served, err
}

// JobRun is a run that ended before a retry or a redrive opened the next one.
type JobRun struct {
	bun.BaseModel `bun:"table:job_runs,alias:jr"`

	JobID         JobID           `bun:"job_id,pk"`
	Run           int             `bun:"run,pk"`
	Status        JobStatus       `bun:"status"`
	Params        json.RawMessage `bun:"params,type:jsonb"`
	FailureClass  FailureClass    `bun:"failure_class,nullzero"`
	FailureReason string          `bun:"failure_reason,nullzero"`
	// AttemptNo is the number of its last attempt.
	AttemptNo   int       `bun:"attempt_no"`
	CompletedAt time.Time `bun:"completed_at"`
}

// InsertJobRuns records ended runs.
func InsertJobRuns(ctx context.Context, tx bun.Tx, runs []*JobRun) error {
	_, err := tx.NewInsert().Model(&runs).Exec(ctx)
	return err
}
