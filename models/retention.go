package models

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
)

// Bound gives up a transaction's statements that take longer than statement, or
// wait longer than lock for a lock.
func Bound(ctx context.Context, tx bun.Tx, statement, lock time.Duration) error {
	_, err := tx.NewRaw("SELECT set_config('statement_timeout', '?', true), set_config('lock_timeout', '?', true)",
		statement.Milliseconds(), lock.Milliseconds()).Exec(ctx)
	return err
}

// affected returns how many rows a statement changed.
func affected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// IsLockTimeout tells whether a statement was given up because it waited too
// long for a lock.
func IsLockTimeout(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "55P03"
}

// The finders below compare with (SELECT clock_timestamp()), read once: an index
// cannot be searched for what changes from row to row.

// LockJobsToReview locks jobs with artifacts that are due for a look. Those that
// others hold are passed over.
func LockJobsToReview(ctx context.Context, tx bun.Tx, limit int) ([]JobID, error) {
	var ids []JobID
	err := tx.NewRaw(`
		SELECT id FROM jobs
		WHERE id IN (
			SELECT job_id FROM artifacts
			WHERE type <> 'INPUT' AND review_at <= (SELECT clock_timestamp()) ORDER BY review_at LIMIT ?)
		ORDER BY id FOR NO KEY UPDATE SKIP LOCKED`, limit).Scan(ctx, &ids)
	return ids, err
}

// KeepArtifacts is how long artifacts stay.
type KeepArtifacts struct {
	// Superseded is how long a checkpoint stays after the second newer one came.
	Superseded time.Duration
	// Checkpoints is how long those of a FAILED or CANCELLED job stay after its
	// end. Those of a COMPLETED one go at once.
	Checkpoints time.Duration
	// Others is how long everything else stays after the job's end.
	Others time.Duration
	// Review is when to look again at what has no end yet.
	Review time.Duration
}

// ReviewArtifacts looks at those artifacts of locked jobs that are due for it:
// it writes when they expire, as far as that is known by now, and returns those
// for which that is over.
func ReviewArtifacts(ctx context.Context, tx bun.Tx, jobs []JobID, keep KeepArtifacts, limit int) (looked int, over []ArtifactID, err error) {
	var rows []struct {
		ID   ArtifactID `bun:"id"`
		Over bool       `bun:"over"`
	}
	err = tx.NewRaw(`
		WITH due AS (
			SELECT id FROM artifacts WHERE job_id IN (?0) AND review_at <= (SELECT clock_timestamp()) ORDER BY review_at LIMIT ?1),
		newer AS (
			SELECT id, lead(created_at, 2) OVER (PARTITION BY job_id ORDER BY created_at, id) AS superseded_at
			FROM artifacts WHERE job_id IN (?0) AND type = 'CHECKPOINT' AND rejected_at IS NULL),
		ends AS (
			SELECT ar.id, least( -- of those that are known
				ar.rejected_at,
				newer.superseded_at + make_interval(secs => ?2),
				j.completed_at + CASE
					WHEN ar.type <> 'CHECKPOINT' THEN make_interval(secs => ?4)
					WHEN j.status = 'COMPLETED' THEN interval '0'
					ELSE make_interval(secs => ?3) END) AS at
			FROM due JOIN artifacts ar ON ar.id = due.id JOIN jobs j ON j.id = ar.job_id LEFT JOIN newer ON newer.id = ar.id)
		UPDATE artifacts ar SET expires_at = ends.at, review_at = coalesce(ends.at, clock_timestamp() + make_interval(secs => ?5))
		FROM ends WHERE ar.id = ends.id
		RETURNING ar.id, coalesce(ends.at <= clock_timestamp(), false) AS over`,
		bun.List(jobs), limit, keep.Superseded.Seconds(), keep.Checkpoints.Seconds(), keep.Others.Seconds(), keep.Review.Seconds()).Scan(ctx, &rows)
	for _, row := range rows {
		if row.Over {
			over = append(over, row.ID)
		}
	}
	return len(rows), over, err
}

// LockJobsOver locks jobs that ended longer ago than age, oldest first. Those
// that others hold are passed over.
func LockJobsOver(ctx context.Context, tx bun.Tx, age time.Duration, limit int) ([]JobID, error) {
	var ids []JobID
	err := tx.NewRaw(`
		SELECT id FROM jobs WHERE completed_at < (SELECT clock_timestamp()) - make_interval(secs => ?)
		ORDER BY completed_at LIMIT ? FOR UPDATE SKIP LOCKED`, age.Seconds(), limit).Scan(ctx, &ids)
	return ids, err
}

// DeleteJobs removes locked jobs, their events, and every row that hangs on
// them.
func DeleteJobs(ctx context.Context, tx bun.Tx, ids []JobID) error {
	if _, err := tx.NewRaw("DELETE FROM job_events WHERE job_id IN (?)", bun.List(ids)).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewRaw("DELETE FROM jobs WHERE id IN (?)", bun.List(ids)).Exec(ctx)
	return err
}

