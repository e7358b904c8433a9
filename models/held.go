package models

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"
)

// GetAttempts returns attempts, in no order; one that is not there is not among
// them.
func GetAttempts(ctx context.Context, db bun.IDB, ids []AttemptID) ([]*Attempt, error) {
	var found []*Attempt
	err := db.NewSelect().Model(&found).Where("a.id IN (?)", bun.List(ids)).Scan(ctx)
	return found, err
}

// BePatient bounds each wait for a lock until the transaction ends: the statement
// fails as IsLockTimeout says.
func BePatient(ctx context.Context, tx bun.Tx, patience time.Duration) error {
	_, err := tx.NewRaw("SELECT set_config('lock_timeout', ?, true)", fmt.Sprint(patience.Milliseconds())).Exec(ctx)
	return err
}

// LockAccountsOf keeps the accounts of jobs still until the transaction ends.
func LockAccountsOf(ctx context.Context, tx bun.Tx, jobs []JobID) error {
	_, err := tx.NewRaw(`
		SELECT FROM accounts WHERE id IN (SELECT account_id FROM jobs WHERE id IN (?))
		ORDER BY id FOR NO KEY UPDATE`, bun.List(jobs)).Exec(ctx)
	return err
}

// LockAccountsToRun locks accounts in the order of their ids, and returns how many
// jobs more each may run.
func LockAccountsToRun(ctx context.Context, tx bun.Tx, ids []AccountID) (map[AccountID]int, error) {
	var locked []struct {
		ID   AccountID `bun:"id"`
		Room int       `bun:"room"`
	}
	err := tx.NewRaw("SELECT id, max_running - running AS room FROM accounts WHERE id IN (?) ORDER BY id FOR NO KEY UPDATE", bun.List(ids)).
		Scan(ctx, &locked)
	room := make(map[AccountID]int, len(locked))
	for _, a := range locked {
		room[a.ID] = a.Room
	}
	return room, err
}

// LockQueuedJobs is LockQueuedJob for many: those that are not to be had are not
// in the answer.
func LockQueuedJobs(ctx context.Context, tx bun.Tx, ids []JobID) ([]*Job, error) {
	var found []*Job
	err := tx.NewSelect().Model(&found).Where("j.id IN (?) AND j.status = 'QUEUED'", bun.List(ids)).
		Order("j.id").For("NO KEY UPDATE SKIP LOCKED").Scan(ctx)
	return found, err
}

// LockWorkers is LockWorker for many, in the order of their ids.
func LockWorkers(ctx context.Context, tx bun.Tx, ids []WorkerID) ([]*Worker, error) {
	var found []*Worker
	err := tx.NewSelect().Model(&found).Where("w.id IN (?)", bun.List(ids)).Order("w.id").For("NO KEY UPDATE").Scan(ctx)
	return found, err
}

// LockJobs is LockJob for many, in the order of their ids.
func LockJobs(ctx context.Context, tx bun.Tx, ids []JobID) ([]*Job, error) {
	var found []*Job
	err := tx.NewSelect().Model(&found).Where("j.id IN (?)", bun.List(ids)).Order("j.id").For("NO KEY UPDATE").Scan(ctx)
	return found, err
}

// LockAttempts returns attempts, in the order of their ids, and keeps them still
// until the transaction ends.
func LockAttempts(ctx context.Context, tx bun.Tx, ids []AttemptID) ([]*Attempt, error) {
	var found []*Attempt
	err := tx.NewSelect().Model(&found).Where("a.id IN (?)", bun.List(ids)).Order("a.id").For("NO KEY UPDATE").Scan(ctx)
	return found, err
}

// UpdateWorkers writes what changed of locked workers, or returns sql.ErrNoRows
// if one is in another state than when it was locked.
func UpdateWorkers(ctx context.Context, tx bun.Tx, rows []Changed[Worker]) error {
	return updateAll(ctx, tx, rows, "status")
}

// UpdateAttempts writes what changed of locked attempts, or returns sql.ErrNoRows
// if one is over or has another token.
func UpdateAttempts(ctx context.Context, tx bun.Tx, rows []Changed[Attempt]) error {
	return updateAll(ctx, tx, rows, "fencing_token", "ended_at")
}

// UpdateJobs writes what changed of locked jobs, or returns sql.ErrNoRows if one
// is in another state than when it was locked.
func UpdateJobs(ctx context.Context, tx bun.Tx, rows []Changed[Job]) error {
	return updateAll(ctx, tx, rows, "status")
}

