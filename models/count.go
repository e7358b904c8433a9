package models

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
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
	// Bounded tells that the account must have room in its queue for Queued more.
	Bounded bool
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

// count counts on accounts: none comes to run more jobs than it may. It locks them in the
// order of their ids, and their places in the lines after them. An account's virtual time
// advances by what it was given: estimated GPU seconds over its weight, or nothing for
// jobs that left without being leased.
func (s *statement) count(c *Count) {
	if len(c.Accounts) > 0 {
		s.counted = fmt.Sprintf("(SELECT count(*) FROM part_%d) >= 0", len(s.parts))
		slices.SortFunc(c.Accounts, func(a, b AccountCount) int { return bytes.Compare(uuidOf(a.ID)[:], uuidOf(b.ID)[:]) })
		s.addRead(fmt.Sprintf(`
			UPDATE accounts a SET queued = a.queued + n.queued, running = a.running + n.running, version = a.version + 1
			FROM unnest(%s, %s, %s, %s) AS n (id, queued, running, bounded)
			JOIN (SELECT id FROM accounts WHERE id = ANY (%s) ORDER BY id FOR NO KEY UPDATE) held USING (id)
			WHERE a.id = n.id AND (n.running <= 0 OR a.running + n.running <= a.max_running)
				AND (NOT n.bounded OR a.queued + n.queued <= a.max_queued)
			RETURNING a.id, a.version, a.running >= a.max_running AS capped, a.running - n.running >= a.max_running AS was_capped`,
			s.arg(column(c.Accounts, func(a AccountCount) *[16]byte { return uuidOf(a.ID) }), "uuid[]"),
			s.arg(column(c.Accounts, func(a AccountCount) int { return a.Queued }), "integer[]"),
			s.arg(column(c.Accounts, func(a AccountCount) int { return a.Running }), "integer[]"),
			s.arg(column(c.Accounts, func(a AccountCount) bool { return a.Bounded }), "boolean[]"),
			s.arg(column(c.Accounts, func(a AccountCount) *[16]byte { return uuidOf(a.ID) }), "uuid[]")), len(c.Accounts), ErrNoRoom, c.counted)
	}
	if len(c.Left) > 0 {
		s.addRead(fmt.Sprintf(`
			UPDATE account_lanes l SET queued = l.queued - n.jobs, virtual_time = l.virtual_time + n.gpu_seconds / a.weight
			FROM unnest(%s, %s, %s, %s, %s) AS n (id, lane, promoted, jobs, gpu_seconds)
			JOIN accounts a ON a.id = n.id
			WHERE l.account_id = n.id AND l.lane = n.lane AND l.promoted = n.promoted AND %s
			RETURNING l.account_id AS id, l.lane, l.promoted, l.virtual_time`,
			s.arg(column(c.Left, func(l LineCount) *[16]byte { return uuidOf(l.AccountID) }), "uuid[]"),
			s.arg(column(c.Left, func(l LineCount) string { return string(l.Lane) }), "text[]"),
			s.arg(column(c.Left, func(l LineCount) bool { return l.Promoted }), "boolean[]"),
			s.arg(column(c.Left, func(l LineCount) int { return l.Jobs }), "integer[]"),
			s.arg(column(c.Left, func(l LineCount) float64 { return l.GPUSeconds }), "float8[]"), s.counted), len(c.Left), sql.ErrNoRows, c.left)
	}
}

func (c *Count) counted(rows []byte) error {
	var found []struct {
		ID        uuid.UUID
		Version   int64
		Capped    bool
		WasCapped bool `json:"was_capped"`
	}
	err := json.Unmarshal(rows, &found)
	for _, row := range found {
		for i := range c.Accounts {
			if a := &c.Accounts[i]; *uuidOf(a.ID) == row.ID {
				a.Counted = Counted{Version: row.Version, Capped: row.Capped, WasCapped: row.WasCapped}
			}
		}
	}
	return err
}

func (c *Count) left(rows []byte) error {
	var found []struct {
		ID          uuid.UUID
		Lane        Tier
		Promoted    bool
		VirtualTime float64 `json:"virtual_time"`
	}
	err := json.Unmarshal(rows, &found)
	for _, row := range found {
		for i := range c.Left {
			if l := &c.Left[i]; *uuidOf(l.AccountID) == row.ID && l.Line == (Line{Lane: row.Lane, Promoted: row.Promoted}) {
				l.VirtualTime = row.VirtualTime
			}
		}
	}
	return err
}
