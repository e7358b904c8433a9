package jobstest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// tables are those that hold what is known of jobs and workers.
var tables = []string{
	"accounts", "account_lanes", "workers", "pools", "scaling_decisions", "jobs", "job_inputs", "job_attempts",
	"uploads", "artifacts", "job_events", "outbox", "job_dependencies", "job_runs", "dead_letters", "object_deletions",
	"bulk_operations", "bulk_items",
	"lanes", "queue_pauses",
}

// Dump is every row of every table, to compare before and after what must
// change nothing.
func (s *Stack) Dump(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, table := range tables {
		var rows string
		require.NoError(t, s.DB.NewRaw(
			"SELECT coalesce(jsonb_agg(to_jsonb(r) ORDER BY to_jsonb(r)::text), '[]')::text FROM ? r", bun.Ident(table),
		).Scan(t.Context(), &rows))
		all[table] = rows
	}
	return all
}

// Exec runs SQL that a test needs to age or to break rows.
func (s *Stack) Exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := s.DB.NewRaw(query, args...).Exec(t.Context())
	require.NoError(t, err)
}

// RequireCode fails the test unless err is the caller's error of that code.
func RequireCode(t require.TestingT, err error, code jobs.Code) {
	var e *jobs.Error
	require.Error(t, err)
	require.True(t, errors.As(err, &e), "not an error of the caller's: %v", err)
	require.Equal(t, code, e.Code, e.Message)
}

// RequireInvalid fails the test unless err names that field as invalid.
func RequireInvalid(t require.TestingT, err error, field string) {
	RequireCode(t, err, jobs.CodeInvalidInput)
	var e *jobs.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, field, e.Field, e.Message)
}

