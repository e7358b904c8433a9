package models

import (
	"context"
	"encoding/json"
	"time"

	"github.com/uptrace/bun"
)

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

// InsertJobRun records an ended run.
func InsertJobRun(ctx context.Context, tx bun.Tx, r *JobRun) error {
	_, err := tx.NewInsert().Model(r).Exec(ctx)
	return err
}
