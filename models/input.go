package models

import (
	"context"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// CountInputUploads counts the keys of inputs that were issued to an account and are not
// artifacts yet, and adds up their sizes. It stops at limit.
func CountInputUploads(ctx context.Context, db bun.IDB, account AccountID, limit int) (n int, bytes int64, err error) {
	err = db.NewRaw(`
		SELECT count(*), coalesce(sum(size_bytes), 0)::bigint FROM (
			SELECT size_bytes FROM uploads WHERE type = 'INPUT' AND account_id = ? LIMIT ?) u`, account, limit).Scan(ctx, &n, &bytes)
	return n, bytes, err
}

// FindInputUpload returns the key that was issued to an account for the input, or
// sql.ErrNoRows.
func FindInputUpload(ctx context.Context, db bun.IDB, account AccountID, id ArtifactID) (*IssuedUpload, error) {
	u := new(IssuedUpload)
	err := db.NewSelect().Model(u).Where("u.type = 'INPUT' AND u.artifact_id = ? AND u.account_id = ?", id, account).Scan(ctx)
	return u, err
}

// FindInputOfHash returns an input of the account whose bytes have the BLAKE3 hash and that exists for at least as long
// as margin, or sql.ErrNoRows. kept is how long an upload waits for a job to use it.
func FindInputOfHash(ctx context.Context, db bun.IDB, account AccountID, hash []byte,
	kept, margin time.Duration) (id ArtifactID, err error) {
	err = db.NewRaw(`
		(SELECT id FROM artifacts WHERE account_id = ?0 AND blake3 = ?1
			AND coalesce(expires_at > clock_timestamp() + make_interval(secs => ?3), true) LIMIT 1)
		UNION ALL
		(SELECT artifact_id FROM uploads WHERE account_id = ?0 AND blake3 = ?1
			AND created_at + make_interval(secs => ?2) > clock_timestamp() + make_interval(secs => ?3)
			ORDER BY created_at DESC LIMIT 1)
		LIMIT 1`, account, hash, kept.Seconds(), margin.Seconds()).Scan(ctx, &id)
	return id, err
}

// DropInputUpload removes the key that was issued to an account for an input that no job uses yet, and queues its object for
// deletion. It returns sql.ErrNoRows if there is none.
func DropInputUpload(ctx context.Context, db bun.IDB, account AccountID, id ArtifactID) error {
	return postgres.MustChange(db.NewRaw(`
		WITH gone AS (DELETE FROM uploads WHERE type = 'INPUT' AND artifact_id = ? AND account_id = ? RETURNING object_key)
		INSERT INTO object_deletions (object_key) SELECT object_key FROM gone ON CONFLICT DO NOTHING`, id, account).Exec(ctx))
}

// FindInputs returns those of these artifacts of an account that a job can start from, in no
// particular order: inputs, and videos.
func FindInputs(ctx context.Context, db bun.IDB, account AccountID, ids []ArtifactID) (found []*Artifact, err error) {
	err = db.NewSelect().Model(&found).
		Where("ar.id IN (?) AND ar.account_id = ? AND ar.type IN ('INPUT', 'FINAL_VIDEO')", bun.List(ids), account).Scan(ctx)
	return found, err
}

// InsertInput makes an artifact of an issued input, and reads back what was issued. If the key
// is no longer issued, it writes nothing and returns sql.ErrNoRows: the input already is an
// artifact, or its object may have been deleted.
func InsertInput(ctx context.Context, db bun.IDB, a *Artifact) error {
	return db.NewRaw(`
		WITH issued AS (DELETE FROM uploads WHERE type = 'INPUT' AND artifact_id = ? RETURNING *)
		INSERT INTO artifacts (id, account_id, type, object_key, size_bytes, checksum, content_type, blake3, metadata)
		SELECT artifact_id, account_id, type, object_key, size_bytes, checksum, content_type, blake3, ? FROM issued
		RETURNING *`, a.ID, a.Metadata).Scan(ctx, a)
}

// InputUse says that a job uses an input, and how its params name it.
type InputUse struct {
	bun.BaseModel `bun:"table:input_uses"`

	JobID      JobID      `bun:"job_id,pk"`
	ArtifactID ArtifactID `bun:"artifact_id,pk"`
	Reference  string     `bun:"reference"`
	AccountID  AccountID  `bun:"-"`
}

// UseInput records that a job of the account uses an input, and locks the input against
// deletion until the transaction ends. It returns sql.ErrNoRows if the account has no such
// input.
func UseInput(ctx context.Context, tx bun.Tx, u InputUse) error {
	return postgres.MustChange(tx.NewRaw(`
		WITH input AS (SELECT id FROM artifacts WHERE id = ? AND account_id = ? AND type = 'INPUT' FOR KEY SHARE)
		INSERT INTO input_uses (job_id, artifact_id, reference) SELECT ?, id, ? FROM input
		ON CONFLICT (job_id, artifact_id) DO UPDATE SET reference = EXCLUDED.reference`,
		u.ArtifactID, u.AccountID, u.JobID, u.Reference).Exec(ctx))
}

// LockInputs returns the inputs with these ids and their accounts, in the order of their ids,
// and locks them against deletion until the transaction ends.
func LockInputs(ctx context.Context, tx bun.Tx, ids []ArtifactID) (found []*Artifact, err error) {
	err = tx.NewRaw(`
		SELECT id, account_id FROM artifacts WHERE id IN (?) AND type = 'INPUT' ORDER BY id FOR KEY SHARE`, bun.List(ids)).Scan(ctx, &found)
	return found, err
}

// InsertInputUses records that new jobs use locked inputs.
func InsertInputUses(ctx context.Context, tx bun.Tx, uses []*InputUse) error {
	_, err := tx.NewInsert().Model(&uses).Exec(ctx)
	return err
}

// FindInputOf returns the input that a job uses under the reference, or sql.ErrNoRows.
func FindInputOf(ctx context.Context, db bun.IDB, job JobID, reference string) (*Artifact, error) {
	a := new(Artifact)
	err := db.NewRaw(`
		SELECT ar.* FROM input_uses u JOIN artifacts ar ON ar.id = u.artifact_id
		WHERE u.job_id = ? AND u.reference = ? ORDER BY ar.id DESC LIMIT 1`, job, reference).Scan(ctx, a)
	return a, err
}

// ListInputs returns the inputs that these jobs use, oldest first. Each has the JobID of the
// job that uses it.
func ListInputs(ctx context.Context, db bun.IDB, jobs []JobID) ([]*Artifact, error) {
	var rows []struct {
		Artifact
		UsedBy JobID `bun:"used_by"`
	}
	err := db.NewRaw(`
		SELECT ar.*, u.job_id AS used_by FROM input_uses u JOIN artifacts ar ON ar.id = u.artifact_id
		WHERE u.job_id IN (?) ORDER BY u.job_id, ar.id`, bun.List(jobs)).Scan(ctx, &rows)
	found := make([]*Artifact, len(rows))
	for i := range rows {
		rows[i].JobID = rows[i].UsedBy
		found[i] = &rows[i].Artifact
	}
	return found, err
}

// LockInputsOf locks the inputs of locked jobs.
func LockInputsOf(ctx context.Context, tx bun.Tx, jobs []JobID) ([]ArtifactID, error) {
	var ids []ArtifactID
	err := tx.NewRaw(`
		SELECT id FROM artifacts WHERE id IN (SELECT artifact_id FROM input_uses WHERE job_id IN (?))
		ORDER BY id FOR UPDATE`, bun.List(jobs)).Scan(ctx, &ids)
	return ids, err
}

// ForsakeInputs ends the use of locked inputs, and of other jobs' results, by these jobs. It
// removes the inputs that no other job uses, and queues their objects for deletion.
func ForsakeInputs(ctx context.Context, tx bun.Tx, jobs []JobID, inputs []ArtifactID) error {
	if _, err := tx.NewRaw("DELETE FROM job_sources WHERE job_id IN (?)", bun.List(jobs)).Exec(ctx); err != nil {
		return err
	}
	if _, err := tx.NewRaw("DELETE FROM input_uses WHERE job_id IN (?)", bun.List(jobs)).Exec(ctx); err != nil || len(inputs) == 0 {
		return err
	}
	_, err := tx.NewRaw(`
		WITH gone AS (
			DELETE FROM artifacts ar WHERE id IN (?) AND NOT EXISTS (SELECT FROM input_uses u WHERE u.artifact_id = ar.id)
			RETURNING object_key)
		INSERT INTO object_deletions (object_key) SELECT object_key FROM gone ON CONFLICT DO NOTHING`, bun.List(inputs)).Exec(ctx)
	return err
}

// LockInputsToReview locks inputs whose review is due. It skips those that others have locked.
func LockInputsToReview(ctx context.Context, tx bun.Tx, limit int) ([]ArtifactID, error) {
	var ids []ArtifactID
	err := tx.NewRaw(`
		SELECT id FROM artifacts WHERE type = 'INPUT' AND review_at <= (SELECT clock_timestamp())
		ORDER BY review_at LIMIT ? FOR UPDATE SKIP LOCKED`, limit).Scan(ctx, &ids)
	return ids, err
}

// KeepInputs says how long inputs are kept.
type KeepInputs struct {
	// Unused counts from the upload of an unused input, Used from the end of the last job that
	// used it.
	Unused, Used time.Duration
	// Review is the delay before the next review of an input whose expiry is still unknown.
	Review time.Duration
}

// ReviewInputs writes the expiry of locked inputs, as far as it is known, and returns those
// that have expired.
func ReviewInputs(ctx context.Context, tx bun.Tx, ids []ArtifactID, keep KeepInputs) (over []ArtifactID, err error) {
	var rows []struct {
		ID   ArtifactID `bun:"id"`
		Over bool       `bun:"over"`
	}
	err = tx.NewRaw(`
		WITH ends AS (
			SELECT ar.id, CASE
				WHEN count(j.id) = 0 THEN ar.created_at + make_interval(secs => ?1)
				WHEN count(*) = count(j.completed_at) THEN greatest(max(j.completed_at) + make_interval(secs => ?2), max(j.kept_until)) END AS at
			FROM artifacts ar LEFT JOIN input_uses u ON u.artifact_id = ar.id LEFT JOIN jobs j ON j.id = u.job_id
			WHERE ar.id IN (?0) GROUP BY ar.id)
		UPDATE artifacts ar SET expires_at = ends.at,
			review_at = least(ends.at, clock_timestamp() + make_interval(secs => ?3))
		FROM ends WHERE ar.id = ends.id
		RETURNING ar.id, coalesce(ends.at <= clock_timestamp(), false) AS over`,
		bun.List(ids), keep.Unused.Seconds(), keep.Used.Seconds(), keep.Review.Seconds()).Scan(ctx, &rows)
	for _, row := range rows {
		if row.Over {
			over = append(over, row.ID)
		}
	}
	return over, err
}

// DoomInputs removes locked inputs that have expired and their uses, and queues their objects
// for deletion.
func DoomInputs(ctx context.Context, tx bun.Tx, ids []ArtifactID) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := tx.NewRaw("DELETE FROM input_uses WHERE artifact_id IN (?)", bun.List(ids)).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewRaw(`
		WITH gone AS (DELETE FROM artifacts WHERE id IN (?) RETURNING object_key)
		INSERT INTO object_deletions (object_key) SELECT object_key FROM gone ON CONFLICT DO NOTHING`, bun.List(ids)).Exec(ctx)
	return err
}

// DoomInputUploads removes up to limit keys of inputs that were issued longer ago than age and
// never became artifacts, and queues their objects for deletion. It returns their number.
func DoomInputUploads(ctx context.Context, tx bun.Tx, age time.Duration, limit int) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		WITH gone AS (
			DELETE FROM uploads WHERE object_key IN (
				SELECT object_key FROM uploads
				WHERE type = 'INPUT' AND created_at < (SELECT clock_timestamp()) - make_interval(secs => ?)
				ORDER BY created_at LIMIT ? FOR UPDATE SKIP LOCKED)
			RETURNING object_key)
		INSERT INTO object_deletions (object_key) SELECT object_key FROM gone ON CONFLICT DO NOTHING`, age.Seconds(), limit).Exec(ctx))
}
