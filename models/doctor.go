package models

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
)

// Invariant names a condition that the rows must always meet.
type Invariant string

const (
	AccountCounters   Invariant = "account-counters"
	LaneCounters      Invariant = "lane-counters"
	CappedLine        Invariant = "capped-line"
	OneLiveAttempt    Invariant = "one-live-attempt"
	CurrentAttempt    Invariant = "current-attempt"
	HeldWorker        Invariant = "held-worker"
	AttemptOverlap    Invariant = "attempt-overlap"
	AttemptGap        Invariant = "attempt-gap"
	StaleWrite        Invariant = "stale-write"
	LostEarly         Invariant = "lost-early"
	EventGap          Invariant = "event-gap"
	Transition        Invariant = "transition"
	History           Invariant = "history"
	OneEnd            Invariant = "one-end"
	RunOrder          Invariant = "run-order"
	PhantomEvent      Invariant = "phantom-event"
	ResultPointer     Invariant = "result-pointer"
	OneSuccess        Invariant = "one-success"
	IssuedKey         Invariant = "issued-key"
	CheckpointPointer Invariant = "checkpoint-pointer"
	DoomedObject      Invariant = "doomed-object"
	DeletedJob        Invariant = "deleted-job"
	KeptPrompt        Invariant = "kept-prompt"
	ClosedRun         Invariant = "closed-run"
	CancelledComplete Invariant = "cancelled-complete"
	FailureCount      Invariant = "failure-count"
	Idempotency       Invariant = "idempotency"
	EarlyChild        Invariant = "early-child"
	BlockedCount      Invariant = "blocked-count"
	Tenancy           Invariant = "tenancy"
	MissingInput      Invariant = "missing-input"
	StuckFetch        Invariant = "stuck-fetch"
	StuckQueued       Invariant = "stuck-queued"
	StuckDue          Invariant = "stuck-due"
	UnreapedLease     Invariant = "unreaped-lease"
	UntoldEnd         Invariant = "untold-end"
	StuckWebhook      Invariant = "stuck-webhook"
)

// Invariants lists all of them.
var Invariants = []Invariant{
	AccountCounters, LaneCounters, CappedLine, OneLiveAttempt, CurrentAttempt, HeldWorker, AttemptOverlap, AttemptGap, StaleWrite,
	LostEarly, EventGap, Transition, History, OneEnd, RunOrder, PhantomEvent, ResultPointer, OneSuccess, IssuedKey, CheckpointPointer, DoomedObject, DeletedJob, KeptPrompt, ClosedRun,
	CancelledComplete, FailureCount, Idempotency, EarlyChild, BlockedCount, Tenancy, MissingInput, StuckFetch, StuckQueued, StuckDue,
	UnreapedLease, UntoldEnd, StuckWebhook,
}

// Examination bounds a search for violations, and passes in the domain's rules.
type Examination struct {
	// Jobs bounds the queries that read the history of jobs: to that many of the newest jobs,
	// and that many of those that have not ended. 0 means all jobs.
	Jobs int
	// Edges are the transitions that are allowed, as FROM>TO. FROM is empty for the first
	// state of a run.
	Edges []string
	// Lanes are the lanes with a wait target. Waits says for how many seconds a job may be
	// queued in each of them while a worker is idle.
	Lanes []Tier
	Waits []float64
}

// Violations is the number of rows that break an invariant, and the ids of some of them.
type Violations struct {
	IDs   []string
	Count int
}

// FindViolations returns the violations of an invariant, with at most limit ids.
func FindViolations(ctx context.Context, db bun.IDB, which Invariant, e Examination, limit int) (Violations, error) {
	var rows []struct {
		ID    string `bun:"id"`
		Count int    `bun:"count"`
	}
	var jobs any // NULL is no limit
	if e.Jobs > 0 {
		jobs = e.Jobs
	}
	err := db.NewRaw("WITH "+examined+", broken AS ("+invariants[which]+`)
		SELECT id, count(*) OVER () AS count FROM (SELECT DISTINCT id FROM broken) b ORDER BY id LIMIT ?5`,
		jobs, textArray(e.Edges), textArray(e.Lanes), floatArray(e.Waits), textArray(stateEvents), limit).Scan(ctx, &rows)
	v := Violations{}
	for _, row := range rows {
		v.IDs, v.Count = append(v.IDs, row.ID), row.Count
	}
	return v, err
}

