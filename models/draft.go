package models

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// FindContinuations returns the jobs that continue these drafts, in no particular order.
func FindContinuations(ctx context.Context, db bun.IDB, drafts []JobID) (found []*Job, err error) {
	err = db.NewSelect().Model(&found).Where("j.continues IN (?)", bun.List(drafts)).Scan(ctx)
	return found, err
}

// ListTakes returns the drafts of one request, in the order in which they were submitted.
func ListTakes(ctx context.Context, db bun.IDB, id TakesID) (found []*Job, err error) {
	err = db.NewSelect().Model(&found).Where("j.takes_id = ?", id).Order("j.id").Scan(ctx)
	return found, err
}

// GetDraftsKeptHours returns how many hours an account's drafts are kept.
func GetDraftsKeptHours(ctx context.Context, db bun.IDB, id AccountID) (hours int, err error) {
	err = db.NewSelect().Model((*Account)(nil)).Column("drafts_kept_hours").Where("ac.id = ?", id).Scan(ctx, &hours)
	return hours, err
}

// MoveDraftFiles gives a draft's accepted checkpoints, and its inputs, to the new job that
// continues it. From then on only the new job decides how long the checkpoints are kept. Their
// upload keys are forgotten: they belong to the draft, whose deletion would doom the objects.
func MoveDraftFiles(ctx context.Context, tx bun.Tx, draft, job JobID) error {
	for _, statement := range []string{
		`WITH moved AS (
			UPDATE artifacts SET job_id = ?1, attempt_id = NULL, review_at = clock_timestamp()
			WHERE job_id = ?0 AND type = 'CHECKPOINT' AND rejected_at IS NULL
			RETURNING object_key)
		DELETE FROM uploads u USING moved WHERE u.object_key = moved.object_key`,
		`UPDATE jobs SET latest_checkpoint_id = NULL WHERE id = ?0`,
		`UPDATE job_attempts SET checkpoint_id = NULL WHERE job_id = ?0`,
		`INSERT INTO input_uses (job_id, artifact_id, reference) SELECT ?1, artifact_id, reference FROM input_uses WHERE job_id = ?0
			ON CONFLICT DO NOTHING`,
		`INSERT INTO job_sources (job_id, source_id, takes) SELECT ?1, source_id, takes FROM job_sources WHERE job_id = ?0`,
	} {
		if _, err := tx.NewRaw(statement, draft, job).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// LockPicking locks the job that continues the draft which an approval picks. It returns nil if there
// is none.
func LockPicking(ctx context.Context, tx bun.Tx, approval JobID) (*Job, error) {
	job := new(Job)
	err := tx.NewRaw(`SELECT j.* FROM job_sources s JOIN jobs j ON j.id = s.job_id
		WHERE s.source_id = ? AND 'pick' = ANY(s.takes) FOR NO KEY UPDATE OF j`, approval).Scan(ctx, job)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return job, err
}

// SavePicked writes what a locked job has from the draft that it continues.
func SavePicked(ctx context.Context, tx bun.Tx, job *Job) error {
	return postgres.MustChange(tx.NewUpdate().Model(job).
		Column("params", "continues", "latest_checkpoint_id", "estimated_gpu_seconds", "time_class").WherePK().Exec(ctx))
}

// WasteDrafts counts all GPU seconds of those of the locked jobs as wasted that are COMPLETED
// drafts which no job continues and none will: they were deleted, or are no longer kept.
func WasteDrafts(ctx context.Context, tx bun.Tx, jobs []JobID) error {
	_, err := tx.NewRaw(`
		WITH over AS (
			SELECT id FROM jobs d
			WHERE id IN (?) AND draft_steps IS NOT NULL AND status = 'COMPLETED'
				AND (deleted_at IS NOT NULL OR kept_until <= clock_timestamp())
				AND NOT EXISTS (SELECT FROM jobs WHERE continues = d.id)),
		attempts AS (
			UPDATE job_attempts SET wasted_gpu_seconds = gpu_seconds WHERE job_id IN (SELECT id FROM over)
			RETURNING job_id, gpu_seconds)
		UPDATE jobs j SET wasted_gpu_seconds = a.gpu_seconds
		FROM (SELECT job_id, sum(gpu_seconds) AS gpu_seconds FROM attempts GROUP BY job_id) a WHERE j.id = a.job_id`, bun.List(jobs)).Exec(ctx)
	return err
}

// DraftSum is how many drafts have the same outcome, and what they cost.
type DraftSum struct {
	Drafts     int     `bun:"drafts"`
	GPUSeconds float64 `bun:"gpu_seconds"`
}

// DraftUsage splits drafts by what became of them.
type DraftUsage struct {
	// Undecided drafts have not ended, or are still kept and can be continued.
	Undecided DraftSum
	// Continued drafts are those that a job continues: their work was useful.
	Continued DraftSum
	// Discarded drafts were deleted, expired, failed or cancelled, and no job continues them.
	Discarded DraftSum
}

// SumDrafts sums up the drafts that were submitted within the last age: of an account, or of all
// if it is empty.
func SumDrafts(ctx context.Context, db bun.IDB, account AccountID, age time.Duration) (usage DraftUsage, err error) {
	var rows []struct {
		Outcome string `bun:"outcome"`
		DraftSum
	}
	err = db.NewRaw(`
		WITH drafts AS (
			SELECT id, CASE
				WHEN EXISTS (SELECT FROM jobs WHERE continues = d.id) THEN 'CONTINUED'
				WHEN deleted_at IS NOT NULL OR status IN ('FAILED', 'CANCELLED') OR kept_until <= (SELECT clock_timestamp()) THEN 'DISCARDED'
				ELSE 'UNDECIDED' END AS outcome
			FROM jobs d
			WHERE draft_steps IS NOT NULL AND id >= uuid7_floor((SELECT clock_timestamp()) - make_interval(secs => ?0)) AND (?1 OR account_id = ?2))
		SELECT outcome, count(*) AS drafts, coalesce(sum(a.gpu_seconds), 0) AS gpu_seconds
		FROM drafts LEFT JOIN LATERAL (SELECT sum(gpu_seconds) AS gpu_seconds FROM job_attempts WHERE job_id = drafts.id) a ON true
		GROUP BY outcome`, age.Seconds(), account == "", account).Scan(ctx, &rows)
	for _, row := range rows {
		switch row.Outcome {
		case "UNDECIDED":
			usage.Undecided = row.DraftSum
		case "CONTINUED":
			usage.Continued = row.DraftSum
		case "DISCARDED":
			usage.Discarded = row.DraftSum
		}
	}
	return usage, err
}
