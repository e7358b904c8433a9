package models

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// Hold is which attempt a worker holds, and the token that shows it.
type Hold struct {
	WorkerID  WorkerID
	AttemptID AttemptID
	Token     FencingToken
}

// LeaseBeat is one of many heartbeats. GPUUtilization may be nil: as before.
type LeaseBeat struct {
	Hold
	GPUUtilization []float64
	// Progress is the newest of the job, if the worker reports it; its UpdatedAt is not
	// read.
	Progress *Progress
}

// Thinning is how far a job's progress, or how late, is told by an event again.
type Thinning struct {
	Percent float64
	After   time.Duration
}

// Beat is a heartbeat's answer as PostgreSQL gives it.
type Beat struct {
	JobID             JobID
	LeaseExpiresAt    time.Time
	CancelRequestedAt time.Time
	CancelDeliveredAt time.Time
	CancelReason      string
	WorkerStatus      WorkerStatus
	DrainReason       string
	DrainDeadline     time.Time
	// Told is whether an event tells of the job's progress.
	Told bool
}

// aliveSQL is what a sign of life changes of a worker: a LOST one that speaks is
// IDLE again, or drains on.
const aliveSQL = `last_heartbeat_at = clock_timestamp(),
	idle_since = CASE WHEN w.status = 'LOST' THEN clock_timestamp() ELSE w.idle_since END,
	status = CASE WHEN w.status <> 'LOST' THEN w.status WHEN w.drain_reason IS NULL THEN 'IDLE' ELSE 'DRAINING' END`

