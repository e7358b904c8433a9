package models

import (
	"context"
	"encoding/json"
	"time"

	"github.com/uptrace/bun"
)

// OutboxKind names what an outbox message is about.
type OutboxKind string

// OutboxJobReady tells that a job is queued.
const OutboxJobReady OutboxKind = "job.ready"

// OutboxMessage was written in the transaction that it tells of.
type OutboxMessage struct {
	bun.BaseModel `bun:"table:outbox,alias:o"`

	ID        int64           `bun:"id,pk,autoincrement"`
	Kind      OutboxKind      `bun:"kind"`
	Payload   json.RawMessage `bun:"payload,type:jsonb"`
	CreatedAt time.Time       `bun:"created_at,nullzero,default:clock_timestamp()"`
}

// InsertOutbox writes messages.
func InsertOutbox(ctx context.Context, tx bun.Tx, messages ...*OutboxMessage) error {
	_, err := tx.NewInsert().Model(&messages).Exec(ctx)
	return err
}

// ClaimOutbox takes the oldest messages for as long as ttl: another caller gets
// them only after that.
func ClaimOutbox(ctx context.Context, db bun.IDB, limit int, ttl time.Duration) ([]*OutboxMessage, error) {
	var messages []*OutboxMessage
	err := db.NewRaw(`
		WITH due AS (
			SELECT id FROM outbox WHERE claimed_until IS NULL OR claimed_until < clock_timestamp()
			ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED)
		UPDATE outbox o SET claimed_until = clock_timestamp() + make_interval(secs => ?)
		FROM due WHERE o.id = due.id
		RETURNING o.id, o.kind, o.payload, o.created_at`, limit, ttl.Seconds()).Scan(ctx, &messages)
	return messages, err
}

// DeleteOutbox removes messages that were relayed.
func DeleteOutbox(ctx context.Context, db bun.IDB, ids []int64) error {
	_, err := db.NewRaw("DELETE FROM outbox WHERE id IN (?)", bun.List(ids)).Exec(ctx)
	return err
}
