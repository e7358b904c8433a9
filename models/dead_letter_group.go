package models

import (
	"context"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// FailingHost is a host on which jobs with one cause of failure ended, with the worker that had the
// newest of them.
type FailingHost struct {
	Fingerprint string `bun:"fingerprint"`
	Host
	WorkerID WorkerID `bun:"worker_id"`
	PoolID   PoolID   `bun:"pool_id"`
	// Pool is the pool's name, or "" for a worker without one.
	Pool string `bun:"pool"`
	// DeadLetters is how many of the dead letters that were examined ended there.
	Letters int `bun:"letters"`
}

// ListFailingHosts returns on which hosts the last attempts of the newest dead letters of each of
// these causes were, at most newest of each cause. The host with the most comes first.
func ListFailingHosts(ctx context.Context, db bun.IDB, fingerprints []string, resolved bool, newest int) (found []*FailingHost, err error) {
	err = db.NewRaw(`
		SELECT f.fingerprint, w.provider, w.provider_instance_id, w.pool_id, coalesce(p.name, '') AS pool, count(*) AS letters,
			(array_agg(w.id ORDER BY w.id DESC))[1] AS worker_id
		FROM unnest(?::text[]) AS f (fingerprint)
		CROSS JOIN LATERAL (
			SELECT job_id, run FROM dead_letters d WHERE d.fingerprint = f.fingerprint AND ?
			ORDER BY id DESC LIMIT ?) newest
		CROSS JOIN LATERAL (
			SELECT worker_id FROM job_attempts a WHERE a.job_id = newest.job_id AND a.run = newest.run
			ORDER BY attempt_no DESC LIMIT 1) last
		JOIN workers w ON w.id = last.worker_id LEFT JOIN pools p ON p.id = w.pool_id
		GROUP BY 1, 2, 3, 4, 5 ORDER BY f.fingerprint, letters DESC, w.provider, w.provider_instance_id`,
		postgres.TextArray(fingerprints), resolvedIs("d", resolved), newest).Scan(ctx, &found)
	return found, err
}

// LockDeadLetters returns the oldest open dead letters of a cause, up to limit, and locks their jobs
// until the transaction ends. Those that somebody else settles meanwhile are left out.
func LockDeadLetters(ctx context.Context, tx bun.Tx, fingerprint string, limit int) (found []DeadLetterID, err error) {
	err = tx.NewRaw(`
		WITH jobs AS MATERIALIZED (
			SELECT j.id FROM jobs j
			WHERE j.id = ANY (ARRAY(SELECT job_id FROM dead_letters WHERE fingerprint = ?0 AND resolved_at IS NULL ORDER BY id LIMIT ?1))
			ORDER BY j.id FOR NO KEY UPDATE)
		SELECT d.id FROM dead_letters d JOIN jobs ON jobs.id = d.job_id
		WHERE d.fingerprint = ?0 AND d.resolved_at IS NULL`, fingerprint, limit).Scan(ctx, &found)
	return found, err
}

// DiscardDeadLetters records that an operator discarded these open dead letters, and returns how
// many were open. The caller holds the locks of LockDeadLetters.
func DiscardDeadLetters(ctx context.Context, tx bun.Tx, ids []DeadLetterID, by, note string) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		UPDATE dead_letters SET resolved_at = clock_timestamp(), resolution = 'DISCARDED', resolved_by = ?, note = ?
		WHERE id = ANY (?::uuid[]) AND resolved_at IS NULL`, by, postgres.Nullable(note), postgres.UUIDArray(ids)).Exec(ctx))
}
