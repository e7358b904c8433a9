package models

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// ActFilter narrows the acts that ListActs returns.
type ActFilter struct {
	// Actions are the actions to look for.
	Actions []string
	// Target must be equal, unless it is empty.
	Target string
	// Since and Until bound the time, unless they are zero; Until is excluded.
	Since, Until time.Time
}

// ListActs returns acts of the audit log, newest first, before an id unless it is empty. It reads
// up to limit entries of each action, by the index of actions.
func ListActs(ctx context.Context, db bun.IDB, f ActFilter, before AuditID, limit int) ([]*AuditEntry, error) {
	from, to := auditIDAt(f.Since), auditIDAt(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	if !f.Until.IsZero() {
		to = auditIDAt(f.Until)
	}
	if before != "" && before < to {
		to = before
	}
	acts := []*AuditEntry{}
	err := db.NewRaw(`
		SELECT au.* FROM unnest(?0::text[]) AS one(action)
		CROSS JOIN LATERAL (
			SELECT * FROM audit_log l
			WHERE l.action = one.action AND l.id >= ?1 AND l.id < ?2 AND (?3 = '' OR l.target = ?3)
			ORDER BY l.id DESC LIMIT ?4) au
		ORDER BY au.id DESC LIMIT ?4`, pgdialect.Array(f.Actions), from, to, f.Target, limit).Scan(ctx, &acts)
	return acts, err
}

// Setup is the version and the settings with which a process of a kind started last. It has no
// secrets.
type Setup struct {
	Version  string            `json:"version"`
	Settings map[string]string `json:"settings"`
}

// SwapSetup stores the setup of a kind of process and returns the one before, or nil for the
// first. It locks the kind's row until the transaction ends.
func SwapSetup(ctx context.Context, tx bun.Tx, kind ProcessKind, now Setup) (*Setup, error) {
	data, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	var first bool
	err = tx.NewRaw("INSERT INTO process_setups (kind, setup) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING true", kind,
		json.RawMessage(data)).Scan(ctx, &first)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	var was string
	if err := tx.NewRaw("SELECT setup FROM process_setups WHERE kind = ? FOR UPDATE", kind).Scan(ctx, &was); err != nil {
		return nil, err
	}
	before := new(Setup)
	if err := json.Unmarshal([]byte(was), before); err != nil {
		return nil, err
	}
	_, err = tx.NewRaw("UPDATE process_setups SET setup = ?, at = clock_timestamp() WHERE kind = ?", json.RawMessage(data), kind).Exec(ctx)
	return before, err
}
