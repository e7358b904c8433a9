package alerts

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// AddRefusals adds refused submits to the current minute, and deletes the minutes that are older
// than kept.
func AddRefusals(ctx context.Context, db bun.IDB, refused int, kept time.Duration) error {
	_, err := db.NewRaw(`
		WITH old AS (DELETE FROM submit_refusals WHERE at < clock_timestamp() - make_interval(secs => ?1))
		INSERT INTO submit_refusals AS r (at, refused) VALUES (date_trunc('minute', clock_timestamp()), ?0)
		ON CONFLICT (at) DO UPDATE SET refused = least(r.refused::bigint + excluded.refused, 2147483647)`, refused, kept.Seconds()).Exec(ctx)
	return err
}

// CountRefusals returns how many submits were refused within a time, to the minute.
func CountRefusals(ctx context.Context, db bun.IDB, within time.Duration) (refused int, err error) {
	err = db.NewRaw("SELECT coalesce(sum(refused), 0) FROM submit_refusals WHERE at > clock_timestamp() - make_interval(secs => ?)",
		within.Seconds()).Scan(ctx, &refused)
	return refused, err
}