// extendLeasesSQL locks all workers before any job, and all jobs, of those that report
// progress, before any attempt: each part counts the rows of the one before. Of their
// columns only the id is compared as an index has it, see prepared.
const extendLeasesSQL = `
	WITH beats AS MATERIALIZED (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[],
			$5::float8[], $6::text[], $7::text[], $8::integer[], $9::integer[], $10::integer[], $11::integer[], $12::float8[]) WITH ORDINALITY AS b (
			worker_id, id, token, gpus, percent, phase, message, step, total_steps, frame, total_frames, eta, place)),
	workers_held AS MATERIALIZED (
		SELECT w.id FROM workers w
		WHERE w.id = ANY ($1::uuid[])
		ORDER BY w.id FOR NO KEY UPDATE),
	reports AS MATERIALIZED (
		SELECT b.*, a.job_id FROM (SELECT * FROM beats WHERE (SELECT count(*) FROM workers_held) > 0 AND percent IS NOT NULL) b
		CROSS JOIN LATERAL (
			SELECT job_id FROM job_attempts
			WHERE id = b.id AND worker_id::text = b.worker_id::text AND fencing_token::text = b.token::text AND status || '' = 'RUNNING' OFFSET 0) a),
	jobs_held AS MATERIALIZED (
		SELECT id, run, event_seq, progress_event_at, progress_event_percent, cancel_requested_at, cancel_delivered_at, cancel_reason FROM jobs
		WHERE id = ANY (ARRAY(SELECT job_id FROM reports)) AND status || '' IN ('RUNNING', 'COMPLETING')
		ORDER BY id FOR NO KEY UPDATE),
	held AS MATERIALIZED (
		SELECT a.id FROM (
			SELECT * FROM beats WHERE (SELECT count(*) FROM workers_held) > 0 AND (SELECT count(*) FROM jobs_held) >= 0
			AND (percent IS NULL OR place = ANY (ARRAY(SELECT place FROM reports WHERE job_id = ANY (ARRAY(SELECT id FROM jobs_held)))))
			ORDER BY id) b
		CROSS JOIN LATERAL (
			SELECT id FROM job_attempts
			WHERE id = b.id AND worker_id::text = b.worker_id::text AND fencing_token::text = b.token::text AND status || '' = 'RUNNING'
			FOR NO KEY UPDATE OFFSET 0) a),
	clock AS MATERIALIZED (SELECT clock_timestamp() AS now WHERE (SELECT count(*) FROM held) >= 0),
	beat AS (
		UPDATE job_attempts a SET
			last_heartbeat_at = (SELECT now FROM clock),
			lease_expires_at = greatest(lease_expires_at, (SELECT now FROM clock) + make_interval(secs => $13))
		WHERE a.id = ANY (ARRAY(SELECT id FROM held))
		RETURNING a.id, a.job_id, a.worker_id, a.fencing_token, a.lease_expires_at),
	newest AS MATERIALIZED (
		SELECT DISTINCT ON (b.worker_id) b.worker_id, b.gpus FROM beats b JOIN beat ON beat.id = b.id AND beat.worker_id = b.worker_id
		ORDER BY b.worker_id, b.gpus IS NULL, b.place DESC),
	alive AS (
		UPDATE workers w SET ` + aliveSQL + `,
			gpu_utilization = coalesce((SELECT gpus::float8[] FROM newest WHERE worker_id = w.id), w.gpu_utilization)
		WHERE w.id = ANY (ARRAY(SELECT worker_id FROM newest)) AND w.status || '' <> 'TERMINATED'
		RETURNING w.id, w.status, w.drain_reason, w.drain_deadline),
	told AS MATERIALIZED (
		SELECT r.*, j.run, j.event_seq, coalesce(j.progress_event_percent IS NULL OR abs(r.percent - j.progress_event_percent) >= $14
			OR (SELECT now FROM clock) >= j.progress_event_at + make_interval(secs => $15), true) AS due
		FROM (SELECT DISTINCT ON (job_id) * FROM reports WHERE id = ANY (ARRAY(SELECT id FROM beat)) ORDER BY job_id, place DESC) r
		JOIN jobs_held j ON j.id = r.job_id),
	progressed AS (
		UPDATE jobs j SET (
			percent, phase, progress_message, step, total_steps, frame, total_frames, eta_seconds, progress_at,
			event_seq, progress_event_at, progress_event_percent) = (
			SELECT percent, phase, message, step, total_steps, frame, total_frames, eta, now,
				j.event_seq + due::integer, CASE WHEN due THEN now ELSE j.progress_event_at END, CASE WHEN due THEN percent ELSE j.progress_event_percent END
			FROM told, clock WHERE job_id = j.id)
		WHERE j.id = ANY (ARRAY(SELECT job_id FROM told))),
	events AS (
		INSERT INTO job_events (job_id, seq, run, attempt_id, type, payload, created_at)
		SELECT job_id, event_seq + 1, run, id, 'PROGRESS', jsonb_build_object('percent', percent, 'phase', phase, 'message', coalesce(message, '')), now
		FROM told, clock WHERE due)
	SELECT beat.worker_id, beat.id, beat.fencing_token, beat.job_id, beat.lease_expires_at,
		j.cancel_requested_at, j.cancel_delivered_at, j.cancel_reason,
		alive.status, alive.drain_reason, alive.drain_deadline,
		EXISTS (SELECT FROM told WHERE job_id = beat.job_id AND due)
	FROM beat JOIN alive ON alive.id = beat.worker_id
	CROSS JOIN LATERAL (
		SELECT cancel_requested_at, cancel_delivered_at, cancel_reason FROM jobs_held WHERE id = beat.job_id
		UNION ALL
		SELECT cancel_requested_at, cancel_delivered_at, cancel_reason FROM jobs
		WHERE id = beat.job_id AND NOT EXISTS (SELECT FROM jobs_held WHERE id = beat.job_id) OFFSET 0) j`

