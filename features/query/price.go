package query

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// PoolPrice is what a worker of a pool costs for an hour, in US dollars.
type PoolPrice struct {
	PricePerHourUSD float64
	// Source is where it comes from, or "" for the constant price. At is the time that the source
	// states for it.
	Source string
	At     time.Time
	// Stale means that the price is old, and will be ignored.
	Stale bool
	// Problem is why the source gave no price when it was last read, or "".
	Problem string
	// Ahead is how the price changes, as far as the source knows.
	Ahead []capacity.PriceStep
}

// Price returns what a worker of the pool costs now.
func (p *PoolStatus) Price() *PoolPrice { return p.priceAt(time.Now()) }

func (p *PoolStatus) priceAt(now time.Time) *PoolPrice {
	price := &PoolPrice{PricePerHourUSD: p.PriceAt(now), Problem: p.QuoteProblem, Ahead: []capacity.PriceStep{}}
	switch {
	case p.PriceSource == "":
		return price
	case p.Quoted(now):
		price.Source, price.At, price.Stale = p.PriceSource, p.QuotedAt, p.PriceStale(now)
		price.Ahead = append(price.Ahead, p.PricesAhead(now, now.Add(maxAhead))...)
	case p.QuotedUSD != nil && price.Problem == "":
		price.Problem = fmt.Sprintf("The last price of the source %s is of %s, which is too old.", p.PriceSource,
			text.Moment(p.QuotedAt.UTC(), now))
	case price.Problem == "":
		price.Problem = fmt.Sprintf("The source %s has given no price yet. Is it in the REELAY_PRICES of control?", p.PriceSource)
	}
	return price
}

// LossesPerHour returns how many attempts the pool loses per hour of work, to preemption or
// otherwise. Old ones count less. It is nil before the pool has worked.
func (p *PoolStatus) LossesPerHour() *float64 {
	for _, plan := range p.CheckpointPlans {
		if plan.BusyHours > 0 {
			rate := plan.Losses / plan.BusyHours
			return &rate
		}
	}
	return nil
}

const (
	// maxAhead is how far ahead prices are shown.
	maxAhead = 7 * 24 * time.Hour
	// maxPriceHours is how far prices go back, and maxPrices how many of a pool are returned.
	maxPriceHours = 30 * 24
	maxPrices     = 1000
)

// PriceHistories returns what the workers of these pools cost in the last hours, 1 to 720, each
// pool's oldest first. The first is the price at the beginning, if it was known.
func (r *Fleet) PriceHistories(ctx context.Context, pools []models.PoolID, hours int) (map[models.PoolID][]*capacity.PriceStep, error) {
	if hours < 1 || hours > maxPriceHours {
		return nil, apierror.Invalid("hours", "hours must be from 1 to %d.", maxPriceHours)
	}
	points, err := capacity.ListPrices(ctx, r.db, pools, time.Duration(hours)*time.Hour, maxPrices)
	found := make(map[models.PoolID][]*capacity.PriceStep, len(pools))
	for _, p := range points {
		found[p.PoolID] = append(found[p.PoolID], &p.PriceStep)
	}
	return found, apierror.Wrap(err, "list prices")
}
