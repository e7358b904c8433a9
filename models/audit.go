package models

import (
	"context"
	"encoding/json"
	"time"

	"github.com/uptrace/bun"
)

// AuditEntry is one act of an operator. Rows never change.
type AuditEntry struct {
	bun.BaseModel `bun:"table:audit_log,alias:au"`

	ID AuditID   `bun:"id,pk"`
	At time.Time `bun:"at,nullzero,default:clock_timestamp()"`
	// KeyID is the key that was used, Actor its name at that time.
	KeyID KeyID  `bun:"key_id"`
	Actor string `bun:"actor"`
	// Action is the name of the API's mutation. Target is usually an id.
	Action  string          `bun:"action"`
	Target  string          `bun:"target,nullzero"`
	Payload json.RawMessage `bun:"payload,type:jsonb"`
}

// InsertAudit records an act. Its Actor is used only if it has no key.
func InsertAudit(ctx context.Context, db bun.IDB, e *AuditEntry) error {
	_, err := db.NewRaw(`
		INSERT INTO audit_log (id, key_id, actor, action, target, payload)
		VALUES (?, ?, coalesce((SELECT name FROM api_keys WHERE id = ?), ?), ?, ?, ?)`,
		e.ID, e.KeyID, e.KeyID, e.Actor, e.Action, nullable(e.Target), e.Payload).Exec(ctx)
	return err
}

// ListAudit returns the acts on a target, or on all targets if it is empty, newest first. If
// before is set, only older ones.
func ListAudit(ctx context.Context, db bun.IDB, target string, before AuditID, limit int) ([]*AuditEntry, error) {
	var entries []*AuditEntry
	q := db.NewSelect().Model(&entries).Order("au.id DESC").Limit(int64(limit))
	if target != "" {
		q = q.Where("au.target = ?", target)
	}
	if before != "" {
		q = q.Where("au.id < ?", before)
	}
	err := q.Scan(ctx)
	return entries, err
}
