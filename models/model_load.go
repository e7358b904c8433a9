package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// ModelLoad is what was measured of the loads of a model on the workers of a pool, or on those of a
// GPU type that have no pool.
type ModelLoad struct {
	PoolID  PoolID `bun:"pool_id"`
	GPUType string `bun:"gpu_type"`
	Model   string `bun:"model"`
	// LoadSeconds is how long the newest loads took, newest first, and FetchSeconds how long the
	// weights were downloaded before: 0 if they were on the machine.
	LoadSeconds  []float64 `bun:"load_seconds,array"`
	FetchSeconds []float64 `bun:"fetch_seconds,array"`
	// Loads is how many were measured at all.
	Loads int `bun:"loads"`
}

// ListModelLoads returns what was measured, by pool, GPU type and model.
func ListModelLoads(ctx context.Context, db bun.IDB) ([]*ModelLoad, error) {
	var found []*ModelLoad
	err := db.NewRaw("SELECT * FROM model_loads ORDER BY pool_id, gpu_type, model").Scan(ctx, &found)
	return found, err
}

// CountModelLoads adds the loads that were reported after one time and up to another. It keeps the
// newest durations, up to newest. The model is the job's: the event of a deleted job has none.
func CountModelLoads(ctx context.Context, tx bun.Tx, from, until time.Time, newest int) error {
	_, err := tx.NewRaw(`
		INSERT INTO model_loads AS l (pool_id, gpu_type, model, load_seconds, fetch_seconds, loads)
		SELECT w.pool_id, w.gpu_type, j.model,
			(array_agg((e.payload->>'loadSeconds')::float8 ORDER BY e.created_at DESC, e.job_id))[:?2],
			(array_agg((e.payload->>'fetchSeconds')::float8 ORDER BY e.created_at DESC, e.job_id))[:?2], count(*)
		FROM job_events e
		JOIN job_attempts a ON a.id = e.attempt_id
		JOIN workers w ON w.id = a.worker_id
		JOIN jobs j ON j.id = e.job_id
		WHERE e.created_at > ?0 AND e.created_at <= ?1 AND e.type = 'LOADED'
		GROUP BY w.pool_id, w.gpu_type, j.model
		ON CONFLICT (pool_id, gpu_type, model) DO UPDATE SET loads = l.loads + excluded.loads,
			load_seconds = (excluded.load_seconds || l.load_seconds)[:?2], fetch_seconds = (excluded.fetch_seconds || l.fetch_seconds)[:?2]`,
		from, until, newest).Exec(ctx)
	return err
}
