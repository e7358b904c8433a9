package models

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// ReadShares returns accounts with what a submit is let in by: their tier, weight,
// rate per minute, and how many jobs they run and may.
func ReadShares(ctx context.Context, db bun.IDB, ids []AccountID) (found []*Account, err error) {
	err = db.NewSelect().Model(&found).Column("id", "tier", "weight", "submits_per_minute", "running", "max_running").
		Where("id IN (?)", bun.List(ids)).Scan(ctx)
	return found, err
}

// LockAccounts is LockAccount for several, in the order of their ids, with what
// decides on a submit: their tier and how many jobs wait and may. now is
// PostgreSQL's clock after that.
func LockAccounts(ctx context.Context, tx bun.Tx, ids []AccountID) (locked []*Account, now time.Time, err error) {
	err = tx.NewSelect().Model(&locked).Column("id", "tier", "max_queued", "queued").
		Where("id IN (?)", bun.List(ids)).Order("id").For("NO KEY UPDATE").Scan(ctx)
	if err == nil {
		now, err = Now(ctx, tx)
	}
	return locked, now, err
}

// NewJob is a job that is to be written, and what is written with it.
type NewJob struct {
	// Place is where it is in its NewJobs, which InsertJobs notes.
	Place int `json:"place"`
	*Job  `json:"job"`
	// Event tells of its first state.
	Event *JobEvent `json:"event"`
	// Input is its prompt, if it has one.
	Input *JobInput `json:"input"`

	// Written is whether it is there now. VirtualTime is then its account's in the
	// line, if the job is queued.
	Written     bool    `json:"-"`
	VirtualTime float64 `json:"-"`
}

// NewJobs are jobs that one statement writes.
type NewJobs struct {
	Jobs []*NewJob
	// Ready are the outbox's messages of those that are queued.
	Ready []json.RawMessage
	// Tiers are what the jobs' accounts are taken to be of. Those of an account that
	// is of another, or has no room for all of them, are not written: unless Judged
	// says that the accounts are locked, and that this was looked at.
	Tiers  map[AccountID]Tier
	Judged bool
	// Wait waits for accounts that others have locked. Without it, their jobs are not
	// written.
	Wait bool
	// Now is PostgreSQL's clock, if it was read.
	Now time.Time
}

//go:embed sql/insert_jobs.sql
var insertJobsSQL string

// InsertJobs writes new jobs in the lanes of their tiers, with their first events,
// counts them on their accounts, and notes which were written and what the database
// chose for those. Not written are those of accounts that are not as was taken, see
// NewJobs, or that others have locked, unless Wait is set, and those whose idempotency key was used before. It locks the accounts
// in the order of their ids.
func InsertJobs(ctx context.Context, db bun.IDB, n NewJobs) error {
	all := n.Jobs
	for i, j := range all { // another try of it may have been undone
		j.Place, j.Written, j.CreatedAt = i, false, time.Time{}
	}
	type taken struct {
		ID   AccountID `json:"id"`
		Tier Tier      `json:"tier"`
	}
	accounts := lo.MapToSlice(n.Tiers, func(id AccountID, tier Tier) taken { return taken{id, tier} })
	jobs, jobsErr := rowsArg(all)
	tiers, tiersErr := rowsArg(accounts)
	ready, readyErr := rowsArg(n.Ready)
	if err := errors.Join(jobsErr, tiersErr, readyErr); err != nil {
		return fmt.Errorf("encode the rows: %w", err)
	}
	rows, err := run(ctx, db, insertJobsSQL, pgx.NamedArgs{
		"jobs": jobs, "accounts": tiers, "ready": ready, "now": nullTime(n.Now), "judged": n.Judged, "wait": n.Wait,
	})
	byID := make(map[JobID]*NewJob, len(all))
	for _, j := range all {
		byID[j.ID] = j
	}
	return scan(rows, err, func(rows *sql.Rows) error {
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
