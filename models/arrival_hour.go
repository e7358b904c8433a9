package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// ArrivalHour is how many jobs of a tier for a model were submitted in an hour.
type ArrivalHour struct {
	Model string    `bun:"model"`
	Tier  Tier      `bun:"tier"`
	Hour  time.Time `bun:"hour"`
	Jobs  float64   `bun:"jobs"`
	// GPUSeconds is the catalogue's estimate for all of them.
	GPUSeconds float64 `bun:"gpu_seconds"`
}

// ArrivalHistory is the arrivals of the hours that a forecast is made from. An hour that it does
// not have had none.
type ArrivalHistory struct {
	// Since is when the first hour that was counted began, or zero if there is none.
	Since time.Time
	Hours []ArrivalHour
}

// ForecastWeeks is how many weeks a forecast looks back.
const ForecastWeeks = 4

// ReadArrivalHours returns the hours of the last two days, and of the same two days in each of the
// weeks that a forecast looks back.
func ReadArrivalHours(ctx context.Context, db bun.IDB) (ArrivalHistory, error) {
	var found ArrivalHistory
	var since bun.NullTime
	if err := db.NewRaw("SELECT min(hour) FROM arrival_hours").Scan(ctx, &since); err != nil || since.IsZero() {
		return found, err
	}
	found.Since = since.Time
	err := db.NewRaw(`
		SELECT h.* FROM generate_series(0, ?) AS back (weeks)
		JOIN arrival_hours h ON h.hour > clock_timestamp() - make_interval(hours => 50 + 168 * back.weeks)
			AND h.hour <= clock_timestamp() + make_interval(hours => 2 - 168 * back.weeks)`, ForecastWeeks).Scan(ctx, &found.Hours)
	return found, err
}

// CountArrivalHours adds the jobs that were submitted between two times to their hours, and
// deletes hours that no forecast looks back to.
func CountArrivalHours(ctx context.Context, tx bun.Tx, from, until time.Time) error {
	_, err := tx.NewRaw(`
		WITH forgotten AS (DELETE FROM arrival_hours WHERE hour < ?1::timestamptz - make_interval(weeks => ?2 + 1))
		INSERT INTO arrival_hours AS h (hour, model, tier, jobs, gpu_seconds)
		SELECT date_trunc('hour', created_at), model, tier, count(*), sum(estimated_gpu_seconds)
		FROM jobs WHERE id >= uuid7_floor(?0) AND id < uuid7_floor(?1)
			AND type <> 'workflow.approval' -- they need no worker
			AND (finish_by IS NULL OR finish_by < created_at + interval '1 hour') -- others wait for capacity
		GROUP BY 1, 2, 3
		ON CONFLICT (hour, model, tier) DO UPDATE SET jobs = h.jobs + excluded.jobs, gpu_seconds = h.gpu_seconds + excluded.gpu_seconds`,
		from, until, ForecastWeeks).Exec(ctx)
	return err
}
