package capacity

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// PoolQuote is what a pool's price source said last. It is empty if it has said nothing.
type PoolQuote struct {
	// QuotedUSD is the price of one worker for an hour, or nil.
	QuotedUSD *float64 `bun:"quoted_usd"`
	// QuotedAt is the time that the source states for the price.
	QuotedAt time.Time `bun:"quoted_at,nullzero"`
	// QuoteStaleAt is from when the price is stale, and QuoteEndsAt from when it no longer counts.
	// Zero means never.
	QuoteStaleAt time.Time `bun:"quote_stale_at,nullzero"`
	QuoteEndsAt  time.Time `bun:"quote_ends_at,nullzero"`
	// QuoteAhead is what the source knows of the hours to come, in order.
	QuoteAhead []PriceStep `bun:"quote_ahead,type:jsonb"`
	// QuoteProblem is why the source gave no price when it was last read, or "".
	QuoteProblem string `bun:"quote_problem"`
}

// PriceStep is what a worker costs per hour from a time on, in US dollars.
type PriceStep struct {
	From            time.Time `bun:"from" json:"from"`
	PricePerHourUSD float64   `bun:"price_per_hour_usd" json:"pricePerHourUsd"`
}

// PriceAt is what a worker of the pool costs per hour at a time, in US dollars: what the price
// source said, if that still counts then, or else the price of the pool. The SQL function
// pool_price returns the same.
func (p *Pool) PriceAt(at time.Time) float64 {
	if !p.Quoted(at) {
		return p.PricePerHourUSD
	}
	price := *p.QuotedUSD
	for _, step := range p.QuoteAhead {
		if !step.From.After(at) {
			price = step.PricePerHourUSD
		}
	}
	return price
}

// Quoted reports whether the price at a time is the one of the price source.
func (p *Pool) Quoted(at time.Time) bool {
	return p.QuotedUSD != nil && (p.QuoteEndsAt.IsZero() || p.QuoteEndsAt.After(at))
}

// PriceStale reports whether the price at a time is one of the price source that is stale.
func (p *Pool) PriceStale(at time.Time) bool {
	return p.Quoted(at) && !p.QuoteStaleAt.IsZero() && !p.QuoteStaleAt.After(at)
}

// PricesAhead returns how the price changes after a time, up to another, as far as that is known.
func (p *Pool) PricesAhead(after, until time.Time) []PriceStep {
	var found []PriceStep
	for _, step := range p.QuoteAhead {
		if step.From.After(after) && !step.From.After(until) && p.Quoted(step.From) {
			found = append(found, step)
		}
	}
	return found
}

// Advance makes the newest step that has begun the price, and reports whether one has.
func (q *PoolQuote) Advance(now time.Time) (changed bool) {
	for len(q.QuoteAhead) > 0 && !q.QuoteAhead[0].From.After(now) {
		price := q.QuoteAhead[0].PricePerHourUSD
		q.QuotedUSD, q.QuoteAhead, changed = &price, q.QuoteAhead[1:], true
	}
	return changed
}

// LockPoolsOfSource returns the pools that have a price source, by name, locked.
func LockPoolsOfSource(ctx context.Context, tx bun.Tx, source string) ([]*Pool, error) {
	var pools []*Pool
	err := locked(tx.NewSelect().Model(&pools), PoolsToWrite).Where("p.deleted_at IS NULL AND p.price_source = ?",
		source).Order("p.name").Scan(ctx)
	return pools, err
}

// LockPoolsToAdvance returns the pools with a price that has begun but is not their quote yet,
// by name, locked.
func LockPoolsToAdvance(ctx context.Context, tx bun.Tx) ([]*Pool, error) {
	var pools []*Pool
	err := locked(tx.NewSelect().Model(&pools), PoolsToWrite).
		Where("p.deleted_at IS NULL AND (p.quote_ahead->0->>'from')::timestamptz <= clock_timestamp()").Order("p.name").Scan(ctx)
	return pools, err
}

