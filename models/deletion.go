package models

import (
	"context"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// DoomArtifacts removes artifacts of locked jobs and every pointer to them, and queues their
// objects for deletion, as far as no other job shares them.
//
// Two jobs that share an object can be deleted at the same moment, each by a transaction that still
// sees the other's row. Then the search for orphans finds the object.
func DoomArtifacts(ctx context.Context, tx bun.Tx, ids []ArtifactID) error {
	if len(ids) == 0 {
		return nil
	}
	gone := bun.List(ids)
	for _, statement := range []string{
		`UPDATE jobs SET latest_checkpoint_id = NULL WHERE latest_checkpoint_id IN (?0)`,
		`UPDATE jobs SET result_id = NULL WHERE result_id IN (?0)`,
		`UPDATE jobs SET reuse_digest = NULL, reuse_refs = NULL WHERE reuse_digest IS NOT NULL AND id IN (
			SELECT job_id FROM artifacts WHERE id IN (?0) AND type IN ('FINAL_VIDEO', 'THUMBNAIL', 'SPRITESHEET'))`,
		`UPDATE job_attempts SET checkpoint_id = NULL
			WHERE job_id IN (SELECT job_id FROM artifacts WHERE id IN (?0)) AND checkpoint_id IN (?0)`,
		`UPDATE job_attempts SET log_id = NULL
			WHERE job_id IN (SELECT job_id FROM artifacts WHERE id IN (?0)) AND log_id IN (?0)`,
		`UPDATE dead_letters SET log_id = NULL
			WHERE job_id IN (SELECT job_id FROM artifacts WHERE id IN (?0)) AND log_id IN (?0)`,
		// Without its upload row, the key cannot become an artifact again.
		`WITH gone AS (DELETE FROM artifacts WHERE id IN (?0) RETURNING object_key),
			issued AS (DELETE FROM uploads u USING gone WHERE u.object_key = gone.object_key)
			INSERT INTO object_deletions (object_key)
			SELECT object_key FROM gone WHERE NOT EXISTS (
				SELECT FROM artifacts other WHERE other.object_key = gone.object_key AND other.id NOT IN (?0))
			ON CONFLICT DO NOTHING`,
	} {
		if _, err := tx.NewRaw(statement, gone).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// DoomObjectsOf removes all artifacts and issued keys of locked jobs, and queues their objects
// for deletion, as far as no other job shares them: see DoomArtifacts. Pointers to the artifacts must be gone when the transaction ends.
func DoomObjectsOf(ctx context.Context, tx bun.Tx, jobs []JobID) error {
	// The approvals for which one of the jobs was picked have its result.
	if _, err := tx.NewRaw(`UPDATE jobs SET result_id = NULL WHERE id IN (SELECT job_id FROM approvals WHERE picked IN (?))`,
		bun.List(jobs)).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewRaw(`
		WITH gone AS (DELETE FROM artifacts WHERE job_id IN (?0) RETURNING object_key),
		issued AS (DELETE FROM uploads WHERE job_id IN (?0) RETURNING object_key)
		INSERT INTO object_deletions (object_key)
		SELECT object_key FROM (SELECT object_key FROM gone UNION SELECT object_key FROM issued) k
		WHERE NOT EXISTS (SELECT FROM artifacts other WHERE other.object_key = k.object_key AND other.job_id NOT IN (?0))
		ON CONFLICT DO NOTHING`, bun.List(jobs)).Exec(ctx)
	return err
}

// DoomUploads removes up to limit keys that are older than age and whose attempt ended longer
// ago than that. It queues the objects of keys that never became an artifact for deletion. It
// returns how many keys it removed.
func DoomUploads(ctx context.Context, tx bun.Tx, age time.Duration, limit int) (int, error) {
	var n int
	err := tx.NewRaw(`
		WITH old AS (
			SELECT u.object_key FROM uploads u JOIN job_attempts a ON a.id = u.attempt_id
			WHERE u.created_at < (SELECT clock_timestamp()) - make_interval(secs => ?0)
				AND a.ended_at < (SELECT clock_timestamp()) - make_interval(secs => ?0)
			ORDER BY u.created_at LIMIT ?1 FOR UPDATE OF u SKIP LOCKED),
		gone AS (DELETE FROM uploads u USING old WHERE u.object_key = old.object_key RETURNING u.object_key),
		doomed AS (
			INSERT INTO object_deletions (object_key)
			SELECT object_key FROM gone WHERE NOT EXISTS (SELECT FROM artifacts ar WHERE ar.object_key = gone.object_key)
			ON CONFLICT DO NOTHING)
		SELECT count(*) FROM gone`, age.Seconds(), limit).Scan(ctx, &n)
	return n, err
}

// DoomOrphans queues the objects that no row names for deletion, and returns their number.
// This is final: a key is issued before its object exists, and never again, and a job can share the
// object of another one only while that one's row names it. So no later row can name such an object.
func DoomOrphans(ctx context.Context, db bun.IDB, keys []string) (int, error) {
	return postgres.Affected(db.NewRaw(`
		INSERT INTO object_deletions (object_key)
		SELECT key FROM unnest(?::text[]) AS key
		WHERE NOT EXISTS (SELECT FROM artifacts WHERE object_key = key)
			AND NOT EXISTS (SELECT FROM uploads WHERE object_key = key)
		ON CONFLICT DO NOTHING`, postgres.TextArray(keys)).Exec(ctx))
}

// ClaimDoomedObjects returns keys of objects that are due for deletion from the store. Each
// key becomes due again after a growing delay (30 s, 60 s … up to 6 h), unless
// ForgetDoomedObjects removes it.
func ClaimDoomedObjects(ctx context.Context, db bun.IDB, limit int) ([]string, error) {
	var keys []string
	err := db.NewRaw(`
		WITH due AS (
			SELECT object_key FROM object_deletions WHERE next_at <= (SELECT clock_timestamp())
			ORDER BY next_at LIMIT ? FOR UPDATE SKIP LOCKED)
		UPDATE object_deletions o SET
			tries = least(tries + 1, 1000000),
			next_at = clock_timestamp() + least(interval '30 seconds' * power(2, least(tries, 20)), interval '6 hours')
		FROM due WHERE o.object_key = due.object_key
		RETURNING o.object_key`, limit).Scan(ctx, &keys)
	return keys, err
}

// ForgetDoomedObjects removes the keys of objects that the store no longer has.
func ForgetDoomedObjects(ctx context.Context, db bun.IDB, keys []string) error {
	_, err := db.NewRaw("DELETE FROM object_deletions WHERE object_key = ANY(?::text[])", postgres.TextArray(keys)).Exec(ctx)
	return err
}

// ClaimOrphanSearch claims the search for orphans for ttl and returns the key after which it
// continues. It returns sql.ErrNoRows while another caller has the claim or the search rests.
func ClaimOrphanSearch(ctx context.Context, db bun.IDB, ttl time.Duration) (after string, err error) {
	err = db.NewRaw(`
		UPDATE orphan_search SET claimed_until = clock_timestamp() + make_interval(secs => ?)
		WHERE claimed_until <= clock_timestamp()
		RETURNING after_key`, ttl.Seconds()).Scan(ctx, &after)
	return after, err
}

// AdvanceOrphanSearch sets the key after which the search continues, and lets the search rest
// for that long. It does nothing if another caller has moved the search on from the key from.
func AdvanceOrphanSearch(ctx context.Context, db bun.IDB, from, to string, rest time.Duration) error {
	_, err := db.NewRaw(`
		UPDATE orphan_search SET after_key = ?, claimed_until = clock_timestamp() + make_interval(secs => ?)
		WHERE after_key = ?`, to, rest.Seconds(), from).Exec(ctx)
	return err
}

// eventWords are the text fields of events that Reelay itself fills: ids, classes, times. Any
// other text can contain words of a prompt.
var eventWords = []string{"artifact", "by", "class", "lane", "phase", "reusedFrom", "runAt", "worker"}

// RedactJob removes everything that the owner or the runtime put into a locked job that has
// ended. It shreds the prompt keys of all runs. It returns sql.ErrNoRows if the job was
// deleted before.
func RedactJob(ctx context.Context, tx bun.Tx, id JobID) error {
	if err := postgres.MustChange(tx.NewRaw(`
		UPDATE jobs SET
			deleted_at = clock_timestamp(), params = '{}', metadata = NULL, output = NULL, failure_reason = NULL,
			cancel_reason = NULL, progress_message = NULL, callback_url = NULL, handle = NULL, latest_checkpoint_id = NULL, result_id = NULL, kept_until = NULL,
			reuse_digest = NULL, reuse_refs = NULL,
			request_digest = CASE WHEN idempotency_key IS NOT NULL THEN ''::bytea END
		WHERE id = ? AND deleted_at IS NULL AND status IN ('COMPLETED', 'FAILED', 'CANCELLED')`, id).Exec(ctx)); err != nil {
		return err
	}
	for _, statement := range []string{
		`UPDATE job_inputs SET ciphertext = '', wrapped_key = NULL WHERE job_id = ?0`,
		`UPDATE job_runs SET params = '{}', failure_reason = NULL WHERE job_id = ?0`,
		`UPDATE approvals SET note = NULL WHERE job_id = ?0`,
		`UPDATE job_attempts SET failure_reason = NULL, error_detail = NULL, checkpoint_id = NULL, log_id = NULL WHERE job_id = ?0`,
		`DELETE FROM videos WHERE job_id = ?0`,
		`UPDATE workflow_nodes SET digest = '' WHERE job_id = ?0`,
		`DELETE FROM attempt_logs WHERE attempt_id IN (SELECT id FROM job_attempts WHERE job_id = ?0)`,
		`UPDATE dead_letters SET reason = 'deleted', note = NULL, log_id = NULL WHERE job_id = ?0`,
		`UPDATE webhook_events SET job = NULL WHERE job_id = ?0`,
		`UPDATE webhook_deliveries d SET url = '' FROM webhook_endpoints e
			WHERE d.job_id = ?0 AND e.id = d.endpoint_id AND e.url IS NULL`,
		`UPDATE job_events SET payload = (
			SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(payload)
			WHERE jsonb_typeof(value) IN ('number', 'boolean', 'null') OR jsonb_typeof(value) = 'string' AND key = ANY(?1::text[]))
			WHERE job_id = ?0 AND payload <> '{}'`,
	} {
		if _, err := tx.NewRaw(statement, id, postgres.TextArray(eventWords)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
