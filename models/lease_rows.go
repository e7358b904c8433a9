package models

import (
	"context"
	"database/sql"
	_ "embed"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Pick is a job of an account that a worker could lease. RequestID, if any, identifies the
// worker's request.
type Pick struct {
	AccountID AccountID `json:"account_id"`
	WorkerID  WorkerID  `json:"worker_id"`
	JobID     JobID     `json:"job_id"`
	RequestID string    `json:"request_id,omitzero"`
}

// Picked holds the rows of a pick. Worker and Job are nil if the row does not exist. Job is
// also nil if it is no longer QUEUED or another transaction is leasing it.
type Picked struct {
	// Room is how many more jobs the account may run. It was read without a lock. It is nil if
	// the account does not exist.
	Room   *int
	Worker *Worker
	Job    *Job
	// Answered means that the request already had a lease.
	Answered bool
}

//go:embed sql/lock_picks.sql
var lockPicksSQL string

// LockPicks locks the workers and jobs of picks. It returns them in the order of the picks,
// with the time of PostgreSQL's clock after the locks were taken. It reads accounts without a
// lock: Write checks whether there is room. The transaction waits for each lock up to patience; see
// LockLeases.
func LockPicks(ctx context.Context, tx bun.Tx, picks []Pick, patience time.Duration) (now time.Time, all []Picked, err error) {
	arg, err := postgres.PlacedArg(picks)
	if err != nil {
		return now, nil, err
	}
	all = make([]Picked, len(picks))
	rows, err := postgres.Run(ctx, tx, lockPicksSQL, pgx.NamedArgs{"picks": arg, "patience": lockTimeout(patience)})
	err = postgres.Scan(rows, err, func(rows *sql.Rows) error {
		var place int
		var room *int
		var w postgres.RowScan[Worker]
		var j postgres.RowScan[Job]
		var answered bool
		if err := rows.Scan(&now, &place, &room, &w, &j, &answered); err != nil {
			return err
		}
		all[place] = Picked{room, w.Row, j.Row, answered}
		return nil
	})
	return now, all, err
}

// Fence names the attempt that a worker holds, with the token that proves it.
type Fence struct {
	WorkerID  WorkerID     `json:"worker_id"`
	AttemptID AttemptID    `json:"attempt_id"`
	Token     FencingToken `json:"token"`
}

// LeaseRows holds all rows of a lease.
type LeaseRows struct {
	Worker  *Worker
	Job     *Job
	Attempt *Attempt
}

//go:embed sql/lock_leases.sql
var lockLeasesSQL string

// LockLeases locks all rows of the leases that these workers hold under these tokens. It returns
// them with the time of PostgreSQL's clock after the locks were taken. Leases that have ended
// are left out, except those that ended while it waited for their rows. From here on the transaction
// waits for each lock up to patience, and returns postgres.IsLockTimeout after that; 0 means as long as
// the connection does.
func LockLeases(ctx context.Context, tx bun.Tx, holds []Fence, patience time.Duration) (now time.Time, all []LeaseRows, err error) {
	arg, err := postgres.RowsArg(holds)
	if err != nil {
		return now, nil, err
	}
	rows, err := postgres.Run(ctx, tx, lockLeasesSQL, pgx.NamedArgs{"holds": arg, "patience": lockTimeout(patience)})
	err = postgres.Scan(rows, err, func(rows *sql.Rows) error {
		var w postgres.RowScan[Worker]
		var j postgres.RowScan[Job]
		var a postgres.RowScan[Attempt]
		err := rows.Scan(&now, &w, &j, &a)
		all = append(all, LeaseRows{w.Row, j.Row, a.Row})
		return err
	})
	return now, all, err
}

// lockTimeout returns a setting of lock_timeout, or "" for none.
func lockTimeout(patience time.Duration) string {
	if patience == 0 {
		return ""
	}
	return strconv.FormatInt(max(patience.Milliseconds(), 1), 10)
}
