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

// byIndexSQL is for the first statement of a transaction over a batch of rows: until its
// end, prepared statements take their rows by index, even if they were planned when the
// tables were nearly empty.
const byIndexSQL = `(SELECT count(set_config(name, 'off', true)) FROM (VALUES ('enable_hashjoin'), ('enable_mergejoin')) AS s (name)) > 0`

// Pick is a job, of an account, that a worker may get.
type Pick struct {
	AccountID AccountID
	WorkerID  WorkerID
	JobID     JobID
}

// Picked are a pick's rows. Worker and Job are nil where there is none, and Job also
// where it is QUEUED no longer or somebody else is leasing it.
type Picked struct {
	// Room is how many more jobs the account may run, as it was read; nil if there is no
	// such account.
	Room   *int
	Worker *Worker
	Job    *Job
}

// lockPicksSQL locks workers, then jobs, each in the order of their ids. The condition on
// the status matches no index on purpose: those of all queued jobs are small until there
// is a burst.
const lockPicksSQL = `
	WITH w AS MATERIALIZED (
		SELECT * FROM workers
		WHERE id = ANY ($2::uuid[]) AND ` + byIndexSQL + `
		ORDER BY id FOR NO KEY UPDATE),
	j AS MATERIALIZED (
		SELECT * FROM jobs
		WHERE id = ANY (ARRAY(SELECT unnest($3::uuid[]) WHERE (SELECT count(*) FROM w) >= 0)) AND status || '' = 'QUEUED'
		ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
	SELECT (SELECT clock_timestamp() WHERE (SELECT count(*) FROM j) >= 0), p.place - 1,
		(SELECT max_running - running FROM accounts WHERE id = p.account_id OFFSET 0), %s, %s
	FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS p (account_id, worker_id, job_id, place)
	LEFT JOIN w ON w.id = p.worker_id LEFT JOIN j ON j.id = p.job_id`

// LockPicks locks the workers and jobs of picks, and returns them in the order of the
// picks, with PostgreSQL's clock after that. Accounts are read, not locked: Write
// decides whether there is room.
func LockPicks(ctx context.Context, tx bun.Tx, picks []Pick) (now time.Time, all []Picked, err error) {
	workers, jobs := cellsOf[Worker](tx), cellsOf[Job](tx)
	all = make([]Picked, len(picks))
	var place int
	var room *int
	into := jobs.add(workers.add([]any{&now, &place, &room}))
	rows, err := prepared(ctx, tx, fmt.Sprintf(lockPicksSQL, columnsSQL(tableOf[Worker](tx)), columnsSQL(tableOf[Job](tx))),
		column(picks, func(p Pick) *[16]byte { return uuidOf(p.AccountID) }),
		column(picks, func(p Pick) *[16]byte { return uuidOf(p.WorkerID) }),
		column(picks, func(p Pick) *[16]byte { return uuidOf(p.JobID) }))
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
}

// lockHeldSQL locks workers, then jobs, then attempts, each in the order of their ids:
// each part counts the rows of the one before. Of an attempt's columns only its id is
// compared as an index has it, see prepared; OFFSET 0 makes PostgreSQL look up each row
// by index. The clock is read once all is locked.
const lockHeldSQL = `
	WITH asked AS MATERIALIZED (
		SELECT a.id, a.worker_id, a.job_id FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS f (id, worker_id, token)
		CROSS JOIN LATERAL (
			SELECT id, worker_id, job_id FROM job_attempts
			WHERE id = f.id AND worker_id::text = f.worker_id::text AND fencing_token::text = f.token::text
				AND status || '' IN ('LEASED', 'RUNNING') OFFSET 0) a
		WHERE ` + byIndexSQL + `),
	w AS MATERIALIZED (
		SELECT * FROM workers
		WHERE id = ANY (ARRAY(SELECT worker_id FROM asked))
		ORDER BY id FOR NO KEY UPDATE),
	j AS MATERIALIZED (
		SELECT * FROM jobs
		WHERE id = ANY (ARRAY(SELECT job_id FROM asked WHERE (SELECT count(*) FROM w) >= 0))
		ORDER BY id FOR NO KEY UPDATE),
	a AS MATERIALIZED (
		SELECT * FROM job_attempts
		WHERE id = ANY (ARRAY(SELECT id FROM asked WHERE (SELECT count(*) FROM j) >= 0))
		ORDER BY id FOR NO KEY UPDATE)
	SELECT (SELECT clock_timestamp() WHERE (SELECT count(*) FROM a) >= 0), %s, %s, %s
	FROM a JOIN w ON w.id = a.worker_id JOIN j ON j.id = a.job_id`

// LockHeld locks all rows of the leases that these workers hold under these tokens, and
// returns them with PostgreSQL's clock after that. Leases that are over are not among
// them, but one that ended while its rows were waited for is.
func LockHeld(ctx context.Context, tx bun.Tx, holds []Hold) (now time.Time, all []Held, err error) {
	workers, jobs, attempts := cellsOf[Worker](tx), cellsOf[Job](tx), cellsOf[Attempt](tx)
	into := attempts.add(jobs.add(workers.add([]any{&now})))
	rows, err := prepared(ctx, tx,
		fmt.Sprintf(lockHeldSQL, columnsSQL(tableOf[Worker](tx)), columnsSQL(tableOf[Job](tx)), columnsSQL(tableOf[Attempt](tx))),
		column(holds, func(h Hold) *[16]byte { return uuidOf(h.AttemptID) }),
		column(holds, func(h Hold) *[16]byte { return uuidOf(h.WorkerID) }),
		column(holds, func(h Hold) *[16]byte { return uuidOf(h.Token) }))
	err = scan(rows, err, func(rows *sql.Rows) error {
		h := Held{Worker: new(Worker), Job: new(Job), Attempt: new(Attempt)}
		workers.fill(h.Worker)
		jobs.fill(h.Job)
		attempts.fill(h.Attempt)
		err := rows.Scan(into...)
		all = append(all, h)
		return err
	})
	return now, all, err
}
