package models

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Bound makes statements of a transaction fail if they take longer than statement, or wait for
// a lock longer than lock.
func Bound(ctx context.Context, tx bun.Tx, statement, lock time.Duration) error {
	_, err := tx.NewRaw("SELECT set_config('statement_timeout', '?', true), set_config('lock_timeout', '?', true)",
		statement.Milliseconds(), lock.Milliseconds()).Exec(ctx)
	return err
}

// IsLockTimeout reports whether a statement failed because it waited too long for a lock.
func IsLockTimeout(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "55P03"
}

// The queries below compare with (SELECT clock_timestamp()), which is evaluated once. An index
// cannot be searched for a value that changes from row to row.

// LockJobsToReview locks jobs with artifacts whose review is due. It skips those that others
// have locked.
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

// KeepArtifacts says how long artifacts are kept.
type KeepArtifacts struct {
	// Superseded is how long a checkpoint is kept after the second newer one was committed, and a
	// preview after the next one.
	Superseded time.Duration
	// Checkpoints is how long the checkpoints of a FAILED or CANCELLED job are kept after its
	// end. Those of a COMPLETED job expire at its end, and those of a COMPLETED draft, like its
	// previews, when it is no longer kept.
	Checkpoints time.Duration
	// Others is how long all other artifacts are kept after the job's end.
	Others time.Duration
	// Review is the delay before the next review of an artifact whose expiry is still unknown.
	Review time.Duration
}

// ReviewArtifacts reviews up to limit due artifacts of locked jobs. It writes when they
// expire, as far as that is known, and returns how many it reviewed and which have expired. A
// video or thumbnail does not expire while a job that has not ended takes something from its job.
func ReviewArtifacts(ctx context.Context, tx bun.Tx, jobs []JobID, keep KeepArtifacts, limit int) (looked int, over []ArtifactID,
	err error) {
	var rows []struct {
		ID   ArtifactID `bun:"id"`
		Over bool       `bun:"over"`
	}
	err = tx.NewRaw(`
		WITH due AS (
			SELECT id FROM artifacts WHERE job_id IN (?0) AND review_at <= (SELECT clock_timestamp()) ORDER BY review_at LIMIT ?1),
		newer AS (
			SELECT id, CASE type WHEN 'PREVIEW' THEN lead(created_at) OVER w ELSE lead(created_at, 2) OVER w END AS superseded_at
			FROM artifacts WHERE job_id IN (?0) AND type IN ('CHECKPOINT', 'PREVIEW') AND rejected_at IS NULL
			WINDOW w AS (PARTITION BY job_id, type ORDER BY created_at, id)),
		ends AS (
			SELECT ar.id, CASE WHEN ar.type NOT IN ('FINAL_VIDEO', 'THUMBNAIL') OR NOT EXISTS (
				SELECT FROM job_sources s JOIN jobs u ON u.id = s.job_id WHERE s.source_id IN (SELECT sources_of(ar.job_id)) AND u.completed_at IS NULL)
			THEN least( -- ignores NULL, an unknown time
				ar.rejected_at,
				newer.superseded_at + make_interval(secs => ?2),
				CASE WHEN ar.type IN ('CHECKPOINT', 'PREVIEW') THEN j.kept_until END,
				j.completed_at + CASE
					WHEN ar.type IN ('CHECKPOINT', 'PREVIEW') AND j.kept_until IS NOT NULL THEN NULL
					WHEN ar.type <> 'CHECKPOINT' THEN make_interval(secs => ?4)
					WHEN j.status = 'COMPLETED' THEN interval '0'
					ELSE make_interval(secs => ?3) END) END AS at
			FROM due JOIN artifacts ar ON ar.id = due.id JOIN jobs j ON j.id = ar.job_id LEFT JOIN newer ON newer.id = ar.id)
		UPDATE artifacts ar SET expires_at = ends.at, review_at = coalesce(ends.at, clock_timestamp() + make_interval(secs => ?5))
		FROM ends WHERE ar.id = ends.id
		RETURNING ar.id, coalesce(ends.at <= clock_timestamp(), false) AS over`,
		bun.List(jobs), limit, keep.Superseded.Seconds(), keep.Checkpoints.Seconds(), keep.Others.Seconds(), keep.Review.Seconds()).Scan(ctx,
		&rows)
	for _, row := range rows {
		if row.Over {
			over = append(over, row.ID)
		}
	}
	return len(rows), over, err
}

