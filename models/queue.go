package models

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

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

// These say of a row of jobs what Line, Queue and QueuedJob do; the index
// jobs_next has the same words.
const (
	promotedSQL = "(lane <> tier AND lane <> 'CRITICAL')"
	regionSQL   = "coalesce(CASE WHEN require_region THEN region END, '')"
	// startableSQL leaves out what was to be started by now: it will fail.
	startableSQL = "(expires_at IS NULL OR started_at IS NOT NULL OR expires_at > clock_timestamp())"

	// waitingSQL is of jobs that are QUEUED. Its second part holds of every job, and is
	// what the indexes jobs_in_line and jobs_by_wait ask for. A statement that picks
	// jobs does not say it, so that only jobs_next can seem good for it, even if it is
	// planned while next to nothing waits.
	waitingSQL = "status = 'QUEUED' AND lane || '' <> ''"
	// waitingJobSQL is waitingSQL of a job j.
	waitingJobSQL = "j.status = 'QUEUED' AND j.lane || '' <> ''"

	queuedColumns = "id, account_id, lane, " + promotedSQL + " AS promoted, model, gpu_rank, " + regionSQL + " AS region, " +
		"coalesce(region, '') AS wish, queue_order"
)

// NextJobs returns the heads of the queues of the first line, in the order in
// which they are given, that has any that may start: of each account its first
// job, the accounts by their virtual time. Accounts at their cap stand in no
// line, and the jobs in passed are left out.
func NextJobs(ctx context.Context, db bun.IDB, queues []Queue, passed []JobID, limit int) ([]QueuedJob, error) {
	return pick(ctx, db, nextJobsSQL, queues, passed, limit)
}

// NextInOrder returns the next jobs, up to limit, of the line that NextJobs would
// find, in the order in which they are given if nobody else takes or adds one: each
// advances its account's virtual time, which is noted as it is before the job. No
// account has more among them than it may run. They are fewer than limit, but not
// none, if an account has more before the others' than were read of it: what follows
// shows once these are given.
func NextInOrder(ctx context.Context, db bun.IDB, queues []Queue, passed []JobID, limit int) ([]QueuedJob, error) {
	return pick(ctx, db, nextInOrderSQL, queues, passed, limit)
}

func pick(ctx context.Context, db bun.IDB, query string, queues []Queue, passed []JobID, limit int) ([]QueuedJob, error) {
	if len(queues) == 0 { // every lane is paused
		return nil, nil
	}
	asked, err := json.Marshal(queues)
	if err != nil {
		return nil, err
	}
	return scanQueued(prepared(ctx, db, query, string(asked), limit, column(passed, uuidOf)))
}

func scanQueued(rows *sql.Rows, err error) (found []QueuedJob, _ error) {
	err = scan(rows, err, func(rows *sql.Rows) error {
		var j QueuedJob
		err := rows.Scan(&j.ID, &j.AccountID, &j.Lane, &j.Promoted, &j.Model, &j.GPURank, &j.Region, &j.Wish, &j.QueueOrder, &j.VirtualTime)
		found = append(found, j)
		return err
	})
	return found, err
}

// firstLineSQL are the queues asked for, and the first of their lines that has a job
// which may start. Both orders are those in which they are read, so that what is
// behind that job is not looked at.
const firstLineSQL = `
	WITH asked AS (
		SELECT * FROM ROWS FROM (jsonb_to_recordset($1::text::jsonb) AS (lane text, promoted boolean, model text, gpu_rank integer, region text))
			WITH ORDINALITY AS q (lane, promoted, model, gpu_rank, region, place)),
	line AS MATERIALIZED (
		SELECT lines.lane, lines.promoted
		FROM (SELECT lane, promoted, min(place) AS place FROM asked GROUP BY lane, promoted ORDER BY place) lines
		CROSS JOIN LATERAL (
			SELECT FROM account_lanes l CROSS JOIN asked q CROSS JOIN LATERAL (` + nextOfQueueSQL + ` LIMIT 1) j
			WHERE l.lane = lines.lane AND l.promoted = lines.promoted AND ` + standsSQL + `
				AND q.lane = lines.lane AND q.promoted = lines.promoted
			ORDER BY l.virtual_time LIMIT 1) any_job
		ORDER BY lines.place LIMIT 1)`

// standsSQL tells whether an account stands in a line l; the index
// account_lanes_ready has the same words.
const standsSQL = "l.queued > 0 AND NOT l.capped"

// inLineSQL is of the accounts that stand in the line. A statement that wants the
// first of them reads no others but those at the same virtual time, since the index
// has them in that order.
const inLineSQL = "l.lane = (SELECT lane FROM line) AND l.promoted = (SELECT promoted FROM line) AND " + standsSQL

// ofQueueSQL reads what may start of a queue q of an account's line l, and
// nextOfQueueSQL does so in order, from where the account's queue in the line begins.
const (
	ofQueueSQL = "SELECT " + queuedColumns + `, estimated_gpu_seconds FROM jobs
	WHERE status = 'QUEUED' AND lane = l.lane AND account_id = l.account_id AND ` + promotedSQL + ` = l.promoted
		AND model = q.model AND gpu_rank = q.gpu_rank AND ` + regionSQL + ` = q.region
		AND ` + startableSQL + ` AND id <> ALL ($3::uuid[])`
	nextOfQueueSQL = ofQueueSQL + " AND queue_order >= l.begins_at ORDER BY queue_order"
)

