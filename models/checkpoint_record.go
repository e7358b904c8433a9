package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// CheckpointRecord is what was measured of the checkpoints of a model on the workers of a pool.
type CheckpointRecord struct {
	PoolID        PoolID        `bun:"pool_id"`
	Pool          string        `bun:"pool"`
	CapacityClass CapacityClass `bun:"capacity_class"`
	Model         string        `bun:"model"`
	// SaveSeconds is how long each of the newest checkpoints stopped its render; Saves is how
	// many were measured at all.
	SaveSeconds []float64 `bun:"seconds,array"`
	Saves       int       `bun:"saves"`
	// Losses and BusyHours are of the whole pool. Old ones count less.
	Losses    float64 `bun:"losses"`
	BusyHours float64 `bun:"busy_hours"`
}

// ListCheckpointRecords returns a record for each model of each pool, by the pool's name and the
// model's, also if nothing was measured. fade is as in CountCheckpoints.
func ListCheckpointRecords(ctx context.Context, db bun.IDB, fade time.Duration) ([]*CheckpointRecord, error) {
	var found []*CheckpointRecord
	err := db.NewRaw(`
		SELECT p.id AS pool_id, p.name AS pool, p.capacity_class, m.model, coalesce(s.seconds, '{}') AS seconds, coalesce(s.saves, 0) AS saves,
			coalesce(l.losses * f.faded, 0) AS losses, coalesce(l.busy_hours * f.faded, 0) AS busy_hours
		FROM pools p
		CROSS JOIN LATERAL (SELECT unnest(p.models) UNION SELECT model FROM checkpoint_saves WHERE pool_id = p.id) m (model)
		LEFT JOIN checkpoint_saves s ON s.pool_id = p.id AND s.model = m.model
		LEFT JOIN pool_losses l ON l.pool_id = p.id
		CROSS JOIN LATERAL (SELECT exp(-extract(epoch FROM greatest(clock_timestamp() - l.until, interval '0'))::float8 / ?) AS faded) f
		ORDER BY p.name, m.model`, fade.Seconds()).Scan(ctx, &found)
	return found, err
}

// CountCheckpoints adds to the records what ended or was saved after one time and up to another:
// the attempts that ended with how long they held their workers, those of them that were lost or
// preempted, and the checkpoints whose duration is known. An attempt that ended for one of the reasons
// in deliberate, or whose worker was drained for one, is not lost. It keeps the newest durations, up
// to newest. What is older than fade counts for less than a third.
func CountCheckpoints(ctx context.Context, tx bun.Tx, from, until time.Time, fade time.Duration, newest int, deliberate []string) error {
	_, err := tx.NewRaw(`
		WITH seen AS MATERIALIZED (
			SELECT e.type, e.created_at, e.attempt_id, w.pool_id, j.model, (e.payload->>'durationSeconds')::float8 AS seconds,
				a.ended_at, extract(epoch FROM a.ended_at - a.leased_at)::float8 / 3600 AS busy_hours,
				(a.status = 'LOST' OR coalesce(a.failure_class IN ('PREEMPTED', 'WORKER_LOST'), false))
					AND coalesce(a.failure_reason, '') <> ALL (?4::text[]) AND coalesce(w.drain_reason, '') <> ALL (?4::text[]) AS lost
			FROM job_events e
			JOIN job_attempts a ON a.id = e.attempt_id
			JOIN workers w ON w.id = a.worker_id
			JOIN jobs j ON j.id = e.job_id
			WHERE e.created_at > ?0 AND e.created_at <= ?1 AND w.pool_id IS NOT NULL
				AND e.type IN ('CHECKPOINTED', 'RELEASED', 'LOST', 'REQUEUED', 'RETRY_SCHEDULED', 'COMPLETED', 'FAILED', 'CANCELLED')
		),
		ended AS ( -- an end can have several events
			SELECT DISTINCT attempt_id, pool_id, busy_hours, lost FROM seen WHERE ended_at > ?0 AND ended_at <= ?1
		),
		losses_written AS (
			INSERT INTO pool_losses AS l (pool_id, losses, busy_hours, until)
			SELECT pool_id, count(*) FILTER (WHERE lost), sum(greatest(busy_hours, 0)), ?1 FROM ended GROUP BY pool_id
			ON CONFLICT (pool_id) DO UPDATE SET until = excluded.until,
				losses = excluded.losses + l.losses * exp(-extract(epoch FROM greatest(excluded.until - l.until, interval '0'))::float8 / ?2),
				busy_hours = excluded.busy_hours + l.busy_hours * exp(-extract(epoch FROM greatest(excluded.until - l.until, interval '0'))::float8 / ?2)
		)
		INSERT INTO checkpoint_saves AS s (pool_id, model, seconds, saves)
		SELECT pool_id, model, (array_agg(seconds ORDER BY created_at DESC))[:?3], count(*) FROM seen
		WHERE type = 'CHECKPOINTED' AND seconds > 0 GROUP BY pool_id, model
		ON CONFLICT (pool_id, model) DO UPDATE SET saves = s.saves + excluded.saves, seconds = (excluded.seconds || s.seconds)[:?3]`,
		from, until, fade.Seconds(), newest, pgdialect.Array(deliberate)).Exec(ctx)
	return err
}