// LockJobsOver locks jobs that ended longer ago than age, oldest first. It skips those that
// others have locked, those from which jobs take something that have not ended, and the nodes of
// workflows, which are deleted first.
func LockJobsOver(ctx context.Context, tx bun.Tx, age time.Duration, limit int) ([]JobID, error) {
	var ids []JobID
	err := tx.NewRaw(`
		SELECT id FROM jobs j WHERE completed_at < (SELECT clock_timestamp()) - make_interval(secs => ?)
			AND NOT EXISTS (SELECT FROM job_sources s JOIN jobs u ON u.id = s.job_id WHERE s.source_id IN (SELECT sources_of(j.id)) AND u.completed_at IS NULL)
			AND NOT EXISTS (SELECT FROM workflow_nodes n WHERE n.job_id = j.id)
		ORDER BY completed_at LIMIT ? FOR UPDATE OF j SKIP LOCKED`, age.Seconds(), limit).Scan(ctx, &ids)
	return ids, err
}

// DeleteJobs deletes locked jobs, their events, and all rows that refer to them.
func DeleteJobs(ctx context.Context, tx bun.Tx, ids []JobID) error {
	if _, err := tx.NewRaw("DELETE FROM job_events WHERE job_id IN (?)", bun.List(ids)).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewRaw("DELETE FROM jobs WHERE id IN (?)", bun.List(ids)).Exec(ctx)
	return err
}

// ListEventPartitionsOver returns the partitions of job_events all of whose jobs ended longer
// ago than age, oldest first.
//
// A partition holds the jobs that were submitted in its month, by the clock of the process
// that accepted them. Most jobs end within a day. Only the few others are looked up, by an
// index of their own. The comparison of their end is written so that PostgreSQL does not
// search the index of all ended jobs instead.
func ListEventPartitionsOver(ctx context.Context, db bun.IDB, age time.Duration) ([]string, error) {
	var names []string
	err := db.NewRaw(`
		WITH months AS MATERIALIZED (
			SELECT month.name, month.begins, r.* FROM (
				SELECT c.relname AS name, to_date(right(c.relname, 7), 'YYYY_MM')::timestamp AS begins
				FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
				WHERE i.inhparent = 'job_events'::regclass AND c.relname ~ '^job_events_[0-9]{4}_[0-9]{2}$') month
			CROSS JOIN LATERAL (SELECT (begins + interval '1 month') AT TIME ZONE 'UTC' AS ends) m
			CROSS JOIN LATERAL (SELECT uuid7_floor(begins AT TIME ZONE 'UTC') AS low, uuid7_floor(ends) AS high,
				clock_timestamp() - make_interval(secs => ?) AS cutoff) r
			WHERE ends < cutoff - interval '48 hours')
		SELECT name FROM months
		WHERE NOT EXISTS (SELECT FROM jobs WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING')
				AND id >= low AND id < high)
			AND NOT EXISTS (SELECT FROM jobs WHERE completed_at - created_at > interval '24 hours'
				AND id >= low AND id < high AND cutoff - completed_at <= interval '0')
		ORDER BY begins`, age.Seconds()).Scan(ctx, &names)
	return names, err
}

// LockEventPartition locks all others out of the events and the partition until the
// transaction ends.
func LockEventPartition(ctx context.Context, tx bun.Tx, name string) error {
	_, err := tx.NewRaw("LOCK TABLE ONLY job_events, ONLY ? IN ACCESS EXCLUSIVE MODE", bun.Ident(name)).Exec(ctx)
	return err
}

// DropEventPartition drops a locked partition with its events.
func DropEventPartition(ctx context.Context, tx bun.Tx, name string) error {
	_, err := tx.NewRaw("DROP TABLE ?", bun.Ident(name)).Exec(ctx)
	return err
}

