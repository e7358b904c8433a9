package models

import (
	"context"
	"database/sql"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Work is a kind of work that control processes find in PostgreSQL.
type Work string

const (
	// WorkDelayed are jobs whose start time has come.
	WorkDelayed Work = "delayed"
	// WorkSchedules are schedules with slots to decide on, and WorkSlots are slots to fire.
	WorkSchedules Work = "schedules"
	WorkSlots     Work = "slots"
	// WorkFetches are images to fetch.
	WorkFetches Work = "fetches"
	// WorkWebhooks are deliveries that have not ended, due or not.
	WorkWebhooks Work = "webhooks"
	// WorkOutbox are messages to relay.
	WorkOutbox Work = "outbox"
	// WorkUnsettled are dependencies on ended jobs.
	WorkUnsettled Work = "unsettled"
	// WorkLeases are leases, expired or not.
	WorkLeases Work = "leases"
	// WorkExpiring are jobs that expired before they started, and WorkSlack those whose slack ended.
	WorkExpiring Work = "expiring"
	WorkSlack    Work = "slack"
	// WorkParents are jobs to retry for their dependents.
	WorkParents Work = "parents"
	// WorkApprovals are questions to ask, and those whose time is over.
	WorkApprovals Work = "approvals"
	// WorkCancels are workflows that are being cancelled.
	WorkCancels Work = "cancels"
	// WorkBulk are bulk operations whose next item is due.
	WorkBulk Work = "bulk"
	// WorkErasures are deletions of accounts that are due.
	WorkErasures Work = "erasures"
	// WorkNotices are notices of alerts to send.
	WorkNotices Work = "notices"
	// WorkDeletions are objects to delete.
	WorkDeletions Work = "deletions"
	// WorkBudgets are what was spent and is not counted yet, and budgets that are spent.
	WorkBudgets Work = "budgets"
	// WorkQueue are queued jobs.
	WorkQueue Work = "queue"
	// WorkJobs are jobs that are queued, run, or ended a moment ago.
	WorkJobs Work = "jobs"
	// WorkFleet are queued jobs, workers that are not idle, and pools whose provider fails.
	WorkFleet Work = "fleet"
)

// Agenda is what work there is.
type Agenda struct {
	// Due has the kinds of which there is some.
	Due map[Work]bool
	// Next is the time until more of any kind is due, and zero if none is known.
	Next time.Duration
}

// AgendaSQL is the statement of [ReadAgenda].
//
//go:embed sql/agenda.sql
var AgendaSQL string

// ReadAgenda returns what work there is.
func ReadAgenda(ctx context.Context, db bun.IDB) (Agenda, error) {
	a := Agenda{Due: map[Work]bool{}}
	rows, err := postgres.Run(ctx, db, AgendaSQL, pgx.NamedArgs{})
	err = postgres.Scan(rows, err, func(rows *sql.Rows) error {
		var kind Work
		var due bool
		var seconds *float64
		if err := rows.Scan(&kind, &due, &seconds); err != nil {
			return err
		}
		a.Due[kind] = due
		if seconds != nil {
			if next := time.Duration(*seconds * float64(time.Second)); a.Next == 0 || next < a.Next {
				a.Next = max(next, 1)
			}
		}
		return nil
	})
	return a, err
}
