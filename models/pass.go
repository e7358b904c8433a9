package models

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/uptrace/bun"
)

// ClaimPass takes the present period of the pass of that name, and tells whether
// it was still to be had. Periods are of PostgreSQL's clock: left is what is left
// of the present one.
//
// Passes of one length begin at different times: all at once, they would hold up the
// requests that come just then.
//
// Callers that saw the clock at the end of a period, and were overtaken, do not
// get it. If the clock was set back by more than a moment, the pass goes on in
// the periods that it then shows.
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

// lateness is how much later than the clock's own periods those of a pass begin: less
// than a third of one.
func lateness(name string, every time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(name))
	return every / 3 * time.Duration(h.Sum32()>>16) >> 16
}
