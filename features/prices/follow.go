package prices

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Follower keeps the prices of pools in the database up to date. Any number of processes may run
// its pass; each reading of a source goes to one of them. They should have the same sources.
type Follower struct {
	DB      *bun.DB
	Sources []*Source
	// Claim assigns the readings of the sources to processes.
	Claim func(ctx context.Context, name string, every time.Duration) (mine bool, left time.Duration, err error)

	// limit bounds a reading; readLimit if it is 0.
	limit time.Duration
}

// Every is the time between two passes. A price that is known ahead counts at most so much late.
const Every = 10 * time.Second

// Pass reads the sources whose time has come and that a pool names, makes prices that have begun
// count, and adds what has changed to the history. A source that fails or hangs changes no price:
// its pools keep the last one, which becomes stale, and say why.
func (f *Follower) Pass(ctx context.Context) error {
	pools, err := capacity.ListPools(ctx, f.DB, capacity.NoPoolLock)
	if err != nil {
		return fmt.Errorf("list pools: %w", err)
	}
	used := map[string]bool{}
	for _, p := range pools {
		used[p.PriceSource] = true
	}
	failed := []error{f.record(ctx)}
	var mu sync.Mutex
	var readings sync.WaitGroup
	for _, s := range f.Sources {
		if !used[s.Name] {
			continue
		}
		mine, _, err := f.Claim(ctx, "prices of "+s.Name, s.every())
		if err != nil {
			return fmt.Errorf("claim a reading of the source %s: %w", s.Name, err)
		}
		if !mine {
			continue
		}
		readings.Go(func() {
			err := f.follow(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
		})
	}
	readings.Wait()
	return errors.Join(append(failed, f.record(ctx))...)
}

// record makes prices that have begun count, and adds what has changed to the history.
func (f *Follower) record(ctx context.Context) error {
	err := jobs.InTx(ctx, f.DB, func(ctx context.Context, tx bun.Tx) error {
		pools, err := capacity.LockPoolsToAdvance(ctx, tx)
		if err != nil || len(pools) == 0 {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		for _, p := range pools {
			if p.Advance(now) {
				if err := capacity.SetQuote(ctx, tx, p); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make prices count that have begun: %w", err)
	}
	if err := capacity.RecordPrices(ctx, f.DB); err != nil {
		return fmt.Errorf("record the prices of pools: %w", err)
	}
	return nil
}

// follow reads a source, and writes what it says of the pools that name it.
func (f *Follower) follow(ctx context.Context, s *Source) error {
	limit := f.limit
	if limit == 0 {
		limit = readLimit
	}
	said, stays, failed := s.read(ctx, limit)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := jobs.InTx(ctx, f.DB, func(ctx context.Context, tx bun.Tx) error {
		pools, err := capacity.LockPoolsOfSource(ctx, tx, s.Name)
		if err != nil {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		if failed == nil {
			failed = s.timely(said, stays, now)
		}
		for _, p := range pools {
			problem := failed
			if problem == nil {
				problem = s.quote(p, said, stays, now)
			}
			p.QuoteProblem = ""
			if problem != nil {
				p.QuoteProblem = text.Clip(text.Printable("The source "+s.Name+" gives no price: "+problem.Error()), lease.MaxMessageBytes)
			}
			if err := capacity.SetQuote(ctx, tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write the prices of the source %s: %w", s.Name, err)
	}
	if failed != nil {
		return fmt.Errorf("read the source of prices %s: %w", s.Name, failed)
	}
	return nil
}

// timely refuses prices from the future, and those that are too old to count.
func (s *Source) timely(d *document, stays bool, now time.Time) error {
	switch {
	case stays:
		return nil
	case d.at.After(now.Add(maxSkew)):
		return fmt.Errorf("its prices are of %s, which is in the future", text.Moment(d.at.UTC(), now))
	case !d.at.Add(s.ignoreAfter()).After(now):
		return fmt.Errorf("its prices are of %s, which is more than %d minutes ago", text.Moment(d.at.UTC(), now), s.IgnoreAfterMinutes)
	}
	return nil
}

// quote makes what a document says of a pool its quote.
func (s *Source) quote(pool *capacity.Pool, d *document, stays bool, now time.Time) error {
	steps := d.stepsOf(pool, now)
	if len(steps) == 0 {
		return errors.New("it has none for such machines")
	}
	q := capacity.PoolQuote{QuotedAt: d.at, QuoteAhead: steps}
	if q.Advance(now); q.QuotedUSD == nil {
		return errors.New("it has none for such machines yet")
	}
	q.QuoteAhead = q.QuoteAhead[:min(len(q.QuoteAhead), maxSteps)]
	if !stays {
		q.QuoteStaleAt, q.QuoteEndsAt = d.at.Add(s.staleAfter()), d.at.Add(s.ignoreAfter())
	}
	pool.PoolQuote = q
	return nil
}