// invariants are queries that must find nothing, by what each row would mean.
var invariants = map[string]string{
	"an account's counters are not the counts of its jobs": `
		SELECT a.id FROM accounts a LEFT JOIN jobs j ON j.account_id = a.id
		GROUP BY a.id
		HAVING a.queued <> count(*) FILTER (WHERE j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED'))
			OR a.running <> count(*) FILTER (WHERE j.status IN ('ASSIGNED', 'RUNNING', 'COMPLETING'))`,
	"a lane's counter is not the count of its queued jobs": `
		SELECT coalesce(l.account_id, j.account_id) FROM account_lanes l
		FULL JOIN (
			SELECT account_id, lane, lane <> tier AND lane <> 'CRITICAL' AS promoted, count(*) AS n
			FROM jobs WHERE status = 'QUEUED' GROUP BY 1, 2, 3) j
			ON j.account_id = l.account_id AND j.lane = l.lane AND j.promoted = l.promoted
		WHERE coalesce(l.queued, 0) <> coalesce(j.n, 0)`,
	"an account at its cap stands in a line, or one below it in none": `
		SELECT a.id FROM accounts a JOIN account_lanes l ON l.account_id = a.id WHERE l.capped <> (a.running >= a.max_running)`,
	"a job's events have a gap": `
		SELECT j.id FROM jobs j LEFT JOIN job_events e ON e.job_id = j.id
		GROUP BY j.id
		HAVING count(e.seq) <> j.event_seq OR min(e.seq) <> 1 OR max(e.seq) <> j.event_seq`,
	"a job has not just one terminal event per run": `
		SELECT j.id FROM jobs j LEFT JOIN job_events e
			ON e.job_id = j.id AND e.run = j.run AND e.type IN ('COMPLETED', 'FAILED', 'CANCELLED')
		GROUP BY j.id
		HAVING count(e.seq) <> (CASE WHEN j.status IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN 1 ELSE 0 END)
			OR count(e.seq) FILTER (WHERE e.type <> j.status OR e.seq <> j.event_seq) > 0`,
	"a job and its current attempt disagree": `
		SELECT j.id FROM jobs j FULL JOIN (SELECT * FROM job_attempts WHERE ended_at IS NULL) a ON a.job_id = j.id
		WHERE j.current_attempt_id IS DISTINCT FROM a.id
			OR a.id IS NOT NULL AND (a.attempt_no <> j.attempt_no OR a.run <> j.run OR j.status NOT IN ('ASSIGNED', 'RUNNING', 'COMPLETING'))`,
	"a worker is not as the attempt that it holds, or does not": `
		SELECT w.id FROM workers w LEFT JOIN job_attempts a ON a.worker_id = w.id AND a.ended_at IS NULL
		WHERE (a.id IS NULL AND w.status = 'BUSY') OR (a.id IS NOT NULL AND w.status NOT IN ('BUSY', 'DRAINING'))`,
	"attempts of a job overlap": `
		SELECT a.job_id FROM job_attempts a JOIN job_attempts b ON b.job_id = a.job_id AND b.attempt_no = a.attempt_no + 1
		WHERE a.ended_at IS NULL OR a.ended_at > b.leased_at`,
	"a pointer names no artifact of its job and kind": `
		SELECT j.id FROM jobs j
		LEFT JOIN artifacts c ON c.id = j.latest_checkpoint_id
		LEFT JOIN artifacts r ON r.id = j.result_id
		LEFT JOIN job_attempts a ON a.id = r.attempt_id
		WHERE j.latest_checkpoint_id IS NOT NULL AND (c.job_id <> j.id OR c.type <> 'CHECKPOINT' OR c.rejected_at IS NOT NULL)
			OR j.result_id IS NOT NULL AND (r.job_id <> j.id OR r.type <> 'FINAL_VIDEO' OR a.status <> 'SUCCEEDED' OR j.status <> 'COMPLETED')`,
	"a doomed object is named by a row": `
		SELECT object_key FROM object_deletions JOIN artifacts USING (object_key)
		UNION SELECT object_key FROM object_deletions JOIN uploads USING (object_key)`,
	"a deleted job holds something": `
		SELECT j.id::text FROM jobs j WHERE j.deleted_at IS NOT NULL AND (
			EXISTS (SELECT FROM job_inputs i WHERE i.job_id = j.id AND i.wrapped_key IS NOT NULL)
			OR EXISTS (SELECT FROM artifacts a WHERE a.job_id = j.id) OR j.params <> '{}' OR j.failure_reason IS NOT NULL)`,
	"a job that was to be cancelled completed": `
		SELECT id FROM jobs WHERE status = 'COMPLETED' AND cancel_requested_at IS NOT NULL`,
	"more failures count than the job may have": `
		SELECT id FROM jobs WHERE failures > max_attempts OR failures = max_attempts AND status IN ('SCHEDULED', 'QUEUED')`,
	"a queued job has no message in the outbox": `
		SELECT j.id FROM jobs j WHERE j.status = 'QUEUED'
			AND NOT EXISTS (SELECT FROM outbox o WHERE o.payload ->> 'jobId' = 'job_' || j.id)`,
}

// RequireInvariants fails the test if a row breaks an invariant. Tests that
// relay the outbox cannot use it: it wants each queued job's message.
func (s *Stack) RequireInvariants(t require.TestingT) {
	for broken, query := range invariants {
		var rows []string
		require.NoError(t, s.DB.NewRaw(query).Scan(context.Background(), &rows), broken)
		require.Empty(t, rows, broken)
	}
}

// Count counts the rows of a table.
func (s *Stack) Count(t testing.TB, table string) int {
	t.Helper()
	var n int
	require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM ?", bun.Ident(table)).Scan(t.Context(), &n))
	return n
}

// WaitForLocks waits until n calls on the test's database wait for locks.
func (s *Stack) WaitForLocks(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var waiting int
		err := s.DB.NewRaw(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(context.Background(), &waiting)
		return err == nil && waiting == n
	}, 20*time.Second, time.Millisecond)
}