// ExtendLeases restarts the leases of those attempts that are RUNNING and held by
// that worker under that token, notes that sign of their workers' life with the
// newest of each one's samples, keeps the newest progress that is reported of each job
// that is RUNNING or COMPLETING, with an event of it by thinning, and returns what it
// extended. It locks them in the order of locks.
func ExtendLeases(ctx context.Context, db bun.IDB, beats []LeaseBeat, ttl time.Duration, thin Thinning) (map[Hold]*Beat, error) {
	extended := make(map[Hold]*Beat, len(beats))
	reports := make([]Progress, len(beats))
	for i, b := range beats {
		if b.Progress != nil {
			reports[i] = *b.Progress
		}
	}
	rows, err := prepared(ctx, db, extendLeasesSQL,
		column(beats, func(b LeaseBeat) *[16]byte { return uuidOf(b.WorkerID) }),
		column(beats, func(b LeaseBeat) *[16]byte { return uuidOf(b.AttemptID) }),
		column(beats, func(b LeaseBeat) *[16]byte { return uuidOf(b.Token) }),
		column(beats, func(b LeaseBeat) *string { return nullable(floatsText(b.GPUUtilization)) }),
		column(beats, func(b LeaseBeat) *float64 {
			if b.Progress == nil {
				return nil
			}
			return &b.Progress.Percent
		}),
		column(reports, func(p Progress) string { return string(p.Phase) }),
		column(reports, func(p Progress) *string { return nullable(p.Message) }),
		column(reports, func(p Progress) *int { return p.Step }),
		column(reports, func(p Progress) *int { return p.TotalSteps }),
		column(reports, func(p Progress) *int { return p.Frame }),
		column(reports, func(p Progress) *int { return p.TotalFrames }),
		column(reports, func(p Progress) *float64 { return p.ETASeconds }),
		ttl.Seconds(), thin.Percent, thin.After.Seconds())
	err = scan(rows, err, func(rows *sql.Rows) error {
		var hold Hold
		var b Beat
		var cancelRequested, cancelDelivered, deadline sql.NullTime
		var cancelReason, drainReason sql.NullString
		err := rows.Scan(&hold.WorkerID, &hold.AttemptID, &hold.Token, &b.JobID, &b.LeaseExpiresAt,
			&cancelRequested, &cancelDelivered, &cancelReason, &b.WorkerStatus, &drainReason, &deadline, &b.Told)
		b.CancelRequestedAt, b.CancelDeliveredAt, b.DrainDeadline = cancelRequested.Time, cancelDelivered.Time, deadline.Time
		b.CancelReason, b.DrainReason = cancelReason.String, drainReason.String
		extended[hold] = &b
		return err
	})
	return extended, err
}

// Touch is a sign of a worker's life. Warm may be nil: as before.
type Touch struct {
	WorkerID WorkerID
	Warm     []string
}

const touchWorkersSQL = `
	WITH signs AS MATERIALIZED (SELECT * FROM unnest($1::uuid[], $2::text[]) AS s (id, warm)),
	touched AS MATERIALIZED (
		SELECT w.id FROM workers w
		WHERE w.id = ANY ($1::uuid[]) AND w.status || '' <> 'TERMINATED' AND (w.status = 'LOST'
				OR (SELECT warm::text[] FROM signs WHERE signs.id = w.id) <> w.warm_models
				OR w.last_heartbeat_at > clock_timestamp() - interval '5 seconds' IS NOT TRUE)
		ORDER BY w.id FOR NO KEY UPDATE),
	written AS (
		UPDATE workers w SET ` + aliveSQL + `,
			warm_models = coalesce((SELECT warm::text[] FROM signs WHERE signs.id = w.id), w.warm_models)
		WHERE w.id = ANY (ARRAY(SELECT id FROM touched))
		RETURNING w.*)
	SELECT %[1]s FROM written w
	UNION ALL SELECT %[1]s FROM workers w WHERE w.id = ANY ($1::uuid[]) AND w.id <> ALL (ARRAY(SELECT id FROM touched))`

// TouchWorkers notes signs of workers' life, each of which is there once, and what
// they hold warm, and returns the workers: of a sign that is hardly newer than the
// last, nothing is written.
func TouchWorkers(ctx context.Context, db bun.IDB, touches []Touch) ([]*Worker, error) {
	return readRows[Worker](ctx, db, fmt.Sprintf(touchWorkersSQL, columnsSQL(tableOf[Worker](db))),
		column(touches, func(t Touch) *[16]byte { return uuidOf(t.WorkerID) }),
		column(touches, func(t Touch) *string {
			if t.Warm == nil {
				return nil
			}
			return new(stringsText(t.Warm))
		}))
}
