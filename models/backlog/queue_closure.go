package backlog

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Wait is a time in which a job is queued. If To is not empty, the job moves to that lane at its
// end.
type Wait struct {
	Lane  models.Tier
	Model string
	Since time.Time
	Until time.Time
	To    models.Tier
}

// Paused is the part of a Wait in which the queue was closed, by a pause or a halt. Since is when a
// job that has waited as long would have been queued in the lane that it moves to: its wait there
// goes on from the wait before.
type Paused struct {
	Seconds float64   `bun:"seconds"`
	Since   time.Time `bun:"since,nullzero"`
	// Now means that the queue is closed at the end of the wait.
	Now bool `bun:"now"`
}

// ListPaused returns how long the queues of these waits were closed, in their order.
func ListPaused(ctx context.Context, db bun.IDB, waits []Wait) ([]Paused, error) {
	if len(waits) == 0 {
		return nil, nil
	}
	var found []Paused
	err := postgres.Read(ctx, db, `
		SELECT p.seconds, CASE WHEN w.next_lane <> '' THEN
				waiting_since(w.next_lane, w.model, greatest(extract(epoch FROM w.until - w.since)::float8 - p.seconds, 0), w.until) END AS since,
			EXISTS (SELECT FROM queue_closures c WHERE c.lane = w.lane AND c.model IN ('', w.model) AND c.began_at <= w.until AND c.ended_at > w.until) AS now
		FROM unnest(
			(SELECT @lanes::text[]), (SELECT @models::text[]), (SELECT @since::timestamptz[]), (SELECT @until::timestamptz[]),
			(SELECT @next_lanes::text[])) WITH ORDINALITY AS w (lane, model, since, until, next_lane, place)
		CROSS JOIN LATERAL (SELECT paused_seconds(w.lane, w.model, w.since, w.until) AS seconds) p
		ORDER BY w.place`,
		pgx.NamedArgs{
			"lanes":      postgres.Column(waits, func(w Wait) string { return string(w.Lane) }),
			"models":     postgres.Column(waits, func(w Wait) string { return w.Model }),
			"since":      postgres.Column(waits, func(w Wait) time.Time { return w.Since }),
			"until":      postgres.Column(waits, func(w Wait) time.Time { return w.Until }),
			"next_lanes": postgres.Column(waits, func(w Wait) string { return string(w.To) }),
		}, &found)
	return found, err
}

// DeleteOldClosures deletes closures that ended longer than age ago, up to limit.
func DeleteOldClosures(ctx context.Context, db bun.IDB, age time.Duration, limit int) (int, error) {
	return postgres.Affected(db.NewRaw(`
		DELETE FROM queue_closures WHERE id IN (
			SELECT id FROM queue_closures WHERE ended_at < clock_timestamp() - make_interval(secs => ?) LIMIT ?)`, age.Seconds(), limit).Exec(ctx))
}
