package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// DoomArtifacts removes artifacts and every pointer to them, whose jobs are
// locked, and dooms their objects.
func DoomArtifacts(ctx context.Context, tx bun.Tx, ids []ArtifactID) error {
	if len(ids) == 0 {
		return nil
	}
	gone := bun.List(ids)
	for _, statement := range []string{
		`UPDATE jobs SET latest_checkpoint_id = NULL WHERE latest_checkpoint_id IN (?0)`,
		`UPDATE jobs SET result_id = NULL WHERE result_id IN (?0)`,
		`UPDATE job_attempts SET checkpoint_id = NULL
			WHERE job_id IN (SELECT job_id FROM artifacts WHERE id IN (?0)) AND checkpoint_id IN (?0)`,
		`UPDATE job_attempts SET log_id = NULL
			WHERE job_id IN (SELECT job_id FROM artifacts WHERE id IN (?0)) AND log_id IN (?0)`,
		`UPDATE dead_letters SET log_id = NULL
			WHERE job_id IN (SELECT job_id FROM artifacts WHERE id IN (?0)) AND log_id IN (?0)`,
		// A key whose object is doomed must not become an artifact again.
		`WITH gone AS (DELETE FROM artifacts WHERE id IN (?0) RETURNING object_key),
			issued AS (DELETE FROM uploads u USING gone WHERE u.object_key = gone.object_key)
			INSERT INTO object_deletions (object_key) SELECT object_key FROM gone ON CONFLICT DO NOTHING`,
	} {
		if _, err := tx.NewRaw(statement, gone).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// DoomObjectsOf removes every artifact and every issued key of jobs that are
// locked, and dooms their objects. Pointers to the artifacts must be gone when
// the transaction ends.
func DoomObjectsOf(ctx context.Context, tx bun.Tx, jobs []JobID) error {
	_, err := tx.NewRaw(`
		WITH gone AS (DELETE FROM artifacts WHERE job_id IN (?0) RETURNING object_key),
		issued AS (DELETE FROM uploads WHERE job_id IN (?0) RETURNING object_key)
		INSERT INTO object_deletions (object_key)
		SELECT object_key FROM gone UNION SELECT object_key FROM issued
		ON CONFLICT DO NOTHING`, bun.List(jobs)).Exec(ctx)
	return err
}

// DoomUploads removes up to limit keys whose attempt has been over for an age,
// and dooms those that never became an artifact. It returns how many keys it
// removed.
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

// DoomOrphans dooms those of these objects that no row names, and returns how
// many there were. A key is issued before its object can be, and never again:
// an object that no row names now is named by none later.
func DoomOrphans(ctx context.Context, db bun.IDB, keys []string) (int, error) {
	return affected(db.NewRaw(`
		INSERT INTO object_deletions (object_key)
		SELECT key FROM unnest(?::text[]) AS key
		WHERE NOT EXISTS (SELECT FROM artifacts WHERE object_key = key)
			AND NOT EXISTS (SELECT FROM uploads WHERE object_key = key)
		ON CONFLICT DO NOTHING`, textArray(keys)).Exec(ctx))
}

// ClaimDoomedObjects takes the keys of objects that are due to be deleted from
// the store. Each is due again later, each time after a longer while (30 s, 60 s
// … up to 6 h), unless ForgetDoomedObjects follows.
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

// ForgetDoomedObjects removes the keys of objects that are gone from the store.
func ForgetDoomedObjects(ctx context.Context, db bun.IDB, keys []string) error {
	_, err := db.NewRaw("DELETE FROM object_deletions WHERE object_key = ANY(?::text[])", textArray(keys)).Exec(ctx)
	return err
}

// ClaimOrphanSearch returns the key after which the search for orphans goes on,
// and keeps other callers from it for as long as ttl. It returns sql.ErrNoRows
// while it is another's, or rests.
func ClaimOrphanSearch(ctx context.Context, db bun.IDB, ttl time.Duration) (after string, err error) {
	err = db.NewRaw(`
		UPDATE orphan_search SET claimed_until = clock_timestamp() + make_interval(secs => ?)
		WHERE claimed_until <= clock_timestamp()
		RETURNING after_key`, ttl.Seconds()).Scan(ctx, &after)
	return after, err
}

// AdvanceOrphanSearch has the search go on after another key, once it has rested
// for so long. It does nothing if somebody else was quicker.
func AdvanceOrphanSearch(ctx context.Context, db bun.IDB, from, to string, rest time.Duration) error {
	_, err := db.NewRaw(`
		UPDATE orphan_search SET after_key = ?, claimed_until = clock_timestamp() + make_interval(secs => ?)
		WHERE after_key = ?`, to, rest.Seconds(), from).Exec(ctx)
	return err
}

// eventWords are the texts of an event that are ours: ids, classes, times. Any
// other text may hold words of a prompt.
var eventWords = []string{"artifact", "by", "class", "lane", "phase", "runAt", "worker"}

// RedactJob removes, of a job that is locked and over, everything that its owner
// or its runtime put into it: the prompt's keys are shredded for every run. It
// returns sql.ErrNoRows if it was deleted before.
func RedactJob(ctx context.Context, tx bun.Tx, id JobID) error {
	if err := mustChange(tx.NewRaw(`
		UPDATE jobs SET
			deleted_at = clock_timestamp(), params = '{}', metadata = NULL, output = NULL, failure_reason = NULL,
			cancel_reason = NULL, progress_message = NULL, callback_url = NULL, latest_checkpoint_id = NULL, result_id = NULL,
			request_digest = CASE WHEN idempotency_key IS NOT NULL THEN ''::bytea END
		WHERE id = ? AND deleted_at IS NULL AND status IN ('COMPLETED', 'FAILED', 'CANCELLED')`, id).Exec(ctx)); err != nil {
		return err
	}
	for _, statement := range []string{
		`UPDATE job_inputs SET ciphertext = '', wrapped_key = NULL WHERE job_id = ?0`,
		`UPDATE job_runs SET params = '{}', failure_reason = NULL WHERE job_id = ?0`,
		`UPDATE job_attempts SET failure_reason = NULL, error_detail = NULL, checkpoint_id = NULL, log_id = NULL WHERE job_id = ?0`,
		`DELETE FROM videos WHERE job_id = ?0`,
		`UPDATE dead_letters SET reason = 'deleted', note = NULL, log_id = NULL WHERE job_id = ?0`,
		`UPDATE webhook_events SET job = NULL WHERE job_id = ?0`,
		`UPDATE webhook_deliveries d SET url = '' FROM webhook_endpoints e
			WHERE d.job_id = ?0 AND e.id = d.endpoint_id AND e.url IS NULL`,
		`UPDATE job_events SET payload = (
			SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(payload)
			WHERE jsonb_typeof(value) IN ('number', 'boolean', 'null') OR jsonb_typeof(value) = 'string' AND key = ANY(?1::text[]))
			WHERE job_id = ?0 AND payload <> '{}'`,
	} {
		if _, err := tx.NewRaw(statement, id, textArray(eventWords)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
