package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// statsDelay is how long PostgreSQL can delay the statistics of an idle session.
const statsDelay = 11 * time.Second

// hot adds the percentage of HOT updates of a table to a contestant, if the database is
// known.
func (s *Site) hot(c Contestant, table string) Contestant {
	if s.DatabaseURL == "" {
		s.Lacks("the share of HOT updates", errors.New("the address of PostgreSQL is not known"))
		return c
	}
	round := c.Round
	c.Round = func(ctx context.Context) (Figures, error) {
		updates, hot, err := s.updates(ctx, table)
		if err != nil {
			return nil, err
		}
		f, err := round(ctx)
		if err != nil {
			return nil, err
		}
		// Sessions report their counts one by one. Those of most operations are enough.
		operations := int64(f["rate"] * s.Effort.Span.Seconds())
		for until := time.Now().Add(statsDelay); ; {
			now, hotNow, err := s.updates(ctx, table)
			if err != nil {
				return nil, err
			}
			if over := time.Now().After(until); now-updates > operations/2 || over && now > updates {
				f["HOT %"] = 100 * float64(hotNow-hot) / float64(now-updates)
				return f, nil
			} else if over {
				return f, nil
			}
			if err := pause(ctx, statsDelay/20); err != nil {
				return nil, err
			}
		}
	}
	return c
}

// updates returns the numbers of updates of a table and its partitions.
func (s *Site) updates(ctx context.Context, table string) (all, hot int64, err error) {
	db, err := pgx.Connect(ctx, s.DatabaseURL)
	if err != nil {
		return 0, 0, fmt.Errorf("count the updates of %s: %w", table, err)
	}
	defer db.Close(ctx)
	err = db.QueryRow(ctx, `SELECT coalesce(sum(n_tup_upd), 0)::bigint, coalesce(sum(n_tup_hot_upd), 0)::bigint
		FROM pg_stat_user_tables WHERE relname = $1`, table).Scan(&all, &hot)
	return all, hot, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
