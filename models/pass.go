package models

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/uptrace/bun"
)

// ClaimPass claims the current period of a pass. It reports whether the caller got it, and how
// much of the period is left. PostgreSQL's clock defines the periods.
//
// Passes with the same interval begin at different times. Otherwise they would all delay the
// requests of the same moment.
//
// A caller that read the clock in a period that has since been overtaken does not get it. If
// the clock was set back by more than two periods, the pass continues in the periods that the
// clock now shows.
func ClaimPass(ctx context.Context, db bun.IDB, name string, every time.Duration) (mine bool, left time.Duration, err error) {
	var leftSeconds float64
	err = db.NewRaw(`
		WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
		present AS (SELECT now, floor((extract(epoch FROM now)::float8 - ?2) / ?0)::bigint AS period FROM clock),
		claimed AS (
			INSERT INTO passes AS p (name, period, begun_at) SELECT ?1, period, now FROM present
			ON CONFLICT (name) DO UPDATE SET period = EXCLUDED.period, begun_at = EXCLUDED.begun_at
			WHERE EXCLUDED.period > p.period OR EXCLUDED.period < p.period - 2
			RETURNING 1)
		SELECT EXISTS (SELECT FROM claimed), (period + 1) * ?0 + ?2 - extract(epoch FROM now)::float8 FROM present`,
		every.Seconds(), name, lateness(name, every).Seconds()).Scan(ctx, &mine, &leftSeconds)
	return mine, time.Duration(leftSeconds * float64(time.Second)), err
}

// lateness is the offset of a pass's periods from the clock's own. It is less than a third of
// a period.
func lateness(name string, every time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(name))
	return every / 3 * time.Duration(h.Sum32()>>16) >> 16
}
