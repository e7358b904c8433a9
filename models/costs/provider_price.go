package costs

import (
	"context"
	"time"

	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/models/postgres"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// PriceRule is what a hosted provider charges, in US dollars, for the videos that it fits.
type PriceRule struct {
	// Resolution and Audio are what a video must have; "" and nil mean any. A resolution is in lower case.
	Resolution string `bun:"resolution,nullzero" json:"resolution,omitempty"`
	Audio      *bool  `bun:"audio" json:"audio,omitempty"`
	// PerSecondUSD is charged for each second of the video, and PerCallUSD once.
	PerSecondUSD decimal.Decimal `bun:"per_second_usd" json:"per_second_usd"`
	PerCallUSD   decimal.Decimal `bun:"per_call_usd" json:"per_call_usd"`
}

// Same reports whether two rules say the same.
func (r PriceRule) Same(o PriceRule) bool {
	return r.Overlaps(o) && r.PerSecondUSD.Equal(o.PerSecondUSD) && r.PerCallUSD.Equal(o.PerCallUSD)
}

// Overlaps reports whether two rules are for the same videos, so that none of them counts before the other.
func (r PriceRule) Overlaps(o PriceRule) bool {
	return r.Resolution == o.Resolution && (r.Audio == nil) == (o.Audio == nil) && (r.Audio == nil || *r.Audio == *o.Audio)
}

// ProviderPrice is a version of what a provider charges for a model: its rules, of which the most specific holds.
type ProviderPrice struct {
	Provider string `bun:"provider"`
	// Model is the provider's name of the model, or Reelay's for a provider whose address names the model.
	Model string `bun:"model"`
	// Since is when the version begins to hold; the next ends it.
	Since time.Time   `bun:"since"`
	Rules []PriceRule `bun:"rules,type:jsonb"`
	// Until is when the next version begins, or zero if there is none.
	Until time.Time `bun:"until,nullzero"`
	// EnteredAt is when it was written; zero before that.
	EnteredAt time.Time `bun:"entered_at"`
}

// Holds reports whether the version holds at a time.
func (p *ProviderPrice) Holds(at time.Time) bool {
	return !p.Since.After(at) && (p.Until.IsZero() || p.Until.After(at))
}

// MaxProviderPrices bounds the versions that the price book can have.
const MaxProviderPrices = 10_000

// ListProviderPrices returns the versions of a provider's model, or of all for two "", in the order of providers and
// models, the newest of each first.
func ListProviderPrices(ctx context.Context, db bun.IDB, provider, model string) (found []*ProviderPrice, err error) {
	err = db.NewRaw(`
		SELECT provider, model, since, lag(since) OVER (PARTITION BY provider, model ORDER BY since DESC) AS until, min(entered_at) AS entered_at,
			jsonb_agg(jsonb_strip_nulls(jsonb_build_object('resolution', resolution, 'audio', audio, 'per_second_usd', per_second_usd,
				'per_call_usd', per_call_usd)) ORDER BY resolution NULLS FIRST, audio NULLS FIRST) AS rules
		FROM provider_prices WHERE (?0 = '' AND ?1 = '') OR (provider = ?0 AND model = ?1)
		GROUP BY provider, model, since ORDER BY provider, model, since DESC LIMIT ?2`, provider, model, MaxProviderPrices).Scan(ctx, &found)
	return found, err
}

// LockProviderPrices keeps others from adding prices until the transaction ends, so that no two make one version.
func LockProviderPrices(ctx context.Context, tx bun.Tx) error {
	_, err := tx.NewRaw("LOCK TABLE provider_prices IN SHARE ROW EXCLUSIVE MODE").Exec(ctx)
	return err
}

// InsertProviderPrice adds a version, and sets when it was entered.
func InsertProviderPrice(ctx context.Context, tx bun.Tx, p *ProviderPrice) error {
	rules, err := postgres.RowsArg(p.Rules)
	if err != nil {
		return err
	}
	return tx.NewRaw(`
		WITH entered AS (
			INSERT INTO provider_prices (provider, model, since, resolution, audio, per_second_usd, per_call_usd)
			SELECT ?, ?, ?, resolution, audio, per_second_usd, per_call_usd
			FROM jsonb_to_recordset(?::jsonb) AS r (resolution text, audio boolean, per_second_usd numeric, per_call_usd numeric)
			RETURNING entered_at)
		SELECT min(entered_at) FROM entered`, p.Provider, p.Model, p.Since, rules).Scan(ctx, &p.EnteredAt)
}

// ProviderFee returns what a provider charges now for a video that is asked of it, in US dollars. It returns nil if that is
// unknown: the price book has no price of the model or no rule that fits, or the price is by the second and the request
// does not say how many.
func ProviderFee(ctx context.Context, db bun.IDB, kind string, asked provider.Asked) (usd *decimal.Decimal, err error) {
	err = db.NewRaw("SELECT provider_fee(?, ?, clock_timestamp(), ?, ?, ?)", kind, asked.Model, asked.Seconds, asked.Resolution, asked.Audio).
		Scan(ctx, &usd)
	return usd, err
}

// CountUnpricedFees counts the fees of these models of Reelay at a provider that were entered without an amount from a time on,
// and before until unless that is zero.
func CountUnpricedFees(ctx context.Context, db bun.IDB, kind string, models []string, since, until time.Time) (n int, err error) {
	if len(models) == 0 {
		return 0, nil
	}
	err = db.NewRaw(`
		SELECT count(*) FROM ledger WHERE kind = 'FEE' AND provider = ?0 AND model IN (?1) AND at >= ?2 AND (?3::timestamptz IS NULL OR at < ?3)
			AND (useful_usd IS NULL OR wasted_usd IS NULL)`, kind, bun.List(models), since, bun.NullTime{Time: until}).Scan(ctx, &n)
	return n, err
}