// DeleteStrayEvents deletes events from the default partition: those of up to limit jobs that
// ended longer ago than age, or no longer exist. It returns the number of deleted events.
func DeleteStrayEvents(ctx context.Context, tx bun.Tx, age time.Duration, limit int) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		DELETE FROM job_events_default WHERE job_id IN (
			SELECT e.job_id FROM (
				SELECT DISTINCT job_id FROM job_events_default
				WHERE job_id < uuid7_floor((SELECT clock_timestamp()) - make_interval(secs => ?0))) e
			LEFT JOIN jobs j ON j.id = e.job_id
			WHERE j.id IS NULL OR j.completed_at < (SELECT clock_timestamp()) - make_interval(secs => ?0)
			LIMIT ?1)`, age.Seconds(), limit).Exec(ctx))
}

// DeleteOldHints deletes the hints among the limit oldest outbox messages that are older than
// age, and returns them.
func DeleteOldHints(ctx context.Context, tx bun.Tx, age time.Duration, limit int) ([]*OutboxMessage, error) {
	var gone []*OutboxMessage
	err := tx.NewRaw(`
		DELETE FROM outbox WHERE id IN (
			SELECT id FROM (SELECT id, kind, created_at FROM outbox ORDER BY id LIMIT ?) oldest
			WHERE kind IN (?) AND created_at < (SELECT clock_timestamp()) - make_interval(secs => ?))
		RETURNING id, kind, payload, created_at`, limit, bun.List(OutboxHints), age.Seconds()).Scan(ctx, &gone)
	return gone, err
}

// DeleteOldDecisions deletes up to limit decisions of each pool that are older than age and
// not among its newest. It returns the number of deleted rows.
func DeleteOldDecisions(ctx context.Context, tx bun.Tx, age time.Duration, newest, limit int) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		DELETE FROM scaling_decisions WHERE id IN (
			SELECT old.id FROM pools p
			CROSS JOIN LATERAL (SELECT id FROM scaling_decisions WHERE pool_id = p.id ORDER BY id DESC OFFSET ? LIMIT 1) first
			CROSS JOIN LATERAL (
				SELECT id, at FROM scaling_decisions WHERE pool_id = p.id AND id <= first.id ORDER BY id LIMIT ?) old
			WHERE old.at < (SELECT clock_timestamp()) - make_interval(secs => ?))`, newest, limit, age.Seconds()).Exec(ctx))
}

// DeleteWorkersOver deletes up to limit workers that ended longer ago than age, and up to
// limit that were lost longer ago, if no attempt refers to them. It returns the number of
// deleted rows.
func DeleteWorkersOver(ctx context.Context, tx bun.Tx, age time.Duration, limit int) (int, error) {
	return postgres.Affected(tx.NewRaw(`
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

// leastGrowth is how many rows a table, or the queue, must gain before it is analyzed early.
const leastGrowth = 500

// ListGrownTables returns the tables that have more than twice the rows that PostgreSQL's
// statistics assume, and jobs if the queue has: the table does not grow when delayed jobs are
// queued, but plans for an empty queue read a long one from end to end. A queue of less than a
// thousandth of the table does not count, since ANALYZE reads a sample of 30,000 rows.
func ListGrownTables(ctx context.Context, db bun.IDB) (tables []string, err error) {
	err = db.NewRaw(`
		WITH assumed AS (
			SELECT c.reltuples * coalesce((
				SELECT m.share FROM unnest(s.most_common_vals::text::text[], s.most_common_freqs) AS m (status, share)
				WHERE m.status = 'QUEUED'), 0) AS queued, c.reltuples AS jobs
			FROM pg_class c LEFT JOIN pg_stats s ON s.schemaname = current_schema() AND s.tablename = 'jobs' AND s.attname = 'status'
			WHERE c.oid = to_regclass('jobs'))
		SELECT c.relname FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
		WHERE s.schemaname = current_schema() AND s.n_live_tup > 2 * greatest(c.reltuples, 0) + ?0
		UNION
		SELECT 'jobs' FROM assumed
		WHERE (SELECT sum(queued) FROM account_lanes) > 2 * queued + greatest(?0, jobs / 1000)
		ORDER BY relname`, leastGrowth).Scan(ctx, &tables)
	return tables, err
}

// Analyze updates the planner's statistics of a table, and makes all connections plan their
// statements on it again. It skips a table that is already being analyzed.
func Analyze(ctx context.Context, db bun.IDB, table string) error {
	_, err := db.NewRaw("ANALYZE (SKIP_LOCKED) ?", bun.Ident(table)).Exec(ctx)
	return err
}
