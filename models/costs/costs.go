// Package costs reads the ledger: what each attempt cost, and the fees of hosted providers, entered by PostgreSQL in the
// transaction that ends the attempt. It also has the price book of these providers. Amounts are decimals in US dollars, with
// ten digits after the point, as the ledger has them.
package costs

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Cost is what attempts cost that have ended. An amount is nil if a part of it is unknown: a pool, or a model of a
// hosted provider, had no price.
type Cost struct {
	UsefulSeconds float64 `bun:"useful_seconds"`
	// WastedSeconds are those of which neither a result nor a checkpoint was kept.
	WastedSeconds float64          `bun:"wasted_seconds"`
	UsefulUSD     *decimal.Decimal `bun:"useful_usd"`
	WastedUSD     *decimal.Decimal `bun:"wasted_usd"`
	// ChargedUSD is what the account pays: 0 until the job is complete.
	ChargedUSD *decimal.Decimal `bun:"charged_usd"`
}

// sumsSQL sums up rows of the ledger l. A sum with an unknown part is NULL.
const sumsSQL = `sum(l.useful_seconds) AS useful_seconds, sum(l.wasted_seconds) AS wasted_seconds,
	CASE WHEN count(*) = count(l.useful_usd) THEN sum(l.useful_usd) END AS useful_usd,
	CASE WHEN count(*) = count(l.wasted_usd) THEN sum(l.wasted_usd) END AS wasted_usd,
	CASE WHEN count(*) = count(l.charged_usd) THEN sum(l.charged_usd) END AS charged_usd`

// AttemptCost is what an attempt cost.
type AttemptCost struct {
	JobID     models.JobID     `bun:"job_id"`
	AttemptID models.AttemptID `bun:"attempt_id"`
	Cost
	// Unpriced is the hosted provider whose fee for it is unknown, or "".
	Unpriced string `bun:"unpriced,nullzero"`
}

// OfJobs returns what the attempts of these jobs cost that have ended, in no particular order.
func OfJobs(ctx context.Context, db bun.IDB, jobs []models.JobID) (found []*AttemptCost, err error) {
	err = db.NewRaw(`SELECT l.job_id, l.attempt_id, `+sumsSQL+`,
			max(l.provider) FILTER (WHERE l.provider_key IS NOT NULL AND (l.useful_usd IS NULL OR l.wasted_usd IS NULL)) AS unpriced
		FROM ledger l WHERE l.job_id = ANY (?::uuid[]) GROUP BY l.job_id, l.attempt_id`, postgres.UUIDArray(jobs)).Scan(ctx, &found)
	return found, err
}

// Add adds what other attempts cost.
func (c *Cost) Add(o *Cost) {
	c.UsefulSeconds, c.WastedSeconds = c.UsefulSeconds+o.UsefulSeconds, c.WastedSeconds+o.WastedSeconds
	c.UsefulUSD, c.WastedUSD, c.ChargedUSD = sum(c.UsefulUSD, o.UsefulUSD), sum(c.WastedUSD, o.WastedUSD), sum(c.ChargedUSD, o.ChargedUSD)
}

// Nothing is the cost of no attempts.
func Nothing() Cost {
	return Cost{UsefulUSD: new(decimal.Zero), WastedUSD: new(decimal.Zero), ChargedUSD: new(decimal.Zero)}
}

// sum returns nil if one of the amounts is unknown.
func sum(a, b *decimal.Decimal) *decimal.Decimal {
	if a == nil || b == nil {
		return nil
	}
	return new(a.Add(*b))
}
