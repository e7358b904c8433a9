package models

import (
	"context"

	"github.com/uptrace/bun"
)

// ListWorkerAttempts returns the ended attempts of a worker that are older than before, or from the
// newest if it is empty, newest first.
func ListWorkerAttempts(ctx context.Context, db bun.IDB, worker WorkerID, before AttemptID, limit int) (found []*Attempt, err error) {
	query := db.NewSelect().Model(&found).Where("worker_id = ?", worker).Where("ended_at IS NOT NULL")
	if before != "" {
		query = query.Where("id < ?", before)
	}
	err = query.OrderExpr("id DESC NULLS LAST").Limit(int64(limit)).Scan(ctx)
	return found, err
}

// AttemptSum counts the attempts of a worker that ended in one way.
type AttemptSum struct {
	Status           AttemptStatus `bun:"status"`
	FailureClass     FailureClass  `bun:"failure_class"`
	Attempts         int           `bun:"attempts"`
	GPUSeconds       float64       `bun:"gpu_seconds"`
	WastedGPUSeconds float64       `bun:"wasted_gpu_seconds"`
}

// SumWorkerAttempts counts the newest limit ended attempts of a worker by how they ended, the most
// frequent first.
func SumWorkerAttempts(ctx context.Context, db bun.IDB, worker WorkerID, limit int) (found []AttemptSum, err error) {
	err = db.NewRaw(`
		SELECT status, coalesce(failure_class, '') AS failure_class, count(*) AS attempts, sum(gpu_seconds) AS gpu_seconds,
			sum(wasted_gpu_seconds) AS wasted_gpu_seconds
		FROM (
			SELECT * FROM job_attempts WHERE worker_id = ?0 AND ended_at IS NOT NULL ORDER BY id DESC NULLS LAST LIMIT ?1) newest
		GROUP BY 1, 2 ORDER BY count(*) DESC, 1, 2`, worker, limit).Scan(ctx, &found)
	return found, err
}

// WorkerGroup counts workers that have not ended and are alike.
type WorkerGroup struct {
	PoolID  PoolID `bun:"pool_id"`
	Pool    string `bun:"pool"`
	GPUType string `bun:"gpu_type"`
	Region  string `bun:"region"`
	Zone    string `bun:"zone"`

	Workers     int `bun:"workers"`
	Booting     int `bun:"booting"`
	Idle        int `bun:"idle"`
	Busy        int `bun:"busy"`
	Draining    int `bun:"draining"`
	Lost        int `bun:"lost"`
	Quarantined int `bun:"quarantined"`
	Silent      int `bun:"silent"`
	// Versions are the versions of the agents, and Offers is how many different lists of models
	// the workers have, without those that still boot.
	Versions []string `bun:"versions,array"`
	Offers   int      `bun:"offers"`
}

// Disagrees reports whether the group's workers run different agents, or offer different models.
func (g *WorkerGroup) Disagrees() bool { return len(g.Versions) > 1 || g.Offers > 1 }

// ListWorkerGroups counts the workers that have not ended by pool, GPU type, region and zone. Those
// that gave no sign of life for longer than silence seconds are silent.
func ListWorkerGroups(ctx context.Context, db bun.IDB, silence float64) (found []*WorkerGroup, err error) {
	err = db.NewRaw(`
		SELECT w.pool_id, coalesce(p.name, '') AS pool, w.gpu_type, w.region, coalesce(w.zone, '') AS zone, count(*) AS workers,
			count(*) FILTER (WHERE w.status = 'BOOTING') AS booting, count(*) FILTER (WHERE w.status = 'IDLE') AS idle,
			count(*) FILTER (WHERE w.status = 'BUSY') AS busy, count(*) FILTER (WHERE w.status = 'DRAINING') AS draining,
			count(*) FILTER (WHERE w.status = 'LOST') AS lost,
			count(*) FILTER (WHERE w.quarantined_until > clock_timestamp()) AS quarantined,
			count(*) FILTER (WHERE w.status IN ('IDLE', 'BUSY', 'DRAINING') AND w.last_heartbeat_at < clock_timestamp() - make_interval(secs => ?)) AS silent,
			coalesce(array_agg(DISTINCT w.agent_version) FILTER (WHERE w.agent_version <> ''), '{}') AS versions,
			count(DISTINCT w.models) FILTER (WHERE w.status <> 'BOOTING') AS offers
		FROM workers w LEFT JOIN pools p ON p.id = w.pool_id
		WHERE w.ended_at IS NULL
		GROUP BY 1, 2, 3, 4, 5 ORDER BY 2, 3, 4, 5`, silence).Scan(ctx, &found)
	return found, err
}