// headsSQL are the first jobs of the accounts that stand in the line.
const headsSQL = `
	SELECT head.id, head.account_id, head.lane, head.promoted, head.model, head.gpu_rank, head.region, head.wish,
		head.queue_order, l.virtual_time
	FROM account_lanes l CROSS JOIN LATERAL (
		SELECT j.* FROM asked q CROSS JOIN LATERAL (` + nextOfQueueSQL + ` LIMIT 1) j
		WHERE q.lane = l.lane AND q.promoted = l.promoted
		ORDER BY j.queue_order LIMIT 1) head
	WHERE ` + inLineSQL + `
	ORDER BY l.virtual_time, head.queue_order LIMIT $2::integer`

const nextJobsSQL = firstLineSQL + headsSQL

// How deep it reads into an account's queue depends on how many are before it: all
// that could be given of the first, half of that of the third, and five at least. What
// is known of the order ends with the virtual time at which an account goes on behind
// the jobs that were read of it.
//
// An account's head is found by walking past the index entries of all that left its
// queue since NoteBeginnings looked, or the last vacuum. What is read of it begins there:
// they are not walked past again.
const nextInOrderSQL = firstLineSQL + `,
	first AS MATERIALIZED (
		SELECT l.lane, l.promoted, l.account_id, l.virtual_time, l.queue_order AS head_order, a.weight, greatest(a.max_running - a.running, 0) AS room,
			least(greatest(ceil(1.5 * $2::integer / row_number() OVER (ORDER BY l.virtual_time, l.queue_order)), 5), $2::integer)::integer AS depth
		FROM (` + headsSQL + `) l JOIN accounts a ON a.id = l.account_id),
	next AS (
		SELECT j.*, l.virtual_time + coalesce(sum(j.estimated_gpu_seconds / l.weight) OVER before, 0) AS virtual_time,
			CASE WHEN row_number() OVER own = l.depth AND l.depth < l.room
				THEN l.virtual_time + sum(j.estimated_gpu_seconds / l.weight) OVER own END AS goes_on
		FROM first l CROSS JOIN LATERAL (
			SELECT j.* FROM asked q CROSS JOIN LATERAL (` + ofQueueSQL + ` AND queue_order >= l.head_order
				ORDER BY queue_order LIMIT least(l.depth, l.room)) j
			WHERE q.lane = l.lane AND q.promoted = l.promoted
			ORDER BY j.queue_order LIMIT least(l.depth, l.room)) j
		WINDOW own AS (PARTITION BY j.account_id ORDER BY j.queue_order),
			before AS (PARTITION BY j.account_id ORDER BY j.queue_order ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
	SELECT id, account_id, lane, promoted, model, gpu_rank, region, wish, queue_order, virtual_time
	FROM (SELECT *, min(goes_on) OVER () AS known_until, min(virtual_time) OVER () AS beginning FROM next) n
	WHERE known_until IS NULL OR virtual_time < known_until OR virtual_time = beginning
	ORDER BY virtual_time, queue_order LIMIT $2::integer`

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
func GetQueuedJobs(ctx context.Context, db bun.IDB, ids []JobID) ([]QueuedJob, error) {
	return scanQueued(prepared(ctx, db, `
		SELECT j.id, j.account_id, j.lane, j.promoted, j.model, j.gpu_rank, j.region, j.wish, j.queue_order, l.virtual_time
		FROM (SELECT `+queuedColumns+`, status FROM jobs WHERE id = ANY ($1::uuid[]) OFFSET 0) j
		CROSS JOIN LATERAL (
			SELECT virtual_time FROM account_lanes
			WHERE account_id = j.account_id AND lane = j.lane AND promoted = j.promoted OFFSET 0) l
		WHERE j.status = 'QUEUED'`, column(ids, uuidOf)))
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
			(SELECT model FROM jobs WHERE `+waitingSQL+` AND lane = ?0 AND tier = ?1 ORDER BY model LIMIT 1)
			UNION ALL
			SELECT next.* FROM waiting w CROSS JOIN LATERAL (
				SELECT model FROM jobs WHERE `+waitingSQL+` AND lane = ?0 AND tier = ?1 AND model > w.model ORDER BY model LIMIT 1) next)
		SELECT first.id FROM waiting w CROSS JOIN LATERAL (
			SELECT id, queued_at FROM jobs
			WHERE `+waitingSQL+` AND lane = ?0 AND tier = ?1 AND model = w.model
				AND queued_at < (SELECT clock_timestamp()) - make_interval(secs => ?2)
			ORDER BY queued_at LIMIT ?3) first
		ORDER BY first.queued_at LIMIT ?3`, lane, tier, patience.Seconds(), limit).Scan(ctx, &ids)
	return ids, err
}
