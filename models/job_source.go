package models

import (
	"context"

	"github.com/uptrace/bun"
)

// JobSource says that a job starts from the result of another job, its source.
type JobSource struct {
	bun.BaseModel `bun:"table:job_sources"`

	JobID    JobID `bun:"job_id,pk"`
	SourceID JobID `bun:"source_id,pk"`
}

// InsertSources records from whose results jobs start. The sources are locked. What is
// recorded already stays.
func InsertSources(ctx context.Context, tx bun.Tx, rows []JobSource) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Exec(ctx)
	return err
}

// FindUserOf returns a job that has not ended and starts from the result of this one, or
// sql.ErrNoRows.
func FindUserOf(ctx context.Context, db bun.IDB, source JobID) (user JobID, err error) {
	err = db.NewRaw(`
		SELECT s.job_id FROM job_sources s JOIN jobs j ON j.id = s.job_id
		WHERE s.source_id = ? AND j.completed_at IS NULL ORDER BY s.job_id LIMIT 1`, source).Scan(ctx, &user)
	return user, err
}

// InputFile is a file that a job starts from.
type InputFile struct {
	// Artifact is an INPUT, or the result of the source that its JobID names.
	Artifact
	UsedBy JobID `bun:"used_by"`
	// Reference is how the params of the job name an INPUT; empty for a result.
	Reference string `bun:"reference"`
}

// ListInputFiles returns the files that these jobs start from, as far as they exist: inputs,
// and the results of sources.
func ListInputFiles(ctx context.Context, db bun.IDB, jobs []JobID) (found []*InputFile, err error) {
	err = db.NewRaw(`
		SELECT ar.*, u.job_id AS used_by, u.reference FROM input_uses u JOIN artifacts ar ON ar.id = u.artifact_id
		WHERE u.job_id IN (?0)
		UNION ALL
		SELECT ar.*, s.job_id, '' FROM job_sources s JOIN jobs j ON j.id = s.source_id JOIN artifacts ar ON ar.id = j.result_id
		WHERE s.job_id IN (?0)`, bun.List(jobs)).Scan(ctx, &found)
	return found, err
}
