package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// tooDear returns why a pool gets no more workers at its present price, or "".
func tooDear(p *capacity.Pool, now time.Time) string {
	if price := p.PriceAt(now); p.MaxPricePerHourUSD > 0 && price > p.MaxPricePerHourUSD {
		return fmt.Sprintf("its price of $%g per hour is above its limit of $%g", price, p.MaxPricePerHourUSD)
	}
	return ""
}

// copyPrices writes the present price to the workers of each pool, if it changed.
func copyPrices(ctx context.Context, tx bun.Tx, s snapshot) error {
	var changed []models.PoolID
	for _, p := range s.pools {
		price := p.pool.PriceAt(s.now)
		if slices.ContainsFunc(p.workers, func(w *models.Worker) bool { return w.PricePerHourUSD == nil || *w.PricePerHourUSD != price }) {
			changed = append(changed, p.pool.ID)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if _, err := capacity.CopyToWorkers(ctx, tx, changed); err != nil {
		return fmt.Errorf("write what workers cost: %w", err)
	}
	return nil
}

// samePrice reports whether a change leaves what a price source says of a pool.
func samePrice(before, after capacity.PoolSpec) bool {
	return before.PriceSource == after.PriceSource && before.Provider == after.Provider && before.Region == after.Region &&
		slices.Equal(before.Zones, after.Zones) && before.GPUType == after.GPUType && before.MachineType == after.MachineType &&
		before.CapacityClass == after.CapacityClass
}
