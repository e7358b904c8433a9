package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// Resolution is what became of a dead letter.
type Resolution string

const (
	// ResolvedRedriven: an operator sent it back as a job.
	ResolvedRedriven Resolution = "REDRIVEN"
	// ResolvedRetried: the job's owner opened a new run.
	ResolvedRetried Resolution = "RETRIED"
	// ResolvedDiscarded: an operator decided that it is over.
	ResolvedDiscarded Resolution = "DISCARDED"
	// ResolvedDeleted: the job's owner deleted it.
	ResolvedDeleted Resolution = "DELETED"
)

// DeadLetter is the record of a run that failed for good, kept until somebody
// decides.
type DeadLetter struct {
	bun.BaseModel `bun:"table:dead_letters,alias:dl"`

	ID    DeadLetterID `bun:"id,pk"`
	JobID JobID        `bun:"job_id"`
	Run   int          `bun:"run"`
	Model string       `bun:"model"`
	// Provider is where its last attempt was; empty if it had none.
	Provider     string       `bun:"provider,nullzero"`
	FailureClass FailureClass `bun:"failure_class"`
	Reason       string       `bun:"reason"`
	// Fingerprint is the same for the same cause.
	Fingerprint string     `bun:"fingerprint"`
	Attempts    int        `bun:"attempts"`
	LogID       ArtifactID `bun:"log_id"`
	CreatedAt   time.Time  `bun:"created_at"`
	ResolvedAt  time.Time  `bun:"resolved_at,nullzero"`
	Resolution  Resolution `bun:"resolution,nullzero"`
	ResolvedBy  string     `bun:"resolved_by,nullzero"`
	Note        string     `bun:"note,nullzero"`
}

// InsertDeadLetter writes the dead letter of a run that has just failed, with
// what is known of its attempts.
func InsertDeadLetter(ctx context.Context, tx bun.Tx, d *DeadLetter) error {
	err := tx.NewRaw(`
		SELECT count(*) AS attempts, (array_agg(w.provider ORDER BY a.attempt_no DESC))[1] AS provider,
			(array_agg(a.log_id ORDER BY a.attempt_no DESC))[1] AS log_id
		FROM job_attempts a JOIN workers w ON w.id = a.worker_id
		WHERE a.job_id = ? AND a.run = ?`, d.JobID, d.Run).Scan(ctx, d)
	if err != nil {
		return err
	}
	_, err = tx.NewInsert().Model(d).Exec(ctx)
	return err
}

// ResolveDeadLetter notes what became of a job's open dead letter, if it has one.
func ResolveDeadLetter(ctx context.Context, tx bun.Tx, job JobID, as Resolution, by, note string) error {
	_, err := tx.NewRaw(`
		UPDATE dead_letters SET resolved_at = clock_timestamp(), resolution = ?, resolved_by = ?, note = ?
		WHERE job_id = ? AND resolved_at IS NULL`, as, by, nullable(note), job).Exec(ctx)
	return err
}
