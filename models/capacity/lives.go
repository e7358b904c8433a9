package capacity

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Lives are how long the newest workers of a spot pool have lived, in seconds since their registration,
// and whether each was taken away then.
type Lives struct {
	models.Offer
	Seconds []float64 `bun:"seconds,array"`
	Taken   []bool    `bun:"taken,array"`
}

// ListLives returns the lives of the spot pools that are not paused and that run one of these models:
// of each pool those of its newest workers, at most limit. A worker that ended was taken away unless it
// was drained for one of the reasons in asked.
func ListLives(ctx context.Context, db bun.IDB, names []string, limit int, asked []string) (found []*Lives, err error) {
	err = db.NewRaw(`
		SELECT models, tiers, accounts, gpu_type, region, capacity_class, pool_price(p) AS price_per_hour_usd,
			coalesce(seconds, '{}') AS seconds, coalesce(taken, '{}') AS taken
		FROM pools p CROSS JOIN LATERAL (
			SELECT array_agg(extract(epoch FROM coalesce(ended_at, clock_timestamp()) - registered_at)::float8) AS seconds,
				array_agg(ended_at IS NOT NULL AND coalesce(drain_reason, '') <> ALL (?1::text[])) AS taken
			FROM (
				SELECT registered_at, ended_at, drain_reason FROM workers
				WHERE pool_id = p.id AND registered_at IS NOT NULL ORDER BY id DESC LIMIT ?2) newest) lives
		WHERE deleted_at IS NULL AND paused_at IS NULL AND capacity_class = 'SPOT' AND models && ?0::text[]`,
		postgres.TextArray(names), postgres.TextArray(asked), limit).Scan(ctx, &found)
	return found, err
}
