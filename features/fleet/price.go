package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// tooDear returns why a pool gets no more workers at its price, or "".
func tooDear(p *models.Pool, now time.Time) string {
	if price := p.PriceAt(now); p.MaxPricePerHourUSD > 0 && price > p.MaxPricePerHourUSD {
		return fmt.Sprintf("its price of $%g per hour is above its limit of $%g", price, p.MaxPricePerHourUSD)
	}
	return ""
}

// copyPrices writes to the workers of each pool what they cost now, if that changed.
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
	if _, err := models.CopyToWorkers(ctx, tx, changed); err != nil {
		return fmt.Errorf("write what workers cost: %w", err)
	}
	return nil
}

// samePrice reports whether a price source says the same of a pool after a change.
func samePrice(before, after models.PoolSpec) bool {
	return before.PriceSource == after.PriceSource && before.Provider == after.Provider && before.Region == after.Region &&
		slices.Equal(before.Zones, after.Zones) && before.GPUType == after.GPUType && before.MachineType == after.MachineType &&
		before.CapacityClass == after.CapacityClass
}

// notePatience writes of each pool whether jobs of BATCH wait for cheaper workers, if that changed.
func notePatience(ctx context.Context, tx bun.Tx, decisions []*decision) error {
	for _, d := range decisions {
		if waits := d.cheaper != ""; waits != d.pool.BatchWaits {
			if err := models.SetBatchWaits(ctx, tx, d.pool.ID, waits); err != nil {
				return fmt.Errorf("note what jobs wait for at pool %s: %w", d.pool.Name, err)
			}
		}
	}
	return nil
}

// noteHours writes of each pool when its active hours begin again, if that changed. Callers learn from it
// until when their jobs wait.
func noteHours(ctx context.Context, tx bun.Tx, decisions []*decision, now time.Time) error {
	for _, d := range decisions {
		var until time.Time
		if OutsideHours(d.pool, now) {
			if hours, err := ParseHours(d.pool.ActiveHours); err == nil {
				until = hours.Opens(now)
			}
		}
		if !until.Equal(d.pool.ClosedUntil) {
			if err := models.SetClosedUntil(ctx, tx, d.pool.ID, until); err != nil {
				return fmt.Errorf("note the hours of pool %s: %w", d.pool.Name, err)
			}
		}
	}
	return nil
}
