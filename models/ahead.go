package models

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/uptrace/bun"
)

// LineUp asks for the jobs of a lane in the order in which they will start.
type LineUp struct {
	Lane Tier `json:"lane"`
	// Models are those that the jobs may be of.
	Models []string `json:"models"`
	// AccountID narrows it to one account, though it be at its cap; "" is all
	// that are not.
	AccountID AccountID `json:"-"`
	// Above are the lanes that come before, less the paused ones.
	Above []Tier `json:"above"`
}

// LinedUp is one job of the answer to the LineUp of that number.
type LinedUp struct {
	Number   int   `bun:"number"`
	ID       JobID `bun:"id"`
	Promoted bool  `bun:"promoted"`
}

// CountAbove counts, of each of what is asked for, up to limit jobs in lanes that
// come before: of the same models, and of accounts that are not at their cap.
func CountAbove(ctx context.Context, db bun.IDB, asked []LineUp, limit int) ([]int, error) {
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	var counts []int
	err = db.NewRaw(`
		SELECT (
			SELECT count(*) FROM (
				SELECT 1 FROM account_lanes l CROSS JOIN LATERAL (
					SELECT 1 FROM jobs
					WHERE status = 'QUEUED' AND lane = l.lane AND account_id = l.account_id AND `+promotedSQL+` = l.promoted
						AND model = ANY (asked.models) LIMIT ?1) queued
				WHERE l.lane = ANY (asked.above) AND l.queued > 0 AND NOT l.capped
				LIMIT ?1) counted)
		FROM ROWS FROM (jsonb_to_recordset(?0::jsonb) AS (above text[], models text[]))
			WITH ORDINALITY AS asked (above, models, number)
		ORDER BY asked.number`, string(text), limit).Scan(ctx, &counts)
	return counts, err
}

// ListLinedUp returns, of each line of what is asked for, the first limit jobs
// in the order in which they would start if nothing changed: each job advances
// its account by its estimated GPU seconds over the account's weight.
func ListLinedUp(ctx context.Context, db bun.IDB, asked []LineUp, limit int) ([]LinedUp, error) {
	type row struct {
		LineUp
		Account *string `json:"account"`
	}
	rows := make([]row, len(asked))
	for i, a := range asked {
		rows[i].LineUp = a
		if a.AccountID != "" {
			_, id, _ := strings.Cut(string(a.AccountID), "_")
			rows[i].Account = &id
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	var found []LinedUp
	err = db.NewRaw(`
		SELECT asked.number - 1 AS number, first.id, line.promoted
		FROM ROWS FROM (jsonb_to_recordset(?0::jsonb) AS (lane text, models text[], account uuid))
			WITH ORDINALITY AS asked (lane, models, account, number)
		CROSS JOIN (VALUES (false), (true)) AS line (promoted)
		CROSS JOIN LATERAL (
			SELECT tagged.id, tagged.start, tagged.queue_order
			FROM (
				SELECT account_id, virtual_time FROM account_lanes
				WHERE lane = asked.lane AND promoted = line.promoted AND queued > 0 AND NOT capped AND asked.account IS NULL
				ORDER BY virtual_time LIMIT ?1) l
			CROSS JOIN LATERAL lined_up(l.account_id, l.virtual_time, asked.lane, line.promoted, asked.models, ?1) tagged
			UNION ALL
			SELECT tagged.id, tagged.start, tagged.queue_order
			FROM account_lanes l
			CROSS JOIN LATERAL lined_up(l.account_id, l.virtual_time, asked.lane, line.promoted, asked.models, ?1) tagged
			WHERE l.account_id = asked.account AND l.lane = asked.lane AND l.promoted = line.promoted
			ORDER BY start, queue_order LIMIT ?1) first
		ORDER BY asked.number, first.start, first.queue_order`, string(text), limit).Scan(ctx, &found)
	return found, err
}

// CountBlocking returns, of each of these jobs, how many jobs it waits for, and
// the ids of the first ten.
func CountBlocking(ctx context.Context, db bun.IDB, ids []JobID) ([]Blocking, error) {
	var found []Blocking
	err := db.NewRaw(`
		SELECT d.job_id, count(*) AS count, (array_agg('job_' || d.depends_on ORDER BY d.depends_on))[:10] AS jobs
		FROM job_dependencies d JOIN jobs j ON j.id = d.depends_on AND j.status <> 'COMPLETED'
		WHERE d.job_id IN (?)
		GROUP BY d.job_id`, bun.List(ids)).Scan(ctx, &found)
	return found, err
}

// Blocking is what a job waits for.
type Blocking struct {
	JobID JobID    `bun:"job_id"`
	Count int      `bun:"count"`
	Jobs  []string `bun:"jobs,array"`
}
