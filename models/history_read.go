package models

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// jobFact is how often something happened to the jobs of a lane and model. Bucket is that of the
// duration that belongs to it, if one does.
type jobFact struct {
	Lane   Tier         `bun:"lane"`
	Model  string       `bun:"model"`
	What   string       `bun:"what"`
	Class  FailureClass `bun:"class"`
	Bucket *int         `bun:"bucket"`
	N      int          `bun:"n"`
}

// servedSQL is the lane in whose figures a job counts: that of its tier, also after it was promoted,
// so that promoted jobs do not change the waits of the lane that they are promoted into. Jobs that
// were redriven to CRITICAL count there.
func servedSQL(job string) string {
	return "CASE WHEN " + job + ".lane = 'CRITICAL' THEN " + job + ".lane ELSE " + job + ".tier END"
}

// CountHistoryJobs counts what happened to jobs from one time and before another, by the lane of
// their tier and model. It reads the events of that time by their index, and the jobs that were submitted.
func CountHistoryJobs(ctx context.Context, db bun.IDB, from, to time.Time) ([]*HistoryJobs, error) {
	var facts []jobFact
	err := db.NewRaw(fmt.Sprintf(`
		WITH seen AS MATERIALIZED (
			SELECT job_id, run, attempt_id, type, payload FROM job_events
			WHERE created_at >= ?0 AND created_at < ?1 AND type IN ('LEASED', 'STARTED', 'COMPLETED', 'FAILED', 'CANCELLED')),
		facts AS (
			SELECT `+servedSQL("j")+` AS lane, model, 'SUBMITTED' AS what, NULL AS class, NULL::float8 AS seconds
			FROM jobs j WHERE id >= uuid7_floor(?0) AND id < uuid7_floor(?1)
			UNION ALL
			SELECT `+servedSQL("j")+`, j.model, s.type, CASE s.type WHEN 'FAILED' THEN coalesce(s.payload->>'class', j.failure_class) END,
				CASE s.type WHEN 'LEASED' THEN CASE WHEN j.run = s.run THEN j.waited_seconds END
					WHEN 'STARTED' THEN extract(epoch FROM a.started_at - a.leased_at)::float8
					WHEN 'COMPLETED' THEN j.leased_seconds END
			FROM seen s JOIN jobs j ON j.id = s.job_id LEFT JOIN job_attempts a ON a.id = s.attempt_id
			WHERE s.type <> 'LEASED' OR NOT EXISTS ( -- the first lease of the run
				SELECT FROM job_attempts earlier WHERE earlier.job_id = a.job_id AND earlier.attempt_no = a.attempt_no - 1 AND earlier.run = s.run))
		SELECT lane, model, what, coalesce(class, '') AS class, `+histogramSQL+` AS bucket, count(*) AS n
		FROM facts GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2`, "seconds"), from, to).Scan(ctx, &facts)
	if err != nil {
		return nil, err
	}
	var found []*HistoryJobs
	for _, f := range facts {
		if n := len(found); n == 0 || found[n-1].Lane != f.Lane || found[n-1].Model != f.Model {
			found = append(found, &HistoryJobs{Lane: f.Lane, Model: f.Model, Failures: map[FailureClass]int{}})
		}
		found[len(found)-1].count(f)
	}
	return found, nil
}

func (j *HistoryJobs) count(f jobFact) {
	var times Histogram
	if f.Bucket != nil {
		times = Histogram{*f.Bucket: f.N}
	}
	switch f.What {
	case "SUBMITTED":
		j.Submitted += f.N
	case "LEASED":
		j.Started += f.N
		j.Waits.Add(times)
	case "STARTED":
		j.Pickups.Add(times)
	case "COMPLETED":
		j.Completed += f.N
		j.Renders.Add(times)
	case "FAILED":
		j.Failed += f.N
		j.Failures[f.Class] += f.N
	case "CANCELLED":
		j.Cancelled += f.N
	}
}

// poolFact is how often something happened on the workers of a pool.
type poolFact struct {
	Pool        string `bun:"pool"`
	Region      string `bun:"region"`
	GPUType     string `bun:"gpu_type"`
	What        string `bun:"what"`
	Bucket      *int   `bun:"bucket"`
	N           int    `bun:"n"`
	Preempted   int    `bun:"preempted"`
	Expired     int    `bun:"expired"`
	ByOperators int    `bun:"by_operators"`
}