// ListEventPartitionsOver returns the partitions of job_events all of whose jobs
// ended longer ago than age, oldest first.
//
// A partition holds the jobs that were submitted in its month, by the clock of
// the process that took them. Most end within a day: only the few that did not
// are looked up, by an index of their own (the end is compared in such a way that
// PostgreSQL does not search by it, among all that ended of late).
func ListEventPartitionsOver(ctx context.Context, db bun.IDB, age time.Duration) ([]string, error) {
	var names []string
	err := db.NewRaw(`
		SELECT month.name FROM (
			SELECT c.relname AS name, to_date(right(c.relname, 7), 'YYYY_MM')::timestamp AS begins
			FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
			WHERE i.inhparent = 'job_events'::regclass AND c.relname ~ '^job_events_[0-9]{4}_[0-9]{2}$') month
		CROSS JOIN LATERAL (SELECT (begins + interval '1 month') AT TIME ZONE 'UTC' AS ends) m
		CROSS JOIN LATERAL (SELECT uuid7_floor(begins AT TIME ZONE 'UTC') AS low, uuid7_floor(ends) AS high,
			clock_timestamp() - make_interval(secs => ?) AS cutoff) r
		WHERE ends < cutoff - interval '48 hours'
			AND NOT EXISTS (SELECT FROM jobs WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING')
				AND id >= low AND id < high)
			AND NOT EXISTS (SELECT FROM jobs WHERE completed_at - created_at > interval '24 hours'
				AND id >= low AND id < high AND cutoff - completed_at <= interval '0')
		ORDER BY begins`, age.Seconds()).Scan(ctx, &names)
	return names, err
}

// LockEventPartition keeps everybody from the events, and the partition, until
// the transaction ends.
func LockEventPartition(ctx context.Context, tx bun.Tx, name string) error {
	_, err := tx.NewRaw("LOCK TABLE ONLY job_events, ONLY ? IN ACCESS EXCLUSIVE MODE", bun.Ident(name)).Exec(ctx)
	return err
}

// DropEventPartition removes a locked partition and its events.
func DropEventPartition(ctx context.Context, tx bun.Tx, name string) error {
	_, err := tx.NewRaw("DROP TABLE ?", bun.Ident(name)).Exec(ctx)
	return err
}

// DeleteStrayEvents removes the events, in the default partition, of up to limit
// jobs that ended longer ago than age, or are gone. It returns how many events
// it removed.
func DeleteStrayEvents(ctx context.Context, tx bun.Tx, age time.Duration, limit int) (int, error) {
	return affected(tx.NewRaw(`
		DELETE FROM job_events_default WHERE job_id IN (
			SELECT e.job_id FROM (
				SELECT DISTINCT job_id FROM job_events_default
				WHERE job_id < uuid7_floor((SELECT clock_timestamp()) - make_interval(secs => ?0))) e
			LEFT JOIN jobs j ON j.id = e.job_id
			WHERE j.id IS NULL OR j.completed_at < (SELECT clock_timestamp()) - make_interval(secs => ?0)
			LIMIT ?1)`, age.Seconds(), limit).Exec(ctx))
}

// DeleteOldHints removes, of the limit oldest messages of the outbox, the hints
// that are older than age, and returns them.
func DeleteOldHints(ctx context.Context, tx bun.Tx, age time.Duration, limit int) ([]*OutboxMessage, error) {
	var gone []*OutboxMessage
	err := tx.NewRaw(`
		DELETE FROM outbox WHERE id IN (
			SELECT id FROM (SELECT id, kind, created_at FROM outbox ORDER BY id LIMIT ?) oldest
			WHERE kind IN (?) AND created_at < (SELECT clock_timestamp()) - make_interval(secs => ?))
		RETURNING id, kind, payload, created_at`, limit, bun.List(OutboxHints), age.Seconds()).Scan(ctx, &gone)
	return gone, err
}

// DeleteOldDecisions removes up to limit decisions of each pool that are older
// than age and not among its newest, and returns how many there were.
func DeleteOldDecisions(ctx context.Context, tx bun.Tx, age time.Duration, newest, limit int) (int, error) {
	return affected(tx.NewRaw(`
		DELETE FROM scaling_decisions WHERE id IN (
			SELECT old.id FROM pools p
			CROSS JOIN LATERAL (SELECT id FROM scaling_decisions WHERE pool_id = p.id ORDER BY id DESC OFFSET ? LIMIT 1) first
			CROSS JOIN LATERAL (
				SELECT id, at FROM scaling_decisions WHERE pool_id = p.id AND id <= first.id ORDER BY id LIMIT ?) old
			WHERE old.at < (SELECT clock_timestamp()) - make_interval(secs => ?))`, newest, limit, age.Seconds()).Exec(ctx))
}

// DeleteWorkersOver removes workers that ended longer ago than age, and as many
// that were lost, up to limit each, of which no attempt tells any more. It
// returns how many there were.
func DeleteWorkersOver(ctx context.Context, tx bun.Tx, age time.Duration, limit int) (int, error) {
	return affected(tx.NewRaw(`
		WITH ended AS (
			SELECT id FROM workers w WHERE ended_at < (SELECT clock_timestamp()) - make_interval(secs => ?0)
				AND NOT EXISTS (SELECT FROM job_attempts WHERE worker_id = w.id)
			ORDER BY ended_at LIMIT ?1 FOR UPDATE SKIP LOCKED),
		lost AS (
			SELECT id FROM workers w WHERE lost_at < (SELECT clock_timestamp()) - make_interval(secs => ?0) AND status = 'LOST'
				AND NOT EXISTS (SELECT FROM job_attempts WHERE worker_id = w.id)
			ORDER BY lost_at LIMIT ?1 FOR UPDATE SKIP LOCKED)
		DELETE FROM workers WHERE id IN (SELECT id FROM ended UNION ALL SELECT id FROM lost)`, age.Seconds(), limit).Exec(ctx))
}
