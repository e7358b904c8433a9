package models

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// GPUSample is one GPU at one moment. Nil is not known.
type GPUSample struct {
	// Index is which of the machine's GPUs it is, from 0.
	Index int `json:"index"`
	// Utilization is from 0 to 1.
	Utilization      *float64 `json:"utilization,omitempty"`
	MemoryUsedBytes  *int64   `json:"memoryUsedBytes,omitempty"`
	MemoryTotalBytes *int64   `json:"memoryTotalBytes,omitempty"`
	TemperatureC     *float64 `json:"temperatureC,omitempty"`
	PowerW           *float64 `json:"powerW,omitempty"`
	// ECCUncorrected is how many errors its memory could not correct since the driver was loaded.
	ECCUncorrected *int64 `json:"eccUncorrected,omitempty"`
	// Xid is the driver's newest error.
	Xid *int `json:"xid,omitempty"`
}

// Faulty reports whether the GPU has had an error that makes it suspect.
func (g *GPUSample) Faulty() bool {
	return g.ECCUncorrected != nil && *g.ECCUncorrected > 0 || g.Xid != nil && *g.Xid > 0
}

// GPUState is the newest sample of a worker's GPU, and when it was reported.
type GPUState struct {
	GPUSample
	WorkerID WorkerID
	At       time.Time
}

// ListGPUs returns the GPUs of these workers, each worker's by index.
func ListGPUs(ctx context.Context, db bun.IDB, workers []WorkerID) ([]*GPUState, error) {
	var rows []struct {
		WorkerID  WorkerID        `bun:"worker_id"`
		GPUs      json.RawMessage `bun:"gpus"`
		SampledAt time.Time       `bun:"sampled_at"`
	}
	err := db.NewRaw("SELECT worker_id, gpus, sampled_at FROM worker_gpus WHERE worker_id = ANY (?::uuid[])",
		postgres.UUIDArray(workers)).Scan(ctx,
		&rows)
	if err != nil {
		return nil, err
	}
	var all []*GPUState
	for _, row := range rows {
		var samples []GPUSample
		if err := json.Unmarshal(row.GPUs, &samples); err != nil {
			return nil, fmt.Errorf("read the GPUs of worker %s: %w", row.WorkerID, err)
		}
		for _, s := range samples {
			all = append(all, &GPUState{s, row.WorkerID, row.SampledAt})
		}
	}
	return all, nil
}

// PoolGPUs sums up the GPUs of a pool's workers that reported them within the last minute. Means
// and maxima are nil if no GPU tells.
type PoolGPUs struct {
	Pool         string   `bun:"pool"` // "" for workers without one
	Count        int      `bun:"gpus"`
	Faulty       int      `bun:"faulty"`
	Utilization  *float64 `bun:"utilization"`
	MemoryUsed   *float64 `bun:"memory_used"` // from 0 to 1
	TemperatureC *float64 `bun:"temperature"` // of the hottest
	PowerW       *float64 `bun:"power"`       // of all
}

// SumPoolGPUs returns the sums of all pools that have any.
func SumPoolGPUs(ctx context.Context, db bun.IDB) ([]PoolGPUs, error) {
	var found []PoolGPUs
	err := db.NewRaw(`
		SELECT coalesce(p.name, '') AS pool, count(*) AS gpus,
			count(*) FILTER (WHERE g."eccUncorrected" > 0 OR g.xid > 0) AS faulty,
			avg(g.utilization) AS utilization, sum(g."memoryUsedBytes") FILTER (WHERE g."memoryTotalBytes" > 0) / nullif(sum(g."memoryTotalBytes"), 0) AS memory_used,
			max(g."temperatureC") AS temperature, sum(g."powerW") AS power
		FROM worker_gpus s
		JOIN workers w ON w.id = s.worker_id AND w.ended_at IS NULL
		LEFT JOIN pools p ON p.id = w.pool_id
		CROSS JOIN LATERAL jsonb_to_recordset(s.gpus) AS g (utilization float8, "memoryUsedBytes" float8, "memoryTotalBytes" float8,
			"temperatureC" float8, "powerW" float8, "eccUncorrected" float8, xid integer)
		WHERE s.sampled_at > clock_timestamp() - interval '1 minute'
		GROUP BY 1 ORDER BY 1`).Scan(ctx, &found)
	return found, err
}