// SetQuote writes the quote of a pool that the caller has locked.
func SetQuote(ctx context.Context, tx bun.Tx, p *Pool) error {
	_, err := tx.NewUpdate().Model(p).WherePK().
		Column("quoted_usd", "quoted_at", "quote_stale_at", "quote_ends_at", "quote_ahead", "quote_problem").Exec(ctx)
	return err
}

// SetBatchWaits writes whether jobs of BATCH wait for cheaper workers than those of a pool.
func SetBatchWaits(ctx context.Context, db bun.IDB, id models.PoolID, waits bool) error {
	_, err := db.NewRaw("UPDATE pools SET batch_waits = ? WHERE id = ?", waits, id).Exec(ctx)
	return err
}

// SetClosedUntil writes when the active hours of a pool begin again, or zero within them.
func SetClosedUntil(ctx context.Context, db bun.IDB, id models.PoolID, until time.Time) error {
	_, err := db.NewRaw("UPDATE pools SET closed_until = ? WHERE id = ?", bun.NullTime{Time: until}, id).Exec(ctx)
	return err
}

// RecordPrices adds to the history the prices that have changed since it was last called. [InsertPool] and [UpdatePool] record
// their own: what is left are prices of sources, which begin and end by the clock.
func RecordPrices(ctx context.Context, db bun.IDB) error {
	_, err := db.NewRaw(recordPricesSQL).Exec(ctx)
	return err
}

// recordPrice adds the price of a pool to the history, if it has changed.
func recordPrice(ctx context.Context, db bun.IDB, id models.PoolID) error {
	_, err := db.NewRaw(recordPricesSQL+" AND p.id = ?", id).Exec(ctx)
	return err
}

const recordPricesSQL = `
	INSERT INTO pool_prices (pool_id, since, usd)
	SELECT p.id, clock_timestamp(), pool_price(p) FROM pools p
	LEFT JOIN LATERAL (SELECT usd FROM pool_prices WHERE pool_id = p.id ORDER BY since DESC LIMIT 1) newest ON true
	WHERE p.deleted_at IS NULL AND newest.usd IS DISTINCT FROM pool_price(p)`

// PricePoint is a price of a pool.
type PricePoint struct {
	PoolID models.PoolID `bun:"pool_id"`
	PriceStep
}

// ListPrices returns what the workers of these pools cost for so long, each pool's in order. The
// first of each is the price at that time, if it was known. limit bounds those of each pool; the
// newest are kept.
func ListPrices(ctx context.Context, db bun.IDB, pools []models.PoolID, back time.Duration, limit int) ([]PricePoint, error) {
	var found []PricePoint
	err := db.NewRaw(`
		SELECT p.id AS pool_id, greatest(n.since, s.since) AS "from", n.usd AS price_per_hour_usd
		FROM (SELECT clock_timestamp() - make_interval(secs => ?1) AS since) s, unnest(?0::uuid[]) AS p (id)
		CROSS JOIN LATERAL (
			SELECT since, usd FROM pool_prices
			WHERE pool_id = p.id AND since >= coalesce((SELECT max(since) FROM pool_prices WHERE pool_id = p.id AND since <= s.since), s.since)
			ORDER BY since DESC LIMIT ?2) n
		ORDER BY p.id, n.since`, postgres.UUIDArray(pools), back.Seconds(), limit).Scan(ctx, &found)
	return found, err
}

// DeleteOldPrices removes up to limit prices that no longer held so long ago, and returns how many. Those
// at which a machine of the ledger was paid for stay with it.
func DeleteOldPrices(ctx context.Context, tx bun.Tx, age time.Duration, limit int) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		DELETE FROM pool_prices WHERE (pool_id, since) IN (
			SELECT old.pool_id, old.since FROM pools p
			CROSS JOIN LATERAL (
				SELECT least((SELECT clock_timestamp()) - make_interval(secs => ?0), min(asked_at)) AS at FROM machines WHERE pool_id = p.id) needed
			CROSS JOIN LATERAL (SELECT max(since) AS since FROM pool_prices WHERE pool_id = p.id AND since <= needed.at) held
			JOIN pool_prices old ON old.pool_id = p.id AND old.since < held.since
			LIMIT ?1)`, age.Seconds(), limit).Exec(ctx))
}
