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
}

// aliveSQL is what a sign of life changes of a worker: a LOST one that speaks is
// IDLE again, or drains on.
const aliveSQL = `last_heartbeat_at = clock_timestamp(),
	idle_since = CASE WHEN w.status = 'LOST' THEN clock_timestamp() ELSE w.idle_since END,
	status = CASE WHEN w.status <> 'LOST' THEN w.status WHEN w.drain_reason IS NULL THEN 'IDLE' ELSE 'DRAINING' END`

// extendLeasesSQL locks all workers before any attempt: it counts them first. Of an
// attempt's and a worker's columns only the id is compared as an index has it, see
// prepared.
const extendLeasesSQL = `
	WITH beats AS (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[]) WITH ORDINALITY AS b (worker_id, id, token, gpus, place)),
	workers_held AS MATERIALIZED (
		SELECT w.id FROM workers w
		WHERE w.id = ANY ($1::uuid[]) AND (SELECT set_config('lock_timeout', $6, true)) IS NOT NULL
		ORDER BY w.id FOR NO KEY UPDATE),
	held AS MATERIALIZED (
		SELECT a.id FROM (SELECT * FROM beats WHERE (SELECT count(*) FROM workers_held) > 0 ORDER BY id) b
		CROSS JOIN LATERAL (
			SELECT id FROM job_attempts
			WHERE id = b.id AND worker_id::text = b.worker_id::text AND fencing_token::text = b.token::text AND status || '' = 'RUNNING'
			FOR NO KEY UPDATE OFFSET 0) a),
	beat AS (
		UPDATE job_attempts a SET
			last_heartbeat_at = clock_timestamp(),
			lease_expires_at = greatest(lease_expires_at, clock_timestamp() + make_interval(secs => $5))
		WHERE a.id = ANY (ARRAY(SELECT id FROM held))
		RETURNING a.id, a.job_id, a.worker_id, a.fencing_token, a.lease_expires_at),
	newest AS MATERIALIZED (
		SELECT DISTINCT ON (b.worker_id) b.worker_id, b.gpus FROM beats b JOIN beat ON beat.id = b.id AND beat.worker_id = b.worker_id
		ORDER BY b.worker_id, b.place DESC),
	alive AS (
		UPDATE workers w SET ` + aliveSQL + `,
			gpu_utilization = coalesce((SELECT gpus::float8[] FROM newest WHERE worker_id = w.id), w.gpu_utilization)
		WHERE w.id = ANY (ARRAY(SELECT worker_id FROM newest)) AND w.status || '' <> 'TERMINATED'
		RETURNING w.id, w.status, w.drain_reason, w.drain_deadline)
	SELECT beat.worker_id, beat.id, beat.fencing_token, beat.job_id, beat.lease_expires_at,
		j.cancel_requested_at, j.cancel_delivered_at, j.cancel_reason,
		alive.status, alive.drain_reason, alive.drain_deadline
	FROM beat JOIN alive ON alive.id = beat.worker_id
	CROSS JOIN LATERAL (
		SELECT cancel_requested_at, cancel_delivered_at, cancel_reason FROM jobs WHERE id = beat.job_id OFFSET 0) j`

// ExtendLeases restarts the leases of those attempts that are RUNNING and held by
// that worker under that token, notes that sign of their workers' life with the
// newest of each one's samples, and returns what it extended. It locks them in the
// order of locks; if a wait for one is longer than patience, it fails as
// IsLockTimeout says; 0 is any wait.
func ExtendLeases(ctx context.Context, db bun.IDB, beats []LeaseBeat, ttl, patience time.Duration) (map[Hold]*Beat, error) {
	extended := make(map[Hold]*Beat, len(beats))
	rows, err := prepared(ctx, db, extendLeasesSQL,
		column(beats, func(b LeaseBeat) *[16]byte { return uuidOf(b.WorkerID) }),
		column(beats, func(b LeaseBeat) *[16]byte { return uuidOf(b.AttemptID) }),
		column(beats, func(b LeaseBeat) *[16]byte { return uuidOf(b.Token) }),
		column(beats, func(b LeaseBeat) *string { return nullable(floatsText(b.GPUUtilization)) }),
		ttl.Seconds(), milliseconds(patience))
	err = scan(rows, err, func(rows *sql.Rows) error {
		var hold Hold
		var b Beat
		var cancelRequested, cancelDelivered, deadline sql.NullTime
		var cancelReason, drainReason sql.NullString
		err := rows.Scan(&hold.WorkerID, &hold.AttemptID, &hold.Token, &b.JobID, &b.LeaseExpiresAt,
			&cancelRequested, &cancelDelivered, &cancelReason, &b.WorkerStatus, &drainReason, &deadline)
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
			AND (SELECT set_config('lock_timeout', $3, true)) IS NOT NULL
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
// last, nothing is written. If a wait for a row is longer than patience, it fails as
// IsLockTimeout says; 0 is any wait.
func TouchWorkers(ctx context.Context, db bun.IDB, touches []Touch, patience time.Duration) ([]*Worker, error) {
	return readRows[Worker](ctx, db, fmt.Sprintf(touchWorkersSQL, columnsSQL(tableOf[Worker](db))),
		column(touches, func(t Touch) *[16]byte { return uuidOf(t.WorkerID) }),
		column(touches, func(t Touch) *string {
			if t.Warm == nil {
				return nil
			}
			return new(stringsText(t.Warm))
		}), milliseconds(patience))
}
