package capacity

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// PreemptionRate is how often the spot workers of a region were preempted in the last hour.
type PreemptionRate struct {
	Preempted int `bun:"preempted"`
	// WorkerHours is how long they ran in it, together.
	WorkerHours float64 `bun:"worker_hours"`
}

// PerHour is how many of the workers were preempted in an hour, as a part of them.
func (r PreemptionRate) PerHour() float64 {
	if r.WorkerHours <= 0 {
		return 0
	}
	return float64(r.Preempted) / r.WorkerHours
}

// ReadPreemptionRates returns the rate of each region that had spot workers of a pool in the last
// hour. A worker that left counts as preempted unless it was drained for one of the reasons in
// asked.
func ReadPreemptionRates(ctx context.Context, db bun.IDB, asked []string) (map[string]PreemptionRate, error) {
	var found []struct {
		Region string `bun:"region"`
		PreemptionRate
	}
	err := db.NewRaw(`
		SELECT region, count(*) FILTER (WHERE ended_at IS NOT NULL AND drain_reason <> ALL (?::text[])) AS preempted,
			sum(extract(epoch FROM coalesce(ended_at, now()) - greatest(registered_at, now() - interval '1 hour')))::float8 / 3600 AS worker_hours
		FROM (
			SELECT region, ended_at, coalesce(drain_reason, '') AS drain_reason, registered_at FROM workers
			WHERE ended_at IS NULL AND capacity_class = 'SPOT' AND registered_at IS NOT NULL AND pool_id IS NOT NULL
			UNION ALL
			SELECT region, ended_at, coalesce(drain_reason, '') AS drain_reason, registered_at FROM workers
			WHERE ended_at > now() - interval '1 hour' AND capacity_class = 'SPOT' AND registered_at IS NOT NULL AND pool_id IS NOT NULL) spot
		GROUP BY region`, pgdialect.Array(asked)).Scan(ctx, &found)
	rates := map[string]PreemptionRate{}
	for _, f := range found {
		rates[f.Region] = f.PreemptionRate
	}
	return rates, err
}

// MedianBoots returns the seconds from the creation of a worker to its registration by pool: the median of
// the newest 20 workers, or 0 if no worker has booted.
func MedianBoots(ctx context.Context, db bun.IDB) (map[models.PoolID]float64, error) {
	var found []struct {
		ID      models.PoolID `bun:"id"`
		Seconds float64       `bun:"seconds"`
	}
	err := db.NewRaw(`
		SELECT p.id, coalesce(boots.seconds, 0) AS seconds FROM pools p CROSS JOIN LATERAL (
			SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM took)::float8) AS seconds
			FROM (
				SELECT registered_at - created_at AS took FROM workers
				WHERE pool_id = p.id AND registered_at IS NOT NULL ORDER BY id DESC LIMIT 20) last) boots
		WHERE p.deleted_at IS NULL`).Scan(ctx, &found)
	boots := map[models.PoolID]float64{}
	for _, f := range found {
		boots[f.ID] = f.Seconds
	}
	return boots, err
}

// CountPatientWorkers counts the workers of each pool that run a job of the lane BATCH, or one
// that has slack until its FinishBy.
func CountPatientWorkers(ctx context.Context, db bun.IDB) (map[models.PoolID]int, error) {
	var found []PoolCount
	err := db.NewRaw(`
		SELECT w.pool_id, count(*) AS count FROM jobs j
		JOIN job_attempts a ON a.id = j.current_attempt_id JOIN workers w ON w.id = a.worker_id
		WHERE (j.lane = 'BATCH' OR j.needs LIKE 'cheap%') AND j.status IN ('ASSIGNED', 'RUNNING', 'COMPLETING') AND w.pool_id IS NOT NULL AND w.status = 'BUSY'
		GROUP BY w.pool_id`).Scan(ctx, &found)
	counts := map[models.PoolID]int{}
	for _, f := range found {
		counts[f.PoolID] = f.Count
	}
	return counts, err
}
