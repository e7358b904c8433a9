package models

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// ReadShares returns accounts with the columns that admit a submit: tier, weight, rate per
// minute, running jobs and their limit, and whether it has budgets and is closed.
func ReadShares(ctx context.Context, db bun.IDB, ids []AccountID) (found []*Account, err error) {
	err = db.NewSelect().Model(&found).Column("id", "tier", "weight", "submits_per_minute", "running", "max_running", "budgeted", "closed_at").
		Where("id IN (?)", bun.List(ids)).Scan(ctx)
	return found, err
}

// LockSubmits makes other submits of an account wait until the transaction ends. Nothing else waits
// for it: claims and ends go on, and need the account's row.
func LockSubmits(ctx context.Context, tx bun.Tx, id AccountID) error {
	_, uuid, _ := strings.Cut(string(id), "_")
	_, err := tx.NewRaw("SELECT pg_advisory_xact_lock(hashtextextended(?::uuid::text, 1))", uuid).Exec(ctx)
	return err
}

// ReadAccount returns an account with the columns that decide a submit, and the time of
// PostgreSQL's clock. It returns sql.ErrNoRows for an unknown id.
func ReadAccount(ctx context.Context, tx bun.Tx, id AccountID) (a *Account, now time.Time, err error) {
	a = new(Account)
	err = tx.NewSelect().Model(a).Column("id", "tier", "max_queued", "queued", "budgeted", "closed_at").Where("id = ?", id).Scan(ctx)
	if err == nil {
		now, err = postgres.Now(ctx, tx)
	}
	return a, now, err
}

// CountNewJobs counts n written jobs on their account, and the QUEUED ones among them, by their lane, in its
// lines. It returns the account's virtual time in these lines. It returns ErrLostRace if the account
// has not the room any more, or another tier: the caller has read it without locking it.
func CountNewJobs(ctx context.Context, tx bun.Tx, a *Account, n int, queued map[Tier]int) (map[Tier]float64, error) {
	err := postgres.MustChange(tx.NewRaw(`UPDATE accounts SET queued = queued + ?0, version = version + 1
		WHERE id = ?1 AND tier = ?2 AND (?0 = 0 OR queued + ?0 <= max_queued)`, n, a.ID, a.Tier).Exec(ctx))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, postgres.ErrLostRace
	}
	at := map[Tier]float64{}
	for lane, jobs := range queued {
		if err == nil {
			at[lane], err = EnterLane(ctx, tx, a.ID, Line{Lane: lane}, jobs)
		}
	}
	return at, err
}

// LockAccounts is LockAccount for several accounts, in the order of their ids, with the
// columns that decide a submit: tier, queued jobs and their limit. now is the time of
// PostgreSQL's clock after the locks were taken.
func LockAccounts(ctx context.Context, tx bun.Tx, ids []AccountID) (locked []*Account, now time.Time, err error) {
	err = tx.NewSelect().Model(&locked).Column("id", "tier", "max_queued", "queued").
		Where("id IN (?)", bun.List(ids)).Order("id").For("NO KEY UPDATE").Scan(ctx)
	if err == nil {
		now, err = postgres.Now(ctx, tx)
	}
	return locked, now, err
}

// NewJob is a job to be written, with the rows that belong to it.
type NewJob struct {
	// Place is its index in NewJobs. InsertJobs sets it.
	Place int `json:"place"`
	*Job  `json:"job"`
	// Event is the event of its first state.
	Event *JobEvent `json:"event"`
	// Input is its prompt, if it has one.
	Input *SealedPrompt `json:"input"`

	// Written reports whether the job was written. VirtualTime is then its account's in the
	// line, if the job is queued.
	Written     bool    `json:"-"`
	VirtualTime float64 `json:"-"`
}

// NewJobs holds jobs that one statement writes.
type NewJobs struct {
	Jobs []*NewJob
	// Ready holds the payloads of the outbox messages for the queued jobs.
	Ready []json.RawMessage
	// Accounts are the accounts of the jobs, each with the tier that it is expected to have.
	// The jobs of an account that has another tier, or no room for all of them, are not
	// written. Judged skips these checks, and does not count the jobs: the caller does both, and
	// names no accounts.
	Accounts []ExpectedAccount
	Judged   bool
	// Wait waits for accounts that others have locked, instead of leaving their jobs unwritten.
	Wait bool
	// Now is the time of PostgreSQL's clock, if the caller has read it.
	Now time.Time
}

// ExpectedAccount is an account, and the tier that it is expected to have.
type ExpectedAccount struct {
	ID   AccountID `json:"id"`
	Tier Tier      `json:"tier"`
}

//go:embed sql/insert_jobs.sql
var insertJobsSQL string

var insertJobs = map[bool]string{
	false: rendered(insertJobsSQL, nil),
	true:  rendered(insertJobsSQL, map[string]bool{"wait": true}),
}

// InsertJobs writes new jobs into the lanes of their tiers, with their first events, and
// counts them on their accounts. It marks the jobs that were written and sets the columns that
// the database chose.
//
// It does not write jobs whose idempotency key was used before, nor those of an account that
// is not as NewJobs expects, or that others have locked, unless Wait is set. It locks the accounts
// in the order of their ids.
func InsertJobs(ctx context.Context, db bun.IDB, n NewJobs) error {
	all := n.Jobs
	for i, j := range all { // another try of it may have been undone
		j.Place, j.Written, j.CreatedAt = i, false, time.Time{}
	}
	jobs, jobsErr := postgres.RowsArg(all)
	accounts, accountsErr := postgres.RowsArg(n.Accounts)
	ready, readyErr := postgres.RowsArg(n.Ready)
	if err := errors.Join(jobsErr, accountsErr, readyErr); err != nil {
		return fmt.Errorf("encode the rows: %w", err)
	}
	rows, err := postgres.Run(ctx, db, insertJobs[n.Wait], pgx.NamedArgs{
		"jobs": jobs, "accounts": accounts, "ready": ready, "judged": n.Judged, "now": postgres.NullTime(n.Now),
	})
	byID := make(map[JobID]*NewJob, len(all))
	for _, j := range all {
		byID[j.ID] = j
	}
	return postgres.Scan(rows, err, func(rows *sql.Rows) error {
		var id JobID
		var order int64
		var virtualTime float64
		var now time.Time
		if err := rows.Scan(&id, &order, &virtualTime, &now); err != nil {
			return err
		}
		job := byID[id]
		job.Written, job.QueueOrder, job.VirtualTime, job.CreatedAt = true, order, virtualTime, now
		job.Event.CreatedAt = now
		if job.Status == JobQueued {
			job.QueuedAt = now
		}
		return nil
	})
}
