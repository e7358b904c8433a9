package backlog

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// LateJob is a queued job that has waited for longer than the target of its lane.
type LateJob struct {
	QueuedJob
	WaitedSeconds float64 `bun:"waited_seconds"`
}

const (
	// lateAccounts and lateSample bound what ListLateJobs reads of a line: its first accounts,
	// and the first jobs of each. maxLate bounds its result.
	lateAccounts = 100
	lateSample   = 20
	maxLate      = 200
)

// ListLateJobs returns up to 200 jobs of these lanes that have waited for longer than targets[i], in about
// the order in which they start. The time in which their queue was closed does not count. It omits those that cannot start now: beyond their account's
// running limit, of a paused queue, or while they avoid a worker that failed them.
func ListLateJobs(ctx context.Context, db bun.IDB, lanes []models.Tier, targets []time.Duration) ([]LateJob, error) {
	var found []LateJob
	err := db.NewRaw(`
		SELECT first.*, line.virtual_time FROM unnest(?0::text[], ?1::float8[]) WITH ORDINALITY AS t (lane, target, place)
		CROSS JOIN (VALUES (false), (true)) AS half (promoted)
		CROSS JOIN LATERAL (
			SELECT l.account_id, l.virtual_time, least(a.max_running - a.running, ?3) AS room,
				(SELECT max(ended_at) FROM queue_closures c WHERE c.lane = t.lane) AS closed_until
			FROM account_lanes l JOIN accounts a ON a.id = l.account_id
			WHERE l.lane = t.lane AND l.promoted = half.promoted AND l.queued > 0 AND NOT l.capped
			ORDER BY l.virtual_time LIMIT ?2) line
		CROSS JOIN LATERAL (
			SELECT `+queuedColumns+`, extract(epoch FROM clock_timestamp() - queued_at)::float8
				- CASE WHEN queued_at < line.closed_until THEN paused_seconds(lane, model, queued_at, clock_timestamp()) ELSE 0 END AS waited_seconds
			FROM startable_jobs
			WHERE account_id = line.account_id AND lane = t.lane AND promoted = half.promoted
				AND (avoid_until IS NULL OR avoid_until < clock_timestamp())
				AND needs NOT LIKE 'cheap%' AND needs NOT LIKE 'held%' -- those have time until their deadline, or must wait
			ORDER BY queue_order LIMIT greatest(line.room, 0)) first
		WHERE first.waited_seconds > t.target
			AND NOT EXISTS (SELECT FROM closed_queues p WHERE p.lane = t.lane AND p.model IN ('', first.model))
		ORDER BY t.place, half.promoted, line.virtual_time LIMIT ?4`,
		postgres.TextArray(lanes), postgres.FloatArray(postgres.Column(targets, time.Duration.Seconds)), lateAccounts, lateSample,
		maxLate).Scan(ctx, &found)
	return found, err
}

// Performer is a worker that boots, is idle or busy, with what it is doing.
type Performer struct {
	models.Worker
	AgeSeconds float64 `bun:"age_seconds"`
	// BootSeconds is the median of its pool's last boot times, or nil if there were none.
	BootSeconds *float64 `bun:"boot_seconds"`

	// The fields below describe the attempt that it holds. AttemptID is empty if it holds none.
	AttemptID models.AttemptID    `bun:"attempt_id"`
	Token     models.FencingToken `bun:"fencing_token"`
	JobID     models.JobID        `bun:"job_id"`
	Kind
	EstimatedGPUSeconds float64 `bun:"estimated_gpu_seconds"`
	// These are as in WorkerView.
	ResumedPercent float64 `bun:"resumed_percent"`
	HeldSeconds    float64 `bun:"held_seconds"`
	SilentSeconds  float64 `bun:"silent_seconds"`
	Yielding
}

// Yielding is what decides whether the attempt that a worker holds may give way.
type Yielding struct {
	// YieldingTiers are those of the worker's pool. Without a pool, BATCH may give way.
	YieldingTiers []models.Tier `bun:"yielding_tiers,array"`
	Lane          models.Tier   `bun:"lane"`
	Percent       float64       `bun:"percent"`
	// Renders means that the attempt can be stopped: it renders here, is not cancelled, and its
	// job may be started again.
	Renders bool `bun:"renders"`
	// Saves means that its job has a checkpoint, or other jobs of its model had.
	Saves bool `bun:"saves"`
	// UnsavedSeconds is the time since its newest checkpoint or its lease.
	UnsavedSeconds float64 `bun:"unsaved_seconds"`
	// AskedSeconds is the time since the attempt was asked to give way, or nil. Yields is how
	// often its job gave way in the last hour, and YieldedSeconds how long ago it last did.
	AskedSeconds   *float64 `bun:"asked_seconds"`
	Yields         int      `bun:"yields"`
	YieldedSeconds *float64 `bun:"yielded_seconds"`
}

