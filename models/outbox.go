package models

import (
	"context"
	"encoding/json"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// OutboxKind names what an outbox message is about.
type OutboxKind string

const (
	// OutboxJobReady tells that a job is queued.
	OutboxJobReady OutboxKind = "job.ready"
	// OutboxWebhookDue tells that there are deliveries of an event to make.
	OutboxWebhookDue OutboxKind = "webhook.due"
)

// OutboxHints are the kinds of which nothing is lost with a message: sweeps find
// what it tells of.
var OutboxHints = []OutboxKind{OutboxJobReady, OutboxWebhookDue}

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

// SettleOutbox ends a claim: it deletes the messages that were carried out, puts
// those that were refused off for as long as they are old, from 1 second to a
// day, and gives back those that are left.
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
