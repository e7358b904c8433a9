package models

import (
	"context"
	"database/sql"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// Queue is what a worker reads or does not read as a whole: the queued jobs of
// one line, model and GPU class that need one region, or none.
type Queue struct {
	Line
	Model   string `bun:"model" json:"model"`
	GPURank int    `bun:"gpu_rank" json:"gpu_rank"`
	// Region is the one that its jobs must run in, or "".
	Region string `bun:"region" json:"region"`
}

// Queue is where the job stands while it is queued.
func (j *Job) Queue() Queue {
	q := Queue{Line: j.Line(), Model: j.Model, GPURank: j.GPURank}
	if j.RequireRegion {
		q.Region = j.Region
	}
	return q
}

// Line is the job's line. A redriven job runs in CRITICAL as one of its own.
func (j *Job) Line() Line {
	return Line{Lane: j.Lane, Promoted: j.Lane != j.Tier && j.Lane != TierCritical}
}

// QueuedJob is a queued job with its account's place in the line.
type QueuedJob struct {
	ID        JobID     `bun:"id"`
	AccountID AccountID `bun:"account_id"`
	Queue
	// Wish is the region that it should run in if that costs nobody anything.
	Wish        string  `bun:"wish"`
	QueueOrder  int64   `bun:"queue_order"`
	VirtualTime float64 `bun:"virtual_time"`
}

// These say of a row of jobs what Line, Queue and QueuedJob do. The index jobs_next and
// the statements in sql/ have the same words.
const (
	promotedSQL   = "(lane <> tier AND lane <> 'CRITICAL')"
	regionSQL     = "coalesce(CASE WHEN require_region THEN region END, '')"
	queuedColumns = "id, account_id, lane, " + promotedSQL + " AS promoted, model, gpu_rank, " + regionSQL + " AS region, " +
		"coalesce(region, '') AS wish, queue_order"
)

//go:embed sql/next_jobs.sql
var nextJobsSQL string

// NextJobs returns the heads of the queues of the first line, in the order in
// which they are given, that has any that may start: of each account its first
// job, the accounts by their virtual time. Accounts at their cap stand in no
// line, and the jobs in passed are left out.
func NextJobs(ctx context.Context, db bun.IDB, queues []Queue, passed []JobID, limit int) ([]QueuedJob, error) {
	return pick(ctx, db, nextJobsSQL, queues, passed, limit)
}

//go:embed sql/next_in_order.sql
var nextInOrderSQL string

// NextInOrder returns the next jobs, up to limit, of the line that NextJobs would
// find, in the order in which they are given if nobody else takes or adds one: each
// advances its account's virtual time, which is noted as it is before the job. No
// account has more among them than it may run. They are fewer than limit, but not
// none, if an account has more before the others' than were read of it: what follows
// shows once these are given.
func NextInOrder(ctx context.Context, db bun.IDB, queues []Queue, passed []JobID, limit int) ([]QueuedJob, error) {
	return pick(ctx, db, nextInOrderSQL, queues, passed, limit)
}

func pick(ctx context.Context, db bun.IDB, statement string, queues []Queue, passed []JobID, limit int) (found []QueuedJob, err error) {
	if len(queues) == 0 { // every lane is paused
		return nil, nil
	}
	args, err := pickArgs(queues, passed, limit)
	if err != nil {
		return nil, err
	}
	rows, err := run(ctx, db, statement, args)
	err = scan(rows, err, func(rows *sql.Rows) error {
		var j QueuedJob
		err := rows.Scan(&j.ID, &j.AccountID, &j.Lane, &j.Promoted, &j.Model, &j.GPURank, &j.Region, &j.Wish, &j.QueueOrder, &j.VirtualTime)
		found = append(found, j)
		return err
	})
	return found, err
}

func pickArgs(queues []Queue, passed []JobID, limit int) (pgx.NamedArgs, error) {
	type placed struct {
		Place int `json:"place"`
		Queue
	}
	asked := make([]placed, len(queues))
	for i, q := range queues {
		asked[i] = placed{i, q}
	}
	arg, err := rowsArg(asked)
	return pgx.NamedArgs{"queues": arg, "passed": column(passed, uuidOf), "most": limit}, err
}

// ListQueuedJobs returns, of each account's every queue, the first limit jobs. It
// walks the index jobs_next from one queue to the next.
func ListQueuedJobs(ctx context.Context, db bun.IDB, limit int) ([]QueuedJob, error) {
	var found []QueuedJob
	err := db.NewRaw(`
		SELECT j.*, l.virtual_time
		FROM account_lanes l
		CROSS JOIN LATERAL (
			WITH RECURSIVE queues AS (
				(SELECT model, gpu_rank, `+regionSQL+` AS region FROM jobs
					WHERE status = 'QUEUED' AND lane = l.lane AND account_id = l.account_id AND `+promotedSQL+` = l.promoted
					ORDER BY model, gpu_rank, `+regionSQL+` LIMIT 1)
				UNION ALL
				SELECT next.* FROM queues q CROSS JOIN LATERAL (
					SELECT model, gpu_rank, `+regionSQL+` AS region FROM jobs
					WHERE status = 'QUEUED' AND lane = l.lane AND account_id = l.account_id AND `+promotedSQL+` = l.promoted
						AND (model, gpu_rank, `+regionSQL+`) > (q.model, q.gpu_rank, q.region)
					ORDER BY model, gpu_rank, `+regionSQL+` LIMIT 1) next)
			SELECT first.* FROM queues q CROSS JOIN LATERAL (
				SELECT `+queuedColumns+` FROM jobs
				WHERE status = 'QUEUED' AND lane = l.lane AND account_id = l.account_id AND `+promotedSQL+` = l.promoted
					AND model = q.model AND gpu_rank = q.gpu_rank AND `+regionSQL+` = q.region
				ORDER BY queue_order LIMIT ?) first) j
		WHERE l.queued > 0`, limit).Scan(ctx, &found)
	return found, err
}

// GetQueuedJobs returns those of the jobs that are queued.
func GetQueuedJobs(ctx context.Context, db bun.IDB, ids []JobID) (found []QueuedJob, err error) {
	err = db.NewRaw(`
		SELECT j.*, l.virtual_time
		FROM (SELECT `+queuedColumns+` FROM jobs WHERE id IN (?) AND status = 'QUEUED') j
		JOIN account_lanes l USING (account_id, lane, promoted)`, bun.List(ids)).Scan(ctx, &found)
	return found, err
}

// ListWaitingJobs returns those of these jobs that wait, without their params.
func ListWaitingJobs(ctx context.Context, db bun.IDB, ids []JobID) ([]*Job, error) {
	var found []*Job
	err := db.NewSelect().Model(&found).ExcludeColumn("params", "metadata").
		Where("j.id IN (?) AND j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED')", bun.List(ids)).Scan(ctx)
	return found, err
}

// ListImpatientJobs returns jobs of a tier that are queued in a lane for longer
// than that, longest first.
func ListImpatientJobs(ctx context.Context, db bun.IDB, lane, tier Tier, patience time.Duration, limit int) ([]JobID, error) {
	var ids []JobID
	err := db.NewRaw(`
		WITH RECURSIVE waiting AS (
			(SELECT model FROM jobs WHERE status = 'QUEUED' AND lane = ?0 AND tier = ?1 ORDER BY model LIMIT 1)
			UNION ALL
			SELECT next.* FROM waiting w CROSS JOIN LATERAL (
				SELECT model FROM jobs WHERE status = 'QUEUED' AND lane = ?0 AND tier = ?1 AND model > w.model ORDER BY model LIMIT 1) next)
		SELECT first.id FROM waiting w CROSS JOIN LATERAL (
			SELECT id, queued_at FROM jobs
			WHERE status = 'QUEUED' AND lane = ?0 AND tier = ?1 AND model = w.model
				AND queued_at < (SELECT clock_timestamp()) - make_interval(secs => ?2)
			ORDER BY queued_at LIMIT ?3) first
		ORDER BY first.queued_at LIMIT ?3`, lane, tier, patience.Seconds(), limit).Scan(ctx, &ids)
	return ids, err
}