// yieldingColumns are the fields of Yielding and of the held job that WorkerView and Performer share,
// and heldSQL joins what they need to a worker w.
const (
	yieldingColumns = `pool.yielding_tiers, held.lane, held.percent, held.renders AND a.status = 'RUNNING' AS renders,
			held.latest_checkpoint_id IS NOT NULL OR EXISTS (SELECT FROM checkpoint_saves s WHERE s.model = held.model AND s.saves > 0) AS saves,
			extract(epoch FROM clock_timestamp() - greatest(a.checkpoint_at, a.leased_at)) AS unsaved_seconds,
			extract(epoch FROM clock_timestamp() - a.yield_requested_at)::float8 AS asked_seconds,
			gave.yields, extract(epoch FROM clock_timestamp() - gave.last)::float8 AS yielded_seconds,
			held.model, held.time_class, held.estimated_gpu_seconds,
			coalesce(least(100.0 * a.resumed_from_step / nullif(held.total_steps, 0), 100), 0) AS resumed_percent,
			extract(epoch FROM clock_timestamp() - a.leased_at) AS held_seconds,
			extract(epoch FROM clock_timestamp() - greatest(held.progress_at, a.leased_at)) AS silent_seconds`
	yieldingJoins = `
		LEFT JOIN LATERAL (SELECT coalesce((SELECT yielding_tiers FROM pools WHERE id = w.pool_id), '{BATCH}') AS yielding_tiers) pool ON true
		LEFT JOIN LATERAL (SELECT * FROM job_attempts WHERE worker_id = w.id AND ended_at IS NULL LIMIT 1) a ON true
		LEFT JOIN LATERAL (
			SELECT j.account_id, j.lane, ` + kindSQL + `, j.estimated_gpu_seconds, j.percent, j.total_steps, j.progress_at, j.latest_checkpoint_id,
				j.status = 'RUNNING' AND j.phase = 'RENDERING' AND j.handle IS NULL AND NOT j.at_most_once AND j.cancel_requested_at IS NULL AS renders
			FROM jobs j WHERE j.id = a.job_id LIMIT 1) held ON true
		LEFT JOIN LATERAL (
			SELECT count(*) FILTER (WHERE recent) AS yields, max(ended_at) FILTER (WHERE recent) AS last
			FROM (
				SELECT ended_at, failure_class = 'YIELDED' AND ended_at > clock_timestamp() - interval '1 hour' AS recent
				FROM job_attempts WHERE held.lane = ANY (pool.yielding_tiers) AND job_id = a.job_id) own) gave ON true`
)

// ListPerformers returns the workers that boot, are idle or busy and can run any of these models,
// by their ids.
func ListPerformers(ctx context.Context, db bun.IDB, models []string) ([]*Performer, error) {
	var found []*Performer
	err := db.NewRaw(`
		WITH boots AS (
			SELECT p.id, b.boot_seconds FROM pools p CROSS JOIN LATERAL (
				SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM took)::float8) AS boot_seconds FROM (
					SELECT registered_at - created_at AS took FROM workers
					WHERE pool_id = p.id AND registered_at IS NOT NULL ORDER BY id DESC LIMIT 20) last) b)
		SELECT w.*, extract(epoch FROM clock_timestamp() - w.created_at)::float8 AS age_seconds, boots.boot_seconds,
			a.id AS attempt_id, a.fencing_token, a.job_id, `+yieldingColumns+`
		FROM workers w
		LEFT JOIN boots ON boots.id = w.pool_id`+yieldingJoins+`
		WHERE w.ended_at IS NULL AND w.status IN ('BOOTING', 'IDLE', 'BUSY') AND w.models && ?::text[]
			AND (w.quarantined_until > clock_timestamp()) IS NOT TRUE
		ORDER BY w.id`, postgres.TextArray(models)).Scan(ctx, &found)
	return found, err
}

// Yield is the request that an attempt gives way to a job of the lane To.
type Yield struct {
	AttemptID models.AttemptID
	Token     models.FencingToken
	To        models.Tier
}

// RequestYields writes these requests, and returns the attempts that are asked now: those that
// still run under their token, and were never asked before. It locks attempts in the order of
// their ids.
func RequestYields(ctx context.Context, tx bun.Tx, all []Yield) (asked []models.AttemptID, err error) {
	err = tx.NewRaw(`
		WITH n AS MATERIALIZED (SELECT * FROM unnest(?0::uuid[], ?1::uuid[], ?2::text[]) AS n (id, token, lane)),
		locked AS MATERIALIZED (
			SELECT id FROM job_attempts WHERE id = ANY (?0::uuid[]) AND status = 'RUNNING' ORDER BY id FOR NO KEY UPDATE)
		UPDATE job_attempts a SET yield_requested_at = clock_timestamp(), yield_to = n.lane
		FROM n JOIN locked USING (id)
		WHERE a.id = n.id AND a.fencing_token = n.token AND a.status = 'RUNNING' AND a.yield_requested_at IS NULL
		RETURNING a.id`,
		postgres.UUIDArray(postgres.Column(all, func(y Yield) models.AttemptID { return y.AttemptID })),
		pgdialect.Array(postgres.Column(all, func(y Yield) string { return string(y.Token) })),
		postgres.TextArray(postgres.Column(all, func(y Yield) models.Tier { return y.To }))).Scan(ctx, &asked)
	return asked, err
}

// ListYielded returns those of these jobs whose newest attempt gave way, with the lanes that they
// gave way to.
func ListYielded(ctx context.Context, db bun.IDB, jobs []models.JobID) (map[models.JobID]models.Tier, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	var found []struct {
		JobID models.JobID `bun:"job_id"`
		To    models.Tier  `bun:"yield_to"`
	}
	err := db.NewRaw(`
		SELECT a.job_id, a.yield_to FROM unnest(?::uuid[]) AS j (id) CROSS JOIN LATERAL (
			SELECT job_id, yield_to, failure_class FROM job_attempts WHERE job_id = j.id ORDER BY attempt_no DESC LIMIT 1) a
		WHERE a.failure_class = 'YIELDED'`, postgres.UUIDArray(jobs)).Scan(ctx, &found)
	to := map[models.JobID]models.Tier{}
	for _, f := range found {
		to[f.JobID] = f.To
	}
	return to, err
}
