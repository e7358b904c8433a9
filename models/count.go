package models

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"
)

// Count is what changes of jobs do to counters: of their accounts, and of the lines
// that they leave. Each account and each place is there once.
type Count struct {
	Accounts []AccountCount
	Left     []LineCount
}

// AccountCount is by how much an account's counters change.
type AccountCount struct {
	ID              AccountID
	Queued, Running int
	// Counted is what that did, once it is written.
	Counted Counted
}

// LineCount is how many queued jobs leave an account's place in a line, and the
// estimated GPU seconds of those that are given to workers.
type LineCount struct {
	AccountID AccountID
	Line
	Jobs       int
	GPUSeconds float64
	// VirtualTime is the account's new one, once it is written.
	VirtualTime float64
}

// writeCountSQL counts on accounts as AddToAccount does. An account's virtual time
// advances by what it was given: estimated GPU seconds over its weight, or nothing
// for jobs that left without being leased.
const writeCountSQL = `
	WITH counted AS (
		UPDATE accounts a SET queued = a.queued + n.queued, running = a.running + n.running, version = a.version + 1
		FROM unnest($1::uuid[], $2::integer[], $3::integer[]) AS n (id, queued, running)
		WHERE a.id = n.id
		RETURNING a.id, a.version, a.running >= a.max_running AS capped, a.running - n.running >= a.max_running AS was_capped),
	left_lines AS (
		UPDATE account_lanes l SET queued = l.queued - n.jobs, virtual_time = l.virtual_time + n.gpu_seconds / a.weight
		FROM unnest($4::uuid[], $5::text[], $6::boolean[], $7::integer[], $8::float8[]) AS n (id, lane, promoted, jobs, gpu_seconds)
		JOIN accounts a ON a.id = n.id
		WHERE l.account_id = n.id AND l.lane = n.lane AND l.promoted = n.promoted
		RETURNING l.account_id, l.lane, l.promoted, l.virtual_time)
	SELECT id, version, capped, was_capped, NULL, NULL, NULL FROM counted
	UNION ALL SELECT account_id, NULL, NULL, NULL, lane, promoted, virtual_time FROM left_lines`

// Write counts on locked accounts.
func (c *Count) Write(ctx context.Context, tx bun.Tx) error {
	if len(c.Accounts)+len(c.Left) == 0 {
		return nil
	}
	rows, err := prepared(ctx, tx, writeCountSQL,
		column(c.Accounts, func(a AccountCount) *[16]byte { return uuidOf(a.ID) }),
		column(c.Accounts, func(a AccountCount) int { return a.Queued }),
		column(c.Accounts, func(a AccountCount) int { return a.Running }),
		column(c.Left, func(l LineCount) *[16]byte { return uuidOf(l.AccountID) }),
		column(c.Left, func(l LineCount) string { return string(l.Lane) }),
		column(c.Left, func(l LineCount) bool { return l.Promoted }),
		column(c.Left, func(l LineCount) int { return l.Jobs }),
		column(c.Left, func(l LineCount) float64 { return l.GPUSeconds }))
	found := 0
	err = scan(rows, err, func(rows *sql.Rows) error {
		found++
		var id AccountID
		var version sql.NullInt64
		var capped, wasCapped, promoted sql.NullBool
		var lane sql.NullString
		var at sql.NullFloat64
		if err := rows.Scan(&id, &version, &capped, &wasCapped, &lane, &promoted, &at); err != nil {
			return err
		}
		for i := range c.Accounts {
			if a := &c.Accounts[i]; version.Valid && a.ID == id {
				a.Counted = Counted{Version: version.Int64, Capped: capped.Bool, WasCapped: wasCapped.Bool}
			}
		}
		for i := range c.Left {
			if l := &c.Left[i]; lane.Valid && l.AccountID == id && l.Line == (Line{Lane: Tier(lane.String), Promoted: promoted.Bool}) {
				l.VirtualTime = at.Float64
			}
		}
		return nil
	})
	if err == nil && found < len(c.Accounts)+len(c.Left) {
		return sql.ErrNoRows
	}
	return err
}
