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

// Locking is how a transaction locks a batch of rows.
type Locking struct {
	// Accounts says to lock the accounts of the jobs as well, before all else. Without,
	// whatever the counters of an account decide is known only when they are written.
	Accounts bool
	// Patience bounds each wait for a lock, to the end of the transaction: a longer one
	// fails as IsLockTimeout says. 0 is any wait.
	Patience time.Duration
}

func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// Pick is a job, of an account, that a worker may get.
type Pick struct {
	AccountID AccountID
	WorkerID  WorkerID
	JobID     JobID
}

// Picked are a pick's rows. Worker and Job are nil where there is none, and Job also
// where it is QUEUED no longer or somebody else is leasing it.
type Picked struct {
	// Room is how many jobs more the account may run; nil if there is no such one.
	Room   *int
	Worker *Worker
	Job    *Job
}

// lockPicksSQL locks in the order of locks, each kind in the order of ids. The
// condition on the status is such that it speaks for no index: those of all queued
// jobs are small until there is a burst.
const lockPicksSQL = `
	WITH room AS MATERIALIZED (
		SELECT id, max_running - running AS more FROM accounts
		WHERE id = ANY (CASE WHEN $5 THEN $2::uuid[] ELSE '{}' END) AND ` + beginLockingSQL + `
		ORDER BY id FOR NO KEY UPDATE),
	w AS MATERIALIZED (
		SELECT * FROM workers
		WHERE id = ANY (ARRAY(SELECT unnest($3::uuid[]) WHERE (SELECT count(*) FROM room) >= 0))
		ORDER BY id FOR NO KEY UPDATE),
	j AS MATERIALIZED (
		SELECT * FROM jobs
		WHERE id = ANY (ARRAY(SELECT unnest($4::uuid[]) WHERE (SELECT count(*) FROM w) >= 0)) AND status || '' = 'QUEUED'
		ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
	SELECT (SELECT clock_timestamp() WHERE (SELECT count(*) FROM j) >= 0), p.place - 1,
		coalesce(room.more, (SELECT max_running - running FROM accounts WHERE id = p.account_id OFFSET 0)), %s, %s
	FROM unnest($2::uuid[], $3::uuid[], $4::uuid[]) WITH ORDINALITY AS p (account_id, worker_id, job_id, place)
	LEFT JOIN room ON room.id = p.account_id LEFT JOIN w ON w.id = p.worker_id LEFT JOIN j ON j.id = p.job_id`

// LockPicks locks the rows of picks, and returns them, in the order of the picks,
// with PostgreSQL's clock after that.
func LockPicks(ctx context.Context, tx bun.Tx, picks []Pick, how Locking) (now time.Time, all []Picked, err error) {
	workers, jobs := cellsOf[Worker](tx), cellsOf[Job](tx)
	all = make([]Picked, len(picks))
	var place int
	var room *int
	into := jobs.add(workers.add([]any{&now, &place, &room}))
	rows, err := prepared(ctx, tx, fmt.Sprintf(lockPicksSQL, columnsSQL(tableOf[Worker](tx)), columnsSQL(tableOf[Job](tx))),
		milliseconds(how.Patience),
		column(picks, func(p Pick) *[16]byte { return uuidOf(p.AccountID) }),
		column(picks, func(p Pick) *[16]byte { return uuidOf(p.WorkerID) }),
		column(picks, func(p Pick) *[16]byte { return uuidOf(p.JobID) }),
		how.Accounts)
	err = scan(rows, err, func(rows *sql.Rows) error {
		w, j := new(Worker), new(Job)
		workers.fill(w)
		jobs.fill(j)
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if w.ID == "" {
			w = nil
		}
		if j.ID == "" {
			j = nil
		}
		all[place] = Picked{room, w, j}
		return nil
	})
	return now, all, err
}

// Held is a lease with every row of it.
type Held struct {
	Worker  *Worker
	Job     *Job
	Attempt *Attempt
	// Awaited tells that others depend on the job, and Heard that its account may want
	// to hear of its end: not of whoever came while the rows were waited for. Both are
	// looked for only if the jobs are to end.
	Awaited, Heard bool
}