// examined selects the jobs whose history is read, with all columns.
const examined = `
	examined AS (
		SELECT * FROM jobs WHERE id IN (
			(SELECT id FROM jobs ORDER BY id DESC LIMIT ?0)
			UNION
			(SELECT id FROM jobs WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING') LIMIT ?0)))`

// stateEvents lists the events that change a job's state, each followed by the new state.
// COMPLETING has no event.
var stateEvents = []string{
	string(EventQueued), string(JobQueued),
	string(EventRequeued), string(JobQueued),
	string(EventScheduled), string(JobScheduled),
	string(EventRetryScheduled), string(JobScheduled),
	string(EventBlocked), string(JobBlocked),
	string(EventLeased), string(JobAssigned),
	string(EventStarted), string(JobRunning),
	string(EventCompleted), string(JobCompleted),
	string(EventFailed), string(JobFailed),
	string(EventCancelled), string(JobCancelled),
}

// states selects the states that the examined jobs' events report.
const states = `
	SELECT j.id, j.status, j.run AS newest_run, e.run, e.seq, s.state
	FROM examined j
	JOIN job_events e ON e.job_id = j.id
	JOIN (SELECT types[2 * i - 1] AS type, types[2 * i] AS state
		FROM (SELECT ?4::text[] AS types) t, generate_series(1, cardinality(types) / 2) i) s ON s.type = e.type`

// kept holds for jobs whose events still exist. The retention of events drops whole months,
// and the rows of their jobs can outlive them.
const kept = `(e.n > 0 OR j.completed_at IS NULL OR j.completed_at > clock_timestamp() - interval '1 day')`

