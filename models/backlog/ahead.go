package backlog

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// LineUp asks for the jobs of a lane in the order in which they are expected to start.
type LineUp struct {
	Lane models.Tier `json:"lane"`
	// Queues restricts the jobs to these queues, whether promoted or not.
	Queues []models.Queue `json:"queues"`
	// Accounts restricts the jobs to these accounts. If empty, all count.
	Accounts []models.AccountID `json:"-"`
	// AccountID restricts the jobs to one account, even if it is at its running limit. If
	// empty, all accounts below their limit count.
	AccountID models.AccountID `json:"-"`
	// Above are the lanes that are served first, without paused ones.
	Above []models.Tier `json:"above"`
}

// LinedUp is one job of the answer to the LineUp with that number.
type LinedUp struct {
	Number   int          `bun:"number"`
	ID       models.JobID `bun:"id"`
	Promoted bool         `bun:"promoted"`
}

// CountAbove counts, for each LineUp, the jobs in its Above lanes that are in one of its queues
// and of an account below its running limit. It stops at limit.
func CountAbove(ctx context.Context, db bun.IDB, asked []LineUp, limit int) ([]int, error) {
	text, err := lineUps(asked)
	if err != nil {
		return nil, err
	}
	var counts []int
	err = db.NewRaw(`
		SELECT (
			SELECT count(*) FROM (
				SELECT 1 FROM account_lanes l
				CROSS JOIN jsonb_to_recordset(asked.queues) AS q (lane text, model text, gpu_rank integer, region text, needs text)
				CROSS JOIN LATERAL (
					SELECT 1 FROM queued_jobs
					WHERE lane = l.lane AND account_id = l.account_id AND promoted = l.promoted
						AND model = q.model AND gpu_rank = q.gpu_rank AND region = q.region AND needs = q.needs LIMIT ?1) queued
				WHERE l.lane = ANY (asked.above) AND q.lane = l.lane AND l.queued > 0 AND NOT l.capped
					AND (asked.accounts IS NULL OR l.account_id = ANY (asked.accounts))
				LIMIT ?1) counted)
		FROM ROWS FROM (jsonb_to_recordset(?0::jsonb) AS (above text[], queues jsonb, accounts uuid[]))
			WITH ORDINALITY AS asked (above, queues, accounts, number)
		ORDER BY asked.number`, text, limit).Scan(ctx, &counts)
	return counts, err
}

// ListLinedUp returns, for each line of each LineUp, the first limit jobs in the order in
// which they start if nothing changes: each job advances its account by its estimated GPU
// seconds over the account's weight.
func ListLinedUp(ctx context.Context, db bun.IDB, asked []LineUp, limit int) ([]LinedUp, error) {
	text, err := lineUps(asked)
	if err != nil {
		return nil, err
	}
	var found []LinedUp
	err = db.NewRaw(`
		SELECT asked.number - 1 AS number, first.id, line.promoted
		FROM ROWS FROM (jsonb_to_recordset(?0::jsonb) AS (lane text, queues jsonb, accounts uuid[], account uuid))
			WITH ORDINALITY AS asked (lane, queues, accounts, account, number)
		CROSS JOIN (VALUES (false), (true)) AS line (promoted)
		CROSS JOIN LATERAL (
			SELECT tagged.id, tagged.start, tagged.queue_order
			FROM (
				SELECT l.account_id, l.virtual_time FROM account_lanes l CROSS JOIN LATERAL (
					SELECT queue_order FROM lined_up(l.account_id, 0, l.lane, l.promoted, asked.queues, 1)) head
				WHERE l.lane = asked.lane AND l.promoted = line.promoted AND l.queued > 0 AND NOT l.capped AND asked.account IS NULL
					AND (asked.accounts IS NULL OR l.account_id = ANY (asked.accounts))
				ORDER BY l.virtual_time, head.queue_order LIMIT ?1) l
			CROSS JOIN LATERAL lined_up(l.account_id, l.virtual_time, asked.lane, line.promoted, asked.queues, ?1) tagged
			UNION ALL
			SELECT tagged.id, tagged.start, tagged.queue_order
			FROM account_lanes l
			CROSS JOIN LATERAL lined_up(l.account_id, l.virtual_time, asked.lane, line.promoted, asked.queues, ?1) tagged
			WHERE l.account_id = asked.account AND l.lane = asked.lane AND l.promoted = line.promoted
			ORDER BY start, queue_order LIMIT ?1) first
		ORDER BY asked.number, first.start, first.queue_order`, text, limit).Scan(ctx, &found)
	return found, err
}

// lineUps returns them as JSON, with the accounts as UUIDs.
func lineUps(asked []LineUp) (string, error) {
	type row struct {
		LineUp
		Accounts []string `json:"accounts,omitempty"`
		Account  *string  `json:"account"`
	}
	uuid := func(id models.AccountID) string {
		_, uuid, _ := strings.Cut(string(id), "_")
		return uuid
	}
	rows := make([]row, len(asked))
	for i, a := range asked {
		rows[i] = row{LineUp: a, Accounts: lo.Map(a.Accounts, func(id models.AccountID, _ int) string { return uuid(id) })}
		if a.AccountID != "" {
			rows[i].Account = new(uuid(a.AccountID))
		}
	}
	text, err := json.Marshal(rows)
	return string(text), err
}

// CountBlocking returns, for each of these jobs, how many jobs it waits for, and the ids of
// the first ten.
func CountBlocking(ctx context.Context, db bun.IDB, ids []models.JobID) ([]Blocking, error) {
	var found []Blocking
	err := db.NewRaw(`
		SELECT d.job_id, count(*) AS count, (array_agg('job_' || d.depends_on ORDER BY d.depends_on))[:10] AS jobs
		FROM job_dependencies d JOIN jobs j ON j.id = d.depends_on AND j.status <> 'COMPLETED'
		WHERE d.job_id IN (?)
		GROUP BY d.job_id`, bun.List(ids)).Scan(ctx, &found)
	return found, err
}

// Blocking is the set of jobs that a job waits for.
type Blocking struct {
	JobID models.JobID `bun:"job_id"`
	Count int          `bun:"count"`
	Jobs  []string     `bun:"jobs,array"`
}
