package models

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// GetAttempts returns attempts, in no order; one that is not there is not among
// them.
func GetAttempts(ctx context.Context, db bun.IDB, ids []AttemptID) ([]*Attempt, error) {
	return rowsOf[Attempt](ctx, db, "WHERE a.id = ANY ($1::uuid[])", column(ids, uuidOf))
}

// beginLockingSQL is for the first statement of a transaction that locks a batch of
// rows: no wait for a lock is longer than $1 milliseconds from there to its end (0
// is any wait), and its prepared statements take their rows by index, even if they
// were planned when there were hardly any.
const beginLockingSQL = `(SELECT count(set_config(name, value, true)) FROM (VALUES
	('lock_timeout', $1), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off')) AS s (name, value)) > 0`

// BeginLocking begins a transaction that locks a batch of rows, but not those of
// accounts. From here to its end no wait for a lock is longer than patience, or the
// statement fails as IsLockTimeout says; 0 is any wait.
func BeginLocking(ctx context.Context, tx bun.Tx, patience time.Duration) error {
	rows, err := prepared(ctx, tx, "SELECT "+beginLockingSQL, milliseconds(patience))
	return scan(rows, err, func(*sql.Rows) error { return nil })
}

func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// LockAccountsOf is BeginLocking, and keeps the accounts of jobs still until the
// transaction ends.
func LockAccountsOf(ctx context.Context, tx bun.Tx, jobs []JobID, patience time.Duration) error {
	rows, err := prepared(ctx, tx, `
		SELECT FROM accounts
		WHERE id IN (SELECT account_id FROM jobs WHERE id = ANY ($2::uuid[])) AND `+beginLockingSQL+`
		ORDER BY id FOR NO KEY UPDATE`, milliseconds(patience), column(jobs, uuidOf))
	return scan(rows, err, func(*sql.Rows) error { return nil })
}

// LockAccountsToRun is BeginLocking, locks accounts in the order of their ids, and
// returns how many jobs more each may run.
func LockAccountsToRun(ctx context.Context, tx bun.Tx, ids []AccountID, patience time.Duration) (map[AccountID]int, error) {
	room := make(map[AccountID]int, len(ids))
	rows, err := prepared(ctx, tx, `
		SELECT id, max_running - running FROM accounts
		WHERE id = ANY ($2::uuid[]) AND `+beginLockingSQL+`
		ORDER BY id FOR NO KEY UPDATE`, milliseconds(patience), column(ids, uuidOf))
	err = scan(rows, err, func(rows *sql.Rows) error {
		var id AccountID
		var more int
		err := rows.Scan(&id, &more)
		room[id] = more
		return err
	})
	return room, err
}

// LockQueuedJobs is LockJobs for those that are still QUEUED and that nobody else
// is leasing; the others are not in the answer. The condition is such that it
// speaks for no index: those of all queued jobs are small until there is a burst.
func LockQueuedJobs(ctx context.Context, tx bun.Tx, ids []JobID) ([]*Job, error) {
	return rowsOf[Job](ctx, tx, "WHERE j.id = ANY ($1::uuid[]) AND j.status || '' = 'QUEUED' ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED", column(ids, uuidOf))
}

// LockWorkers is LockWorker for many, in the order of their ids.
func LockWorkers(ctx context.Context, tx bun.Tx, ids []WorkerID) ([]*Worker, error) {
	return rowsOf[Worker](ctx, tx, "WHERE w.id = ANY ($1::uuid[]) ORDER BY w.id FOR NO KEY UPDATE", column(ids, uuidOf))
}

// LockJobs is LockJob for many, in the order of their ids.
func LockJobs(ctx context.Context, tx bun.Tx, ids []JobID) ([]*Job, error) {
	return rowsOf[Job](ctx, tx, "WHERE j.id = ANY ($1::uuid[]) ORDER BY j.id FOR NO KEY UPDATE", column(ids, uuidOf))
}

// LockAttempts returns attempts, in the order of their ids, and keeps them still
// until the transaction ends.
func LockAttempts(ctx context.Context, tx bun.Tx, ids []AttemptID) ([]*Attempt, error) {
	return rowsOf[Attempt](ctx, tx, "WHERE a.id = ANY ($1::uuid[]) ORDER BY a.id FOR NO KEY UPDATE", column(ids, uuidOf))
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
func ListAwaited(ctx context.Context, db bun.IDB, jobs []JobID) (awaited []JobID, err error) {
	rows, err := prepared(ctx, db, "SELECT DISTINCT depends_on FROM job_dependencies WHERE depends_on = ANY ($1::uuid[])", column(jobs, uuidOf))
	err = scan(rows, err, func(rows *sql.Rows) error {
		var id JobID
		err := rows.Scan(&id)
		awaited = append(awaited, id)
		return err
	})
	return awaited, err
}