// invariants maps each invariant to a query for its violations. Each row is the id of a row
// that breaks it.
var invariants = map[Invariant]string{
	AccountCounters: `
		SELECT 'acc_' || a.id AS id FROM accounts a
		LEFT JOIN (
			SELECT account_id,
				count(*) FILTER (WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED')) AS queued,
				count(*) FILTER (WHERE status IN ('ASSIGNED', 'RUNNING', 'COMPLETING')) AS running
			FROM jobs WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING')
			GROUP BY account_id) j ON j.account_id = a.id
		WHERE a.queued <> coalesce(j.queued, 0) OR a.running <> coalesce(j.running, 0)`,
	LaneCounters: `
		SELECT 'acc_' || coalesce(l.account_id, j.account_id) || ' in ' || coalesce(l.lane, j.lane) AS id FROM account_lanes l
		FULL JOIN (
			SELECT account_id, lane, ` + promotedSQL + ` AS promoted, count(*) AS n
			FROM jobs WHERE status = 'QUEUED' GROUP BY 1, 2, 3) j
			ON j.account_id = l.account_id AND j.lane = l.lane AND j.promoted = l.promoted
		WHERE coalesce(l.queued, 0) <> coalesce(j.n, 0)`,
	CappedLine: `
		SELECT 'acc_' || a.id || ' in ' || l.lane AS id FROM accounts a JOIN account_lanes l ON l.account_id = a.id
		WHERE l.capped <> (a.running >= a.max_running)`,
	OneLiveAttempt: `
		SELECT 'job_' || job_id AS id FROM job_attempts WHERE ended_at IS NULL GROUP BY job_id HAVING count(*) > 1
		UNION ALL
		SELECT 'wrk_' || worker_id FROM job_attempts WHERE ended_at IS NULL GROUP BY worker_id HAVING count(*) > 1`,
	CurrentAttempt: `
		SELECT 'job_' || coalesce(j.id, a.job_id) AS id
		FROM (SELECT * FROM jobs WHERE status IN ('ASSIGNED', 'RUNNING', 'COMPLETING') OR current_attempt_id IS NOT NULL) j
		FULL JOIN (SELECT * FROM job_attempts WHERE ended_at IS NULL) a ON a.job_id = j.id
		WHERE j.current_attempt_id IS DISTINCT FROM a.id OR a.attempt_no <> j.attempt_no OR a.run <> j.run
			OR j.status NOT IN ('ASSIGNED', 'RUNNING', 'COMPLETING')`,
	HeldWorker: `
		SELECT 'wrk_' || w.id AS id FROM workers w
		LEFT JOIN job_attempts a ON a.worker_id = w.id AND a.ended_at IS NULL
		WHERE a.id IS NULL AND w.status = 'BUSY' OR a.id IS NOT NULL AND w.status NOT IN ('BUSY', 'DRAINING')`,
	AttemptOverlap: `
		SELECT 'job_' || a.job_id AS id FROM examined j
		JOIN job_attempts a ON a.job_id = j.id
		JOIN job_attempts b ON b.job_id = a.job_id AND b.attempt_no = a.attempt_no + 1
		WHERE a.ended_at IS NULL OR a.ended_at > b.leased_at`,
	AttemptGap: `
		SELECT 'job_' || j.id AS id FROM examined j
		CROSS JOIN LATERAL (SELECT count(*) AS n, coalesce(max(attempt_no), 0) AS last FROM job_attempts WHERE job_id = j.id) a
		WHERE a.n <> j.attempt_no OR a.last <> j.attempt_no`,
	StaleWrite: `
		SELECT 'job_' || id AS id FROM (
			SELECT j.id, a.attempt_no, max(a.attempt_no) OVER (PARTITION BY j.id ORDER BY e.seq) AS newest
			FROM examined j JOIN job_events e ON e.job_id = j.id JOIN job_attempts a ON a.id = e.attempt_id) w
		WHERE attempt_no < newest`,
	LostEarly: `
		SELECT 'att_' || a.id AS id FROM examined j JOIN job_attempts a ON a.job_id = j.id JOIN workers w ON w.id = a.worker_id
		WHERE a.status = 'LOST' AND a.ended_at < a.lease_expires_at
			-- An attempt ends in the transaction that ends its worker.
			AND NOT coalesce(w.ended_at BETWEEN a.ended_at AND a.ended_at + interval '1 minute', false)`,
	EventGap: `
		SELECT 'job_' || j.id AS id FROM examined j
		CROSS JOIN LATERAL (SELECT count(*) AS n, min(seq) AS first, max(seq) AS last FROM job_events WHERE job_id = j.id) e
		WHERE (e.n <> j.event_seq OR e.first IS DISTINCT FROM 1 OR e.last <> j.event_seq) AND ` + kept,
	Transition: `
		SELECT 'job_' || id AS id FROM (
			SELECT s.*, lag(state) OVER run AS was, row_number() OVER run AS place FROM (` + states + `) s
			WINDOW run AS (PARTITION BY id, run ORDER BY seq)) m
		WHERE coalesce(was, '') || '>' || state <> ALL (?1::text[])
			-- A reopened run can become BLOCKED as its second state.
			AND NOT (run > 1 AND place = 2 AND was = 'QUEUED' AND state = 'BLOCKED')`,
	History: `
		SELECT 'job_' || id AS id FROM (
			SELECT DISTINCT ON (id) * FROM (` + states + `) s WHERE run = newest_run ORDER BY id, seq DESC) newest
		WHERE state <> CASE status WHEN 'COMPLETING' THEN 'RUNNING' ELSE status END`,
	OneEnd: `
		SELECT 'job_' || j.id AS id FROM examined j
		CROSS JOIN LATERAL (
			SELECT run, max(seq) AS last, max(seq) FILTER (WHERE terminal) AS ended, count(*) FILTER (WHERE terminal) AS ends, max(type) FILTER (WHERE terminal) AS type
			FROM (SELECT *, type IN ('COMPLETED', 'FAILED', 'CANCELLED') AS terminal FROM job_events WHERE job_id = j.id) e
			GROUP BY run) e
		WHERE CASE WHEN e.run < j.run OR j.completed_at IS NOT NULL THEN e.ends <> 1 OR e.ended <> e.last ELSE e.ends > 0 END
			OR e.run > j.run OR e.run = j.run AND e.type <> j.status`,
	RunOrder: `
		SELECT 'job_' || id AS id FROM (
			SELECT j.id, e.run, coalesce(lag(e.run) OVER (PARTITION BY j.id ORDER BY e.seq), 1) AS was
			FROM examined j JOIN job_events e ON e.job_id = j.id) r
		WHERE run NOT IN (was, was + 1)`,
	PhantomEvent: `
		SELECT 'job_' || e.job_id AS id FROM (SELECT job_id FROM job_events ORDER BY job_id DESC LIMIT ?0) e
		WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = e.job_id)`,
	OneSuccess: `
		SELECT 'job_' || j.id AS id FROM examined j
		CROSS JOIN LATERAL (
			SELECT count(*) AS n, max(attempt_no) AS last FROM job_attempts WHERE job_id = j.id AND run = j.run AND status = 'SUCCEEDED') a
		WHERE a.n <> CASE WHEN j.status = 'COMPLETED' THEN 1 ELSE 0 END OR a.last <> j.attempt_no`,
	IssuedKey: `
		SELECT 'art_' || r.id AS id FROM examined j
		JOIN artifacts r ON r.job_id = j.id
		JOIN uploads u ON u.object_key = r.object_key
		WHERE r.attempt_id IS NOT NULL AND (u.attempt_id <> r.attempt_id OR u.job_id <> r.job_id OR u.type <> r.type
			OR u.size_bytes <> r.size_bytes OR u.checksum <> r.checksum)`,
	ResultPointer: `
		SELECT 'job_' || j.id AS id FROM examined j
		JOIN artifacts r ON r.id = j.result_id
		LEFT JOIN job_attempts a ON a.id = r.attempt_id
		WHERE r.job_id <> j.id OR r.type <> 'FINAL_VIDEO' OR a.status IS DISTINCT FROM 'SUCCEEDED' OR j.status <> 'COMPLETED'`,
	CheckpointPointer: `
		SELECT 'job_' || j.id AS id FROM examined j
		JOIN artifacts c ON c.id = j.latest_checkpoint_id
		WHERE c.job_id <> j.id OR c.type <> 'CHECKPOINT' OR c.rejected_at IS NOT NULL`,
	DoomedObject: `
		SELECT d.object_key AS id FROM object_deletions d JOIN artifacts r ON r.object_key = d.object_key
		UNION ALL
		SELECT d.object_key FROM object_deletions d JOIN uploads u ON u.object_key = d.object_key`,
	DeletedJob: `
		SELECT 'job_' || j.id AS id FROM examined j
		WHERE j.deleted_at IS NOT NULL AND (j.params <> '{}'
			OR num_nonnulls(j.metadata, j.output, j.failure_reason, j.cancel_reason, j.progress_message) > 0
			OR EXISTS (SELECT FROM job_inputs i WHERE i.job_id = j.id AND (i.wrapped_key IS NOT NULL OR i.ciphertext <> ''))
			OR EXISTS (SELECT FROM job_runs r WHERE r.job_id = j.id AND (r.params <> '{}' OR r.failure_reason IS NOT NULL))
			OR EXISTS (SELECT FROM job_attempts a WHERE a.job_id = j.id AND num_nonnulls(a.failure_reason, a.error_detail) > 0)
			OR EXISTS (SELECT FROM dead_letters d WHERE d.job_id = j.id AND d.reason <> 'deleted')
			OR j.callback_url IS NOT NULL OR EXISTS (SELECT FROM webhook_events v WHERE v.job_id = j.id AND v.job IS NOT NULL)
			OR EXISTS (SELECT FROM artifacts r WHERE r.job_id = j.id)
			OR EXISTS (SELECT FROM input_uses u WHERE u.job_id = j.id))`,
	KeptPrompt: `
		SELECT 'job_' || j.id AS id FROM examined j JOIN job_inputs i ON i.job_id = j.id
		WHERE j.deleted_at IS NULL AND (i.wrapped_key IS NULL OR i.ciphertext = '')`,
	ClosedRun: `
		SELECT 'job_' || j.id AS id FROM examined j
		WHERE (SELECT count(*) FROM job_runs r WHERE r.job_id = j.id AND r.run < j.run) <> j.run - 1
		UNION ALL
		SELECT 'job_' || j.id FROM examined j JOIN job_events e ON e.job_id = j.id
		WHERE e.type = 'DEAD_LETTERED' AND NOT EXISTS (SELECT FROM dead_letters d WHERE d.job_id = j.id AND d.run = e.run)`,
	CancelledComplete: `
		SELECT 'job_' || id AS id FROM examined WHERE status = 'COMPLETED' AND cancel_requested_at IS NOT NULL`,
	FailureCount: `
		SELECT 'job_' || id AS id FROM examined
		WHERE failures > max_attempts OR failures = max_attempts AND status IN ('SCHEDULED', 'QUEUED')`,
	Idempotency: `
		SELECT 'job_' || j.id AS id FROM examined j
		JOIN jobs other ON other.account_id = j.account_id AND other.idempotency_key = j.idempotency_key AND other.id <> j.id`,
	EarlyChild: `
		SELECT 'job_' || j.id AS id FROM examined j
		JOIN job_attempts a ON a.job_id = j.id
		JOIN job_dependencies d ON d.job_id = j.id
		JOIN jobs p ON p.id = d.depends_on
		WHERE p.status <> 'COMPLETED' OR p.completed_at > a.leased_at`,
	BlockedCount: `
		SELECT 'job_' || j.id AS id FROM examined j
		CROSS JOIN LATERAL (
			SELECT count(*) AS n FROM job_dependencies d JOIN jobs p ON p.id = d.depends_on
			WHERE d.job_id = j.id AND p.status <> 'COMPLETED') open
		WHERE j.blocked_by <> open.n + (SELECT count(*) FROM input_fetches f WHERE f.job_id = j.id) AND j.status NOT IN ('FAILED', 'CANCELLED')`,
	Tenancy: `
		SELECT 'art_' || r.id AS id FROM examined j JOIN artifacts r ON r.job_id = j.id WHERE r.account_id <> j.account_id
		UNION ALL
		SELECT 'job_' || j.id FROM examined j
		JOIN job_dependencies d ON d.job_id = j.id JOIN jobs p ON p.id = d.depends_on WHERE p.account_id <> j.account_id
		UNION ALL
		SELECT 'art_' || r.id FROM examined j
		JOIN input_uses u ON u.job_id = j.id JOIN artifacts r ON r.id = u.artifact_id WHERE r.account_id <> j.account_id`,
	MissingInput: `
		SELECT 'job_' || j.id AS id FROM examined j
		WHERE j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING') AND j.params ->> 'referenceImage' IS NOT NULL
			AND NOT EXISTS (SELECT FROM input_uses u JOIN artifacts r ON r.id = u.artifact_id
				WHERE u.job_id = j.id AND u.reference = j.params ->> 'referenceImage' AND r.type = 'INPUT')
			AND NOT (j.status = 'BLOCKED' AND EXISTS (SELECT FROM input_fetches f WHERE f.job_id = j.id))`,
	StuckFetch: `
		SELECT 'job_' || f.job_id AS id FROM input_fetches f
		WHERE greatest(f.next_at, f.claimed_until) < clock_timestamp() - interval '10 minutes'`,
	StuckQueued: `
		SELECT 'job_' || j.id AS id FROM jobs j
		JOIN accounts a ON a.id = j.account_id AND a.running < a.max_running
		JOIN (SELECT unnest(?2::text[]) AS lane, unnest(?3::float8[]) AS seconds) patience ON patience.lane = j.lane
		WHERE j.status = 'QUEUED' AND j.queued_at < clock_timestamp() - make_interval(secs => patience.seconds)
			AND NOT EXISTS (SELECT FROM queue_pauses p WHERE p.paused AND p.lane = j.lane AND p.model IN ('', j.model))
			AND EXISTS (SELECT FROM workers w
				WHERE w.ended_at IS NULL AND w.status = 'IDLE' AND j.model = ANY (w.models) AND (NOT j.require_region OR w.region = j.region)
					AND j.gpu_rank = 0 -- which larger GPUs there are is the catalogue's to say
					AND w.idle_since < clock_timestamp() - interval '1 minute'
					AND w.last_heartbeat_at > clock_timestamp() - interval '1 minute')`,
	StuckDue: `
		SELECT 'job_' || id AS id FROM jobs
		WHERE (status = 'SCHEDULED' OR status = 'BLOCKED' AND blocked_by = 0) AND run_at < clock_timestamp() - interval '10 minutes'`,
	UnreapedLease: `
		SELECT 'att_' || id AS id FROM job_attempts
		WHERE ended_at IS NULL AND lease_expires_at < clock_timestamp() - interval '10 minutes'`,
	// Deliveries are kept for 30 days. If an endpoint changes while a run ends, the event may
	// or may not be sent to it.
	UntoldEnd: `
		WITH ends AS (
			SELECT id, account_id, callback_url, run, status, completed_at FROM examined WHERE completed_at IS NOT NULL
			UNION ALL
			SELECT j.id, j.account_id, j.callback_url, r.run, r.status, r.completed_at
			FROM examined j JOIN job_runs r ON r.job_id = j.id AND r.run < j.run),
		late AS (SELECT * FROM ends WHERE completed_at > clock_timestamp() - interval '29 days')
		SELECT 'job_' || j.id AS id FROM late j
		WHERE j.callback_url IS NOT NULL AND NOT EXISTS (
			SELECT FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id AND e.url IS NULL
			WHERE d.job_id = j.id AND d.run = j.run)
		UNION ALL
		SELECT 'job_' || j.id FROM late j JOIN webhook_endpoints e ON e.account_id = j.account_id AND e.url IS NOT NULL
		WHERE e.told_since < j.completed_at - interval '1 minute'
			AND coalesce(least(e.deleted_at, e.disabled_at), 'infinity') > j.completed_at + interval '1 minute'
			AND CASE WHEN e.format = 'STANDARD' THEN 'job.' || lower(j.status)
				WHEN j.status = 'COMPLETED' THEN 'video.completed' ELSE 'video.failed' END = ANY (e.events)
			AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.job_id = j.id AND d.run = j.run AND d.endpoint_id = e.id)`,
	StuckWebhook: `
		SELECT 'whd_' || d.id AS id FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id
		WHERE d.state = 'PENDING' AND d.next_attempt_at < clock_timestamp() - interval '10 minutes'
			AND e.failing_since IS NULL -- a failing endpoint gets few tries at a time
			AND NOT EXISTS (SELECT FROM webhook_deliveries o
				WHERE o.job_id = d.job_id AND o.endpoint_id = d.endpoint_id AND o.run < d.run AND o.state = 'PENDING')`,
}

// BoundStatements makes each later statement of the transaction fail after limit.
func BoundStatements(ctx context.Context, tx bun.Tx, limit time.Duration) error {
	_, err := tx.NewRaw("SELECT set_config('statement_timeout', '?', true)", limit.Milliseconds()).Exec(ctx)
	return err
}

// IsStatementTimeout reports whether a statement failed because it took too long.
func IsStatementTimeout(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "57014"
}

// IsUndefinedTable reports whether a statement failed because the schema lacks a table.
func IsUndefinedTable(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "42P01"
}