// ListAwaited returns those of the jobs that others depend on.
func ListAwaited(ctx context.Context, db bun.IDB, jobs []JobID) ([]JobID, error) {
	var awaited []JobID
	err := db.NewRaw("SELECT DISTINCT depends_on FROM job_dependencies WHERE depends_on IN (?)", bun.List(jobs)).Scan(ctx, &awaited)
	return awaited, err
}

// Hold is which attempt a worker holds, and the token that shows it.
type Hold struct {
	WorkerID  WorkerID     `bun:"worker_id"`
	AttemptID AttemptID    `bun:"attempt_id"`
	Token     FencingToken `bun:"fencing_token"`
}

// LeaseBeat is one of many heartbeats. GPUUtilization may be nil: as before.
type LeaseBeat struct {
	Hold
	GPUUtilization []float64
}

// ExtendLeases restarts the leases of those attempts that are RUNNING and held by
// that worker under that token, and returns what it extended.
func ExtendLeases(ctx context.Context, db bun.IDB, beats []LeaseBeat, ttl time.Duration) (map[Hold]*Beat, error) {
	var workers []WorkerID
	var attempts []AttemptID
	var tokens []FencingToken
	for _, b := range beats {
		workers, attempts, tokens = append(workers, b.WorkerID), append(attempts, b.AttemptID), append(tokens, b.Token)
	}
	var found []*Beat
	err := db.NewRaw(`
		WITH held AS (
			SELECT a.id FROM job_attempts a
			JOIN unnest(?::uuid[], ?::uuid[], ?::uuid[]) AS b (id, worker_id, token)
				ON a.id = b.id AND a.worker_id = b.worker_id AND a.fencing_token = b.token
			WHERE a.status = 'RUNNING' ORDER BY a.id FOR NO KEY UPDATE OF a),
		beat AS (
			UPDATE job_attempts a SET
				last_heartbeat_at = clock_timestamp(),
				lease_expires_at = greatest(lease_expires_at, clock_timestamp() + make_interval(secs => ?))
			FROM held WHERE a.id = held.id
			RETURNING a.id, a.job_id, a.worker_id, a.fencing_token, a.lease_expires_at)
		SELECT beat.id AS attempt_id, beat.worker_id, beat.fencing_token, beat.job_id, beat.lease_expires_at,
			j.cancel_requested_at, j.cancel_delivered_at, j.cancel_reason,
			w.status AS worker_status, w.drain_reason, w.drain_deadline
		FROM beat JOIN jobs j ON j.id = beat.job_id JOIN workers w ON w.id = beat.worker_id`,
		uuidArray(attempts), uuidArray(workers), textArray(tokens), ttl.Seconds()).Scan(ctx, &found)
	extended := make(map[Hold]*Beat, len(found))
	for _, b := range found {
		extended[b.Hold] = b
	}
	return extended, err
}

// TouchWorkers is TouchWorker for those that sent heartbeats, each of which is
// there once.
func TouchWorkers(ctx context.Context, db bun.IDB, beats []LeaseBeat) error {
	var workers []WorkerID
	var samples []string // each an array, or empty
	for _, b := range beats {
		workers, samples = append(workers, b.WorkerID), append(samples, floatsText(b.GPUUtilization))
	}
	_, err := db.NewRaw(`
		WITH alive AS (
			SELECT w.id, b.gpus FROM workers w JOIN unnest(?::uuid[], ?::text[]) AS b (id, gpus) ON w.id = b.id
			WHERE w.status <> 'TERMINATED' ORDER BY w.id FOR NO KEY UPDATE OF w)
		UPDATE workers w SET
			last_heartbeat_at = clock_timestamp(),
			gpu_utilization = coalesce(nullif(alive.gpus, '')::float8[], w.gpu_utilization),
			idle_since = CASE WHEN w.status = 'LOST' THEN clock_timestamp() ELSE w.idle_since END,
			status = CASE WHEN w.status <> 'LOST' THEN w.status WHEN w.drain_reason IS NULL THEN 'IDLE' ELSE 'DRAINING' END
		FROM alive WHERE w.id = alive.id`, uuidArray(workers), textArray(samples)).Exec(ctx)
	return err
}

// floatsText is an array as PostgreSQL reads it, or empty for nil.
func floatsText(values []float64) string {
	if values == nil {
		return ""
	}
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return "{" + strings.Join(parts, ",") + "}"
}
