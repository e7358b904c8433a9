// Package backlog reads the jobs that wait: which come next for a worker, which are ahead of a job,
// how much waits in each queue, and how long jobs of a kind take.
package backlog

import (
	"context"
	"database/sql"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// QueuedJob is a queued job with its account's place in the line.
type QueuedJob struct {
	ID        models.JobID     `bun:"id"`
	AccountID models.AccountID `bun:"account_id"`
	models.Queue
	// PreferredRegion is the region that it should run in if that delays no other job.
	PreferredRegion string  `bun:"wish"`
	QueueOrder      int64   `bun:"queue_order"`
	VirtualTime     float64 `bun:"virtual_time"`
}

const (
	// promotedSQL and regionSQL are fields of Line and Queue as expressions on a row of jobs. The view
	// queued_jobs has them word for word.
	promotedSQL = "(lane <> tier AND lane <> 'CRITICAL')"
	regionSQL   = "coalesce(CASE WHEN require_region THEN region END, '')"
	// queuedColumns are the columns of QueuedJob in the views queued_jobs and startable_jobs.
	queuedColumns = "id, account_id, lane, promoted, model, gpu_rank, region, needs, wish, queue_order"
)

// picking is a statement that picks jobs: for workers that take jobs of all accounts, or only of
// @accounts. They are two, so that PostgreSQL plans each for what it reads.
type picking struct{ all, ofAccounts string }

// newPicking returns the statement that begins with next_heads.sql and continues with end.
func newPicking(end string) picking {
	// The jobs of an account that has spent a budget are on their way out of its lines: they must not be in the way of others.
	const places = "WITH places AS NOT MATERIALIZED (SELECT * FROM account_lanes WHERE queued > 0 AND NOT capped" +
		" AND NOT EXISTS (SELECT FROM budget_holds h WHERE h.account_id = account_lanes.account_id AND h.user_id = '')"
	return picking{places + "),\n" + nextHeadsSQL + end, places + " AND account_id = ANY (@accounts::uuid[])),\n" + nextHeadsSQL + end}
}

// of returns the statement for these accounts; none means all.
func (p picking) of(accounts []models.AccountID) string {
	if len(accounts) > 0 {
		return p.ofAccounts
	}
	return p.all
}

var (
	//go:embed sql/next_heads.sql
	nextHeadsSQL string
	//go:embed sql/next_jobs.sql
	nextJobsSQL string
	//go:embed sql/next_in_order.sql
	nextInOrderSQL string

	nextJobs, nextInOrder = newPicking(nextJobsSQL), newPicking(nextInOrderSQL)
)

// NextJobs returns the heads of the queues of the first line that has a job which may start.
// Lines count in the order of queues. It returns the first job of each account, in the order
// of the accounts' virtual times, up to limit. It leaves out accounts that are not among
// accounts, if there are any, accounts at their running limit, and the jobs in passed.
func NextJobs(ctx context.Context, db bun.IDB, queues []models.Queue, accounts []models.AccountID, passed []models.JobID,
	limit int) ([]QueuedJob, error) {
	return pick(ctx, db, nextJobs, queues, accounts, passed, limit)
}

// NextInOrder returns up to limit next jobs of the line that NextJobs would find, in the order
// in which they start if nobody else takes or adds a job. Each job advances its account's
// virtual time; VirtualTime is the value before the job. No account has more jobs in the
// result than it can run.
//
// The result can be shorter than limit, but not empty: only part of each account's queue is
// read, and the order after the last job read of an account is unknown until these jobs have
// started.
func NextInOrder(ctx context.Context, db bun.IDB, queues []models.Queue, accounts []models.AccountID, passed []models.JobID,
	limit int) ([]QueuedJob, error) {
	return pick(ctx, db, nextInOrder, queues, accounts, passed, limit)
}

func pick(
	ctx context.Context, db bun.IDB, statement picking, queues []models.Queue, accounts []models.AccountID, passed []models.JobID, limit int,
) (found []QueuedJob, err error) {
	if len(queues) == 0 { // every lane is paused
		return nil, nil
	}
	asked, err := postgres.PlacedArg(queues)
	if err != nil {
		return nil, err
	}
	rows, err := postgres.Run(ctx, db, statement.of(accounts), pgx.NamedArgs{
		"queues": asked, "accounts": postgres.Column(accounts, postgres.UUID), "passed": postgres.Column(passed, postgres.UUID), "most": limit,
	})
	err = postgres.Scan(rows, err, func(rows *sql.Rows) error {
		var j QueuedJob
		err := rows.Scan(&j.ID, &j.AccountID, &j.Lane, &j.Promoted, &j.Model, &j.GPURank, &j.Region, &j.Needs, &j.PreferredRegion, &j.QueueOrder,
			&j.VirtualTime)
		found = append(found, j)
		return err
	})
	return found, err
}

// accountQueuesSQL is a recursive query of the queues in which the account of the row l of
// account_lanes has jobs. Each step skips to the next queue by the index of queued jobs.
const accountQueuesSQL = `queues AS (
				(SELECT model, gpu_rank, region, needs FROM queued_jobs
					WHERE lane = l.lane AND account_id = l.account_id AND promoted = l.promoted
					ORDER BY model, gpu_rank, region, needs LIMIT 1)
				UNION ALL
				SELECT next.* FROM queues q CROSS JOIN LATERAL (
					SELECT model, gpu_rank, region, needs FROM queued_jobs
					WHERE lane = l.lane AND account_id = l.account_id AND promoted = l.promoted
						AND (model, gpu_rank, region, needs) > (q.model, q.gpu_rank, q.region, q.needs)
					ORDER BY model, gpu_rank, region, needs LIMIT 1) next)`

// ListQueuedJobs returns the first limit jobs of each queue of each account. It walks the
// index jobs_next_in_queue from one queue to the next.
func ListQueuedJobs(ctx context.Context, db bun.IDB, limit int) ([]QueuedJob, error) {
	var found []QueuedJob
	err := db.NewRaw(`
		SELECT j.*, l.virtual_time
		FROM account_lanes l
		CROSS JOIN LATERAL (
			WITH RECURSIVE `+accountQueuesSQL+`
			SELECT first.* FROM queues q CROSS JOIN LATERAL (
				SELECT `+queuedColumns+` FROM queued_jobs
				WHERE lane = l.lane AND account_id = l.account_id AND promoted = l.promoted
					AND model = q.model AND gpu_rank = q.gpu_rank AND region = q.region AND needs = q.needs
				ORDER BY queue_order LIMIT ?) first) j
		WHERE l.queued > 0`, limit).Scan(ctx, &found)
	return found, err
}

// HasQueuedJobs reports whether any job is queued.
func HasQueuedJobs(ctx context.Context, db bun.IDB) (has bool, err error) {
	err = postgres.Read(ctx, db,
		"SELECT (SELECT lane FROM jobs WHERE status = 'QUEUED' ORDER BY lane, tier, model, queued_at LIMIT 1) IS NOT NULL", pgx.NamedArgs{}, &has)
	return has, err
}

// getQueuedJobsSQL looks up each job by its id. Otherwise PostgreSQL may read all queued jobs instead,
// since the statistics often say that there are few.
const getQueuedJobsSQL = `
	SELECT j.*, l.virtual_time
	FROM unnest((SELECT @ids::uuid[])) AS asked (id)
	CROSS JOIN LATERAL (SELECT ` + queuedColumns + ` FROM queued_jobs WHERE id = asked.id LIMIT 1) j
	JOIN account_lanes l USING (account_id, lane, promoted)`

// GetQueuedJobs returns the queued jobs among these.
func GetQueuedJobs(ctx context.Context, db bun.IDB, ids []models.JobID) (found []QueuedJob, err error) {
	err = postgres.Read(ctx, db, getQueuedJobsSQL, pgx.NamedArgs{"ids": postgres.Column(ids, postgres.UUID)}, &found)
	return found, err
}

// ListWaitingJobs returns the waiting jobs among these, without their params and metadata.
func ListWaitingJobs(ctx context.Context, db bun.IDB, ids []models.JobID) ([]*models.Job, error) {
	var found []*models.Job
	err := db.NewSelect().Model(&found).ExcludeColumn("params", "metadata").
		Where("j.id IN (?) AND j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED')", bun.List(ids)).Scan(ctx)
	return found, err
}

// ListImpatientJobs returns jobs of a tier that have waited in a lane for longer than patience, the
// longest first. The time in which their queue was closed does not count. Jobs of closed queues
// stay where they are, and so do those that would get into one.
func ListImpatientJobs(ctx context.Context, db bun.IDB, lane, tier, to models.Tier, patience time.Duration,
	limit int) ([]models.JobID, error) {
	var ids []models.JobID
	err := db.NewRaw(`
		WITH RECURSIVE waiting AS (
			(SELECT model FROM jobs WHERE status = 'QUEUED' AND lane = ?0 AND tier = ?1 ORDER BY model LIMIT 1)
			UNION ALL
			SELECT next.* FROM waiting w CROSS JOIN LATERAL (
				SELECT model FROM jobs WHERE status = 'QUEUED' AND lane = ?0 AND tier = ?1 AND model > w.model ORDER BY model LIMIT 1) next)
		SELECT first.id FROM (
			SELECT model, waiting_since(?0, model, ?2, clock_timestamp()) AS since FROM waiting
			WHERE NOT EXISTS (SELECT FROM closed_queues p WHERE p.lane IN (?0, ?4) AND p.model IN ('', waiting.model)) OFFSET 0) w
		CROSS JOIN LATERAL (
			SELECT id, queued_at FROM jobs
			WHERE status = 'QUEUED' AND lane = ?0 AND tier = ?1 AND model = w.model
				AND queued_at < w.since AND needs NOT LIKE 'held%'
			ORDER BY queued_at LIMIT ?3) first
		ORDER BY first.queued_at LIMIT ?3`, lane, tier, patience.Seconds(), limit, to).Scan(ctx, &ids)
	return ids, err
}
