package access

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// AuditEntry is one act of an operator. Rows never change.
type AuditEntry struct {
	bun.BaseModel `bun:"table:audit_log,alias:au"`

	ID models.AuditID `bun:"id,pk"`
	At time.Time      `bun:"at,nullzero,default:clock_timestamp()"`
	// KeyID is the key that was used, Actor its name at that time.
	KeyID models.KeyID `bun:"key_id"`
	Actor string       `bun:"actor"`
	// MemberID is the member who acted; empty for a key.
	MemberID models.MemberID `bun:"member_id"`
	// Action is the name of the API's mutation. Target is usually an id.
	Action  string          `bun:"action"`
	Target  string          `bun:"target,nullzero"`
	Payload json.RawMessage `bun:"payload,type:jsonb"`
}

// InsertAudit records an act. Its Actor is used only if it has no key.
func InsertAudit(ctx context.Context, db bun.IDB, e *AuditEntry) error {
	_, err := db.NewRaw(`
		INSERT INTO audit_log (id, key_id, member_id, actor, action, target, payload)
		VALUES (?, ?, ?, coalesce((SELECT name FROM api_keys WHERE id = ?), ?), ?, ?, ?)`,
		e.ID, e.KeyID, e.MemberID, e.KeyID, e.Actor, e.Action, postgres.Nullable(e.Target), e.Payload).Exec(ctx)
	return err
}

// AuditFilter narrows the audit log. Empty fields match everything.
type AuditFilter struct {
	// Actor, Action and Target must be equal.
	Actor, Action, Target string
	// Since and Until bound the time; Until is excluded.
	Since, Until time.Time
}

// ListAudit returns the acts on a target, or on all targets if it is empty, newest first. If
// before is set, only older ones.
func ListAudit(ctx context.Context, db bun.IDB, target string, before models.AuditID, limit int) ([]*AuditEntry, error) {
	return SearchAudit(ctx, db, AuditFilter{Target: target}, before, limit)
}

// SearchAudit returns the acts that match, newest first. If before is set, only older ones.
func SearchAudit(ctx context.Context, db bun.IDB, f AuditFilter, before models.AuditID, limit int) ([]*AuditEntry, error) {
	var entries []*AuditEntry
	q := db.NewSelect().Model(&entries).Order("au.id DESC").Limit(int64(limit))
	for _, equal := range []struct{ column, value string }{{"actor", f.Actor}, {"action", f.Action}, {"target", f.Target}} {
		if equal.value != "" {
			q = q.Where("au.? = ?", bun.Ident(equal.column), equal.value)
		}
	}
	// Ids begin with the time in milliseconds: their order finds the bounds without an index of at.
	if !f.Since.IsZero() {
		q = q.Where("au.id >= ?", auditIDAt(f.Since))
	}
	if !f.Until.IsZero() {
		q = q.Where("au.id < ?", auditIDAt(f.Until))
	}
	if before != "" {
		q = q.Where("au.id < ?", before)
	}
	err := q.Scan(ctx)
	return entries, err
}

// auditIDAt returns the least id of an act at a time.
func auditIDAt(t time.Time) models.AuditID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(max(t.UnixMilli(), 0))<<16)
	return models.AuditID(models.AuditKind + "_" + id.String())
}

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
func ListActs(ctx context.Context, db bun.IDB, f ActFilter, before models.AuditID, limit int) ([]*AuditEntry, error) {
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