// CountHistoryPools counts what happened on workers from one time and before another, and what they cost, by
// pool, region and GPU type. An attempt that ended for one of the reasons in deliberate, or whose worker
// was drained for one, was not preempted; those of the reason byOperators are counted apart.
func CountHistoryPools(ctx context.Context, db bun.IDB, from, to time.Time, deliberate []string, byOperators string) ([]*HistoryPool,
	error) {
	var facts []poolFact
	err := db.NewRaw(fmt.Sprintf(`
		WITH seen AS MATERIALIZED (
			SELECT attempt_id, type, (payload->>'durationSeconds')::float8 AS seconds FROM job_events
			WHERE created_at >= ?0 AND created_at < ?1 AND attempt_id IS NOT NULL
				AND type IN ('STARTED', 'CHECKPOINTED', 'RELEASED', 'LOST', 'REQUEUED', 'RETRY_SCHEDULED', 'COMPLETED', 'FAILED', 'CANCELLED')),
		facts AS (
			SELECT 'ENDED' AS what, a.*, NULL::float8 AS seconds FROM (
				SELECT DISTINCT attempt_id FROM seen WHERE type NOT IN ('STARTED', 'CHECKPOINTED')) ended -- an end can have several events
			JOIN job_attempts a ON a.id = ended.attempt_id AND a.ended_at >= ?0 AND a.ended_at < ?1
			UNION ALL
			SELECT 'SAVED', a.*, seen.seconds FROM seen JOIN job_attempts a ON a.id = seen.attempt_id
			WHERE seen.type = 'CHECKPOINTED' AND seen.seconds > 0
			UNION ALL
			SELECT 'RECOVERED', a.*, extract(epoch FROM a.started_at - lost.ended_at)::float8 FROM seen
			JOIN job_attempts a ON a.id = seen.attempt_id
			JOIN job_attempts lost ON lost.job_id = a.job_id AND lost.attempt_no = a.attempt_no - 1 AND lost.run = a.run
				AND lost.failure_class IN ('PREEMPTED', 'WORKER_LOST')
			WHERE seen.type = 'STARTED')
		SELECT coalesce(p.name, '') AS pool, w.region, w.gpu_type, f.what, `+histogramSQL+` AS bucket, count(*) AS n,
			count(*) FILTER (WHERE f.failure_class IN ('PREEMPTED', 'WORKER_LOST')
				AND coalesce(f.failure_reason, '') <> ALL (?2::text[]) AND coalesce(w.drain_reason, '') <> ALL (?2::text[])) AS preempted,
			count(*) FILTER (WHERE f.failure_class IN ('PREEMPTED', 'WORKER_LOST')
				AND ?3 IN (coalesce(f.failure_reason, ''), coalesce(w.drain_reason, ''))) AS by_operators,
			count(*) FILTER (WHERE f.status = 'LOST' AND f.lease_expires_at <= f.ended_at) AS expired
		FROM facts f JOIN workers w ON w.id = f.worker_id LEFT JOIN pools p ON p.id = w.pool_id
		GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3`, "f.seconds"), from, to, pgdialect.Array(deliberate), byOperators).Scan(ctx, &facts)
	if err != nil {
		return nil, err
	}
	var found []*HistoryPool
	for _, f := range facts {
		if n := len(found); n == 0 || found[n-1].Pool != f.Pool || found[n-1].Region != f.Region || found[n-1].GPUType != f.GPUType {
			found = append(found, &HistoryPool{Pool: f.Pool, Region: f.Region, GPUType: f.GPUType})
		}
		found[len(found)-1].count(f)
	}
	paid, err := countPaid(ctx, db, from, to)
	if err != nil {
		return nil, fmt.Errorf("add up what was paid for: %w", err)
	}
	return append(found, paid...), nil
}

func (p *HistoryPool) count(f poolFact) {
	if f.What == "ENDED" {
		p.Attempts += f.N
		p.Preempted += f.Preempted
		p.Expired += f.Expired
		p.ByOperators += f.ByOperators
		return
	}
	if f.Bucket == nil {
		return
	}
	times := Histogram{*f.Bucket: f.N}
	if f.What == "SAVED" {
		p.Checkpoints.Add(times)
	} else {
		p.Recoveries.Add(times)
	}
}

// SampleHistory reads the gauges of this moment. Each of SCHEDULED and BLOCKED jobs is counted up
// to limit.
func SampleHistory(ctx context.Context, db bun.IDB, limit int) (gauges HistoryGauges, pools []*HistoryPool, err error) {
	err = db.NewRaw(`
		SELECT (SELECT count(*)::float8 FROM (SELECT FROM jobs WHERE status = 'SCHEDULED' LIMIT ?0) s) AS scheduled,
			(SELECT count(*)::float8 FROM (SELECT FROM jobs WHERE status = 'BLOCKED' LIMIT ?0) b) AS blocked,
			(SELECT count(*)::float8 FROM dead_letters WHERE resolved_at IS NULL AND `+OperatorsSQL+`) AS dead_letters`, limit).Scan(ctx, &gauges)
	if err != nil {
		return gauges, nil, err
	}
	err = db.NewRaw(`
		SELECT coalesce(p.name, '') AS pool, w.region, w.gpu_type,
			(count(*) FILTER (WHERE w.status = 'BOOTING'))::float8 AS booting, (count(*) FILTER (WHERE w.status = 'IDLE'))::float8 AS idle,
			(count(*) FILTER (WHERE w.status = 'BUSY'))::float8 AS busy, (count(*) FILTER (WHERE w.status = 'DRAINING'))::float8 AS draining,
			coalesce(sum(g.gpus), 0)::float8 AS gpus, coalesce(sum(g.busy), 0)::float8 AS gpus_busy
		FROM workers w
		LEFT JOIN pools p ON p.id = w.pool_id
		LEFT JOIN worker_gpus s ON s.worker_id = w.id AND s.sampled_at > clock_timestamp() - interval '1 minute'
		LEFT JOIN LATERAL (
			SELECT count(utilization) AS gpus, sum(utilization) AS busy FROM jsonb_to_recordset(s.gpus) AS gpu (utilization float8)) g ON true
		WHERE w.ended_at IS NULL
		GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`).Scan(ctx, &pools)
	return gauges, pools, err
}
