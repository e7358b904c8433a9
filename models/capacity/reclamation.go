package capacity

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// SpoilingClasses are how attempts end that a host lost or crashed: those that ListEatingHosts counts.
var SpoilingClasses = []models.FailureClass{models.FailModelCrash, models.FailDefectiveResult, models.FailWorkerLost}

// EatingHost is a host whose workers lost or crashed attempts.
type EatingHost struct {
	models.Host
	// WorkerID is its newest worker among them.
	WorkerID models.WorkerID `bun:"worker_id"`
	PoolID   models.PoolID   `bun:"pool_id"`
	Pool     string          `bun:"pool"`
	// Crashed counts the attempts whose model crashed or made a broken video, Lost those whose
	// worker went silent.
	Crashed int `bun:"crashed"`
	Lost    int `bun:"lost"`
	// WastedGPUSeconds is the work that these attempts lost.
	WastedGPUSeconds float64   `bun:"wasted_gpu_seconds"`
	LastAt           time.Time `bun:"last_at"`
	// Drills counts those of the attempts whose model is a drill, which crashes and loses work because
	// somebody asked for it.
	Drills int `bun:"drills"`
	// QuarantinedUntil is until when the host gets no jobs, and QuarantineReason why; zero if it does.
	QuarantinedUntil time.Time `bun:"quarantined_until,nullzero"`
	QuarantineReason string    `bun:"quarantine_reason"`
}

// Rehearsed reports whether all that the host lost and crashed was a drill.
func (h *EatingHost) Rehearsed() bool { return h.Drills > 0 && h.Drills == h.Crashed+h.Lost }

// ListEatingHosts returns the hosts that lost or crashed the most attempts within window, the worst
// first; attempts with the models in drills do not make a host worse. Attempts that an operator or the
// scaler ended for one of the reasons in asked do not count, nor do preemptions.
func ListEatingHosts(ctx context.Context, db bun.IDB, window time.Duration, asked, drills []string, limit int) (found []*EatingHost,
	err error) {
	err = db.NewRaw(`
		SELECT w.provider, w.provider_instance_id, w.pool_id, coalesce(p.name, '') AS pool, (array_agg(w.id ORDER BY w.id DESC))[1] AS worker_id,
			count(*) FILTER (WHERE a.failure_class <> 'WORKER_LOST') AS crashed, count(*) FILTER (WHERE a.failure_class = 'WORKER_LOST') AS lost,
			sum(a.wasted_gpu_seconds) AS wasted_gpu_seconds, max(a.ended_at) AS last_at,
			count(*) FILTER (WHERE j.model = ANY (?3::text[])) AS drills,
			max(q.until) AS quarantined_until, coalesce(max(q.reason), '') AS quarantine_reason
		FROM job_attempts a JOIN jobs j ON j.id = a.job_id JOIN workers w ON w.id = a.worker_id LEFT JOIN pools p ON p.id = w.pool_id
			LEFT JOIN quarantines q ON q.provider = w.provider AND q.provider_instance_id = w.provider_instance_id AND q.until > (SELECT clock_timestamp())
		WHERE a.failure_class IN ('MODEL_CRASH', 'DEFECTIVE_RESULT', 'WORKER_LOST')
			AND a.ended_at > (SELECT clock_timestamp()) - make_interval(secs => ?0)
			AND coalesce(a.failure_reason, '') <> ALL (?1::text[]) AND coalesce(w.drain_reason, '') <> ALL (?1::text[])
		GROUP BY 1, 2, 3, 4
		ORDER BY count(*) FILTER (WHERE j.model <> ALL (?3::text[])) DESC, count(*) DESC, max(a.ended_at) DESC, w.provider_instance_id LIMIT ?2`,
		window.Seconds(), pgdialect.Array(asked), limit, pgdialect.Array(drills)).Scan(ctx, &found)
	return found, err
}

// Reclamation is spot machines of a pool that its provider took within a short time, and what that
// cost.
type Reclamation struct {
	PoolID models.PoolID `bun:"pool_id"`
	From   time.Time     `bun:"from_at"`
	To     time.Time     `bun:"to_at"`
	// Workers counts the workers that were taken while they ran a job, Jobs their attempts, and
	// ByOperators those among them that an operator preempted.
	Workers     int `bun:"workers"`
	Jobs        int `bun:"jobs"`
	ByOperators int `bun:"by_operators"`
	// WastedGPUSeconds is the work after the last checkpoints, which is done again.
	WastedGPUSeconds float64 `bun:"wasted_gpu_seconds"`
	// WastedUSD is its price, or nil if no worker has a price.
	WastedUSD *float64 `bun:"wasted_usd"`
}

// ListReclamations returns the reclamations of spot machines within window, of one pool or of all if
// it is empty, newest first. Losses with less than quiet between them belong to one. Workers that an
// operator or the scaler ended for one of the reasons in asked do not count; those
// of the reason byOperators do.
func ListReclamations(ctx context.Context, db bun.IDB, pool models.PoolID, window, quiet time.Duration, asked []string, byOperators string,
	limit int) (found []*Reclamation, err error) {
	var one any
	if pool != "" {
		one = pool
	}
	err = db.NewRaw(`
		WITH taken AS MATERIALIZED (
			SELECT ?5 IN (coalesce(a.failure_reason, ''), coalesce(w.drain_reason, '')) AS by_operator, a.ended_at, a.wasted_gpu_seconds, a.worker_id, w.pool_id, w.price_per_hour_usd,
				a.ended_at - lag(a.ended_at) OVER (PARTITION BY w.pool_id ORDER BY a.ended_at) < make_interval(secs => ?3) AS same
			FROM job_attempts a JOIN workers w ON w.id = a.worker_id
			WHERE a.failure_class IN ('PREEMPTED', 'WORKER_LOST')
				AND a.ended_at > (SELECT clock_timestamp()) - make_interval(secs => ?1)
				AND w.capacity_class = 'SPOT' AND w.pool_id IS NOT NULL AND (?0 IS NULL OR w.pool_id = ?0)
				AND coalesce(a.failure_reason, '') <> ALL (?2::text[]) AND coalesce(w.drain_reason, '') <> ALL (?2::text[])),
		events AS (SELECT *, count(*) FILTER (WHERE same IS NOT TRUE) OVER (PARTITION BY pool_id ORDER BY ended_at) AS event FROM taken)
		SELECT pool_id, min(ended_at) AS from_at, max(ended_at) AS to_at, count(DISTINCT worker_id) AS workers, count(*) AS jobs,
			count(*) FILTER (WHERE by_operator) AS by_operators,
			sum(wasted_gpu_seconds) AS wasted_gpu_seconds, sum(wasted_gpu_seconds * price_per_hour_usd / 3600) AS wasted_usd
		FROM events GROUP BY pool_id, event ORDER BY max(ended_at) DESC LIMIT ?4`,
		one, window.Seconds(), pgdialect.Array(asked), quiet.Seconds(), limit, byOperators).Scan(ctx, &found)
	return found, err
}
