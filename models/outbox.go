package models

import (
	"context"
	"encoding/json"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// OutboxKind is the kind of an outbox message.
type OutboxKind string

const (
	// OutboxJobReady says that a job is queued.
	OutboxJobReady OutboxKind = "job.ready"
)

// OutboxHints are the kinds that may be lost: periodic passes find the same work.
var OutboxHints = []OutboxKind{OutboxJobReady}

// OutboxMessage was written in the transaction that it reports.
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

// ClaimOutbox claims the oldest messages for ttl. After ttl other callers can claim them.
func ClaimOutbox(ctx context.Context, db bun.IDB, limit int, ttl time.Duration) (messages []*OutboxMessage, err error) {
	err = db.NewRaw(`
		WITH due AS (
			SELECT id FROM outbox WHERE claimed_until IS NULL OR claimed_until < clock_timestamp()
			ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED)
		UPDATE outbox o SET claimed_until = clock_timestamp() + make_interval(secs => ?)
		FROM due WHERE o.id = due.id
		RETURNING o.id, o.kind, o.payload, o.created_at`, limit, ttl.Seconds()).Scan(ctx, &messages)
	return messages, err
}

// SettleOutbox ends a claim. It deletes the messages that were carried out. It postpones
// refused messages by their age, from 1 second to a day. It releases those that are left.
func SettleOutbox(ctx context.Context, db bun.IDB, carried, refused, left []int64) error {
	if len(carried)+len(refused)+len(left) == 0 {
		return nil
	}
	_, err := db.NewRaw(`
		WITH carried AS (DELETE FROM outbox WHERE id = ANY (?::bigint[]))
		UPDATE outbox SET claimed_until = CASE WHEN id = ANY (?::bigint[]) THEN clock_timestamp() +
			least(greatest(clock_timestamp() - created_at, interval '1 second'), interval '1 day') END
		WHERE id = ANY (?::bigint[])`, pgdialect.Array(carried), pgdialect.Array(refused), pgdialect.Array(append(left, refused...))).Exec(ctx)
	return err
}
