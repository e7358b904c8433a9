package models

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/uptrace/bun"
)

// Pool is capacity of one kind.
type Pool struct {
	bun.BaseModel `bun:"table:pools,alias:p"`

	ID            PoolID        `bun:"id,pk"`
	Name          string        `bun:"name"`
	Provider      string        `bun:"provider"`
	Region        string        `bun:"region"`
	GPUType       string        `bun:"gpu_type"`
	CapacityClass CapacityClass `bun:"capacity_class"`
	Models        []string      `bun:"models,array"`
	MinWorkers    int           `bun:"min_workers"`
	MaxWorkers    int           `bun:"max_workers"`
	// IdleSeconds is how long a worker above the minimum can be idle before it is drained.
	IdleSeconds int       `bun:"idle_seconds"`
	Desired     int       `bun:"desired"`
	CreatedAt   time.Time `bun:"created_at,nullzero,default:now()"`
}

// CapacityClass says whether the provider can take a worker's machine away.
type CapacityClass string

const (
	CapacitySpot     CapacityClass = "SPOT"
	CapacityOnDemand CapacityClass = "ON_DEMAND"
)

// ScalingDecision is what the scaler chose for a pool, and the figures it chose from.
type ScalingDecision struct {
	bun.BaseModel `bun:"table:scaling_decisions,alias:sd"`

	ID     int64           `bun:"id,pk,autoincrement"`
	PoolID PoolID          `bun:"pool_id"`
	At     time.Time       `bun:"at,nullzero,default:clock_timestamp()"`
	From   int             `bun:"from_count"`
	To     int             `bun:"to_count"`
	Reason string          `bun:"reason"`
	Inputs json.RawMessage `bun:"inputs,type:jsonb"`
	Error  string          `bun:"error,nullzero"`
}

// UpsertPool writes a pool, identified by its name, and reads back its id.
func UpsertPool(ctx context.Context, db bun.IDB, p *Pool) error {
	return db.NewInsert().Model(p).
		On("CONFLICT (name) DO UPDATE").
		Set("provider = excluded.provider, region = excluded.region, gpu_type = excluded.gpu_type").
		Set("capacity_class = excluded.capacity_class, models = excluded.models").
		Set("min_workers = excluded.min_workers, max_workers = excluded.max_workers, idle_seconds = excluded.idle_seconds").
		Returning("id, desired, created_at").
		Scan(ctx)
}

// ListPools returns all pools by name.
func ListPools(ctx context.Context, db bun.IDB) ([]*Pool, error) {
	var pools []*Pool
	err := db.NewSelect().Model(&pools).Order("p.name").Scan(ctx)
	return pools, err
}

// GetPools returns the pools with these ids, in no particular order.
func GetPools(ctx context.Context, db bun.IDB, ids []PoolID) ([]*Pool, error) {
	var pools []*Pool
	err := db.NewSelect().Model(&pools).Where("p.id IN (?)", bun.List(ids)).Scan(ctx)
	return pools, err
}

// SetDesired writes the number of workers that the scaler wants in a pool.
func SetDesired(ctx context.Context, db bun.IDB, id PoolID, desired int) error {
	return mustChange(db.NewRaw("UPDATE pools SET desired = ? WHERE id = ?", desired, id).Exec(ctx))
}

// InsertScalingDecision writes a decision.
func InsertScalingDecision(ctx context.Context, db bun.IDB, d *ScalingDecision) error {
	_, err := db.NewInsert().Model(d).Exec(ctx)
	return err
}

// ListScalingDecisions returns the newest decisions of each of these pools,
// newest first, up to limit of each.
func ListScalingDecisions(ctx context.Context, db bun.IDB, pools []PoolID, limit int) ([]*ScalingDecision, error) {
	var found []*ScalingDecision
	err := db.NewRaw(`
		SELECT sd.* FROM unnest(?::uuid[]) AS p (id)
		CROSS JOIN LATERAL (SELECT * FROM scaling_decisions WHERE pool_id = p.id ORDER BY id DESC LIMIT ?) sd
		ORDER BY sd.pool_id, sd.id DESC`, uuidArray(pools), limit).Scan(ctx, &found)
	return found, err
}

// PoolCount is the number of a pool's workers in one state.
type PoolCount struct {
	PoolID PoolID       `bun:"pool_id"`
	Status WorkerStatus `bun:"status"`
	Count  int          `bun:"count"`
}

// CountPoolWorkers counts the workers of all pools that have not ended.
func CountPoolWorkers(ctx context.Context, db bun.IDB) ([]PoolCount, error) {
	var counts []PoolCount
	err := db.NewRaw(`
		SELECT pool_id, status, count(*) AS count FROM workers
		WHERE pool_id IS NOT NULL AND ended_at IS NULL
		GROUP BY pool_id, status`).Scan(ctx, &counts)
	return counts, err
}

// ListPoolWorkers returns the workers of these pools that have not ended.
func ListPoolWorkers(ctx context.Context, db bun.IDB, pools []PoolID) ([]*Worker, error) {
	var workers []*Worker
	err := db.NewSelect().Model(&workers).Where("w.pool_id = ANY (?::uuid[]) AND w.ended_at IS NULL", uuidArray(pools)).Order("w.id").Scan(ctx)
	return workers, err
}

// DrainIdleWorker drains a worker if it is still idle, and reports whether it was.
func DrainIdleWorker(ctx context.Context, tx bun.Tx, id WorkerID, reason string) (bool, error) {
	err := mustChange(tx.NewRaw(
		"UPDATE workers SET status = 'DRAINING', drain_reason = ? WHERE id = ? AND status = 'IDLE'", reason, id).Exec(ctx))
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// SetDecisionError records why a scaling decision could not be carried out.
func SetDecisionError(ctx context.Context, db bun.IDB, id int64, message string) error {
	_, err := db.NewRaw("UPDATE scaling_decisions SET error = ? WHERE id = ?", message, id).Exec(ctx)
	return err
}