// lockHeldSQL locks in the order of locks, each kind in the order of ids: each part
// counts the rows of the one before. Of an attempt's columns only its id is compared
// as an index has it, see prepared; OFFSET 0 has a row be looked for by index, and not in
// a table of them all. The clock is read once all is locked.
const lockHeldSQL = `
	WITH asked AS MATERIALIZED (
		SELECT a.id, a.worker_id, a.job_id FROM unnest($2::uuid[], $3::uuid[], $4::uuid[]) AS f (id, worker_id, token)
		CROSS JOIN LATERAL (
			SELECT id, worker_id, job_id FROM job_attempts
			WHERE id = f.id AND worker_id::text = f.worker_id::text AND fencing_token::text = f.token::text
				AND status || '' IN ('LEASED', 'RUNNING') OFFSET 0) a
		WHERE ` + beginLockingSQL + `),
	accounts_held AS MATERIALIZED (
		SELECT FROM accounts
		WHERE id = ANY (ARRAY(SELECT account_id FROM jobs WHERE $5 AND id = ANY (ARRAY(SELECT job_id FROM asked))))
		ORDER BY id FOR NO KEY UPDATE),
	w AS MATERIALIZED (
		SELECT * FROM workers
		WHERE id = ANY (ARRAY(SELECT worker_id FROM asked WHERE (SELECT count(*) FROM accounts_held) >= 0))
		ORDER BY id FOR NO KEY UPDATE),
	j AS MATERIALIZED (
		SELECT * FROM jobs
		WHERE id = ANY (ARRAY(SELECT job_id FROM asked WHERE (SELECT count(*) FROM w) >= 0))
		ORDER BY id FOR NO KEY UPDATE),
	a AS MATERIALIZED (
		SELECT * FROM job_attempts
		WHERE id = ANY (ARRAY(SELECT id FROM asked WHERE (SELECT count(*) FROM j) >= 0))
		ORDER BY id FOR NO KEY UPDATE)
	SELECT (SELECT clock_timestamp() WHERE (SELECT count(*) FROM a) >= 0),
		$6 AND EXISTS (SELECT FROM job_dependencies d WHERE d.depends_on = j.id OFFSET 0),
		$6 AND EXISTS (SELECT FROM webhook_endpoints e WHERE e.account_id = j.account_id AND e.deleted_at IS NULL OFFSET 0),
		%s, %s, %s
	FROM a JOIN w ON w.id = a.worker_id JOIN j ON j.id = a.job_id`

// LockHeld locks all rows of the leases that these workers hold under these tokens,
// and returns them with PostgreSQL's clock after that; ends tells that their jobs may
// end. Leases that are over are not among them, but one that ended while its rows were
// waited for is.
func LockHeld(ctx context.Context, tx bun.Tx, holds []Hold, ends bool, how Locking) (now time.Time, all []Held, err error) {
	workers, jobs, attempts := cellsOf[Worker](tx), cellsOf[Job](tx), cellsOf[Attempt](tx)
	var awaited, heard bool
	into := attempts.add(jobs.add(workers.add([]any{&now, &awaited, &heard})))
	rows, err := prepared(ctx, tx,
		fmt.Sprintf(lockHeldSQL, columnsSQL(tableOf[Worker](tx)), columnsSQL(tableOf[Job](tx)), columnsSQL(tableOf[Attempt](tx))),
		milliseconds(how.Patience),
		column(holds, func(h Hold) *[16]byte { return uuidOf(h.AttemptID) }),
		column(holds, func(h Hold) *[16]byte { return uuidOf(h.WorkerID) }),
		column(holds, func(h Hold) *[16]byte { return uuidOf(h.Token) }),
		how.Accounts, ends)
	err = scan(rows, err, func(rows *sql.Rows) error {
		h := Held{Worker: new(Worker), Job: new(Job), Attempt: new(Attempt)}
		workers.fill(h.Worker)
		jobs.fill(h.Job)
		attempts.fill(h.Attempt)
		err := rows.Scan(into...)
		h.Awaited, h.Heard = awaited, heard
		all = append(all, h)
		return err
	})
	return now, all, err
}
