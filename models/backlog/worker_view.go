package backlog

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// WorkerView is a worker that boots, is idle or busy, with what keeps it from taking a job now.
type WorkerView struct {
	Slot
	models.Offer
	Status models.WorkerStatus `bun:"status"`
	ID     models.WorkerID     `bun:"id"`
	// WarmModels are those that it has in memory.
	WarmModels []string `bun:"warm_models,array"`
	// AgeSeconds is the time since its row was created. BootSeconds is the median of its
	// pool's last boot times, or nil if there were none or the worker does not boot.
	AgeSeconds  float64  `bun:"age_seconds"`
	BootSeconds *float64 `bun:"boot_seconds"`

	// The fields below describe the job that it holds. AccountID is empty if it holds none.
	AccountID models.AccountID `bun:"account_id"`
	Kind
	EstimatedGPUSeconds float64 `bun:"estimated_gpu_seconds"`
	// ResumedPercent is the part of Percent that the job had when the worker resumed it.
	ResumedPercent float64 `bun:"resumed_percent"`
	// HeldSeconds is the time since the lease began, SilentSeconds the time since the last
	// progress.
	HeldSeconds   float64 `bun:"held_seconds"`
	SilentSeconds float64 `bun:"silent_seconds"`
	Yielding
}

// Slot is a place for a worker on a machine. At most one worker that has not ended has it.
type Slot struct {
	Provider   string `bun:"provider"`
	InstanceID string `bun:"provider_instance_id"`
	Slot       int    `bun:"slot"`
}

// ListWorkerViews returns up to limit workers that boot, are idle or busy, in the order of their
// slots, starting after a slot.
func ListWorkerViews(ctx context.Context, db bun.IDB, after Slot, limit int) ([]WorkerView, error) {
	var found []WorkerView
	err := db.NewRaw(`
		SELECT w.id, w.warm_models, w.provider, w.provider_instance_id, w.slot, w.models, w.tiers, w.accounts, w.gpu_type, w.region, w.capacity_class, w.price_per_hour_usd, w.status, extract(epoch FROM clock_timestamp() - w.created_at) AS age_seconds, boots.boot_seconds,
			held.account_id, `+yieldingColumns+`
		FROM (
			SELECT * FROM workers
			WHERE ended_at IS NULL AND status IN ('BOOTING', 'IDLE', 'BUSY') AND quarantined_until > clock_timestamp() IS NOT TRUE
				AND (provider, provider_instance_id, slot) > (?, ?, ?)
			ORDER BY provider, provider_instance_id, slot LIMIT ?) w`+yieldingJoins+`
		LEFT JOIN LATERAL (
			SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM took)::float8) AS boot_seconds
			FROM (
				SELECT b.registered_at - b.created_at AS took FROM workers b
				WHERE w.status = 'BOOTING' AND b.pool_id = w.pool_id AND b.registered_at IS NOT NULL ORDER BY b.id DESC LIMIT 20) last) boots ON true
		ORDER BY w.provider, w.provider_instance_id, w.slot`,
		after.Provider, after.InstanceID, after.Slot, limit).Scan(ctx, &found)
	return found, err
}

// Standby is one of an account's first queued jobs in a line.
type Standby struct {
	AccountID models.AccountID `bun:"account_id"`
	models.Queue
	TimeClass  string  `bun:"time_class"`
	GPUSeconds float64 `bun:"gpu_seconds"`
	// The fields below describe the account and its place in the line.
	VirtualTime float64 `bun:"virtual_time"`
	Queued      int     `bun:"queued"`
	Weight      float64 `bun:"weight"`
	Running     int     `bun:"running"`
	MaxRunning  int     `bun:"max_running"`
}

// ListStandby returns the heads of the lines: the first sample jobs of each of the first
// accounts of a line. accounts is their number per line. Accounts at their running limit are
// in no line. Those of them in running are added if they have queued jobs.
func ListStandby(ctx context.Context, db bun.IDB, running []models.AccountID, accounts, sample int) ([]Standby, error) {
	var found []Standby
	err := db.NewRaw(`
		WITH line AS (
			SELECT first.* FROM lanes
			CROSS JOIN (VALUES (false), (true)) AS half (promoted)
			CROSS JOIN LATERAL (
				SELECT l.account_id, l.lane, l.promoted, l.virtual_time, l.queued FROM account_lanes l
				WHERE l.lane = lanes.lane AND l.promoted = half.promoted AND l.queued > 0 AND NOT l.capped
				ORDER BY l.virtual_time LIMIT ?1) first
			UNION ALL
			(SELECT account_id, lane, promoted, virtual_time, queued FROM account_lanes
				WHERE account_id = ANY (?0::uuid[]) AND queued > 0 AND capped LIMIT ?1))
		SELECT line.account_id, line.lane, line.promoted, line.virtual_time, line.queued, a.weight, a.running, a.max_running,
			head.model, head.gpu_rank, head.region, head.needs, head.time_class, head.gpu_seconds
		FROM line JOIN accounts a ON a.id = line.account_id
		CROSS JOIN LATERAL (
			SELECT `+kindSQL+`, j.gpu_rank, `+regionSQL+` AS region, j.needs, j.estimated_gpu_seconds AS gpu_seconds, j.queue_order
			FROM jobs j
			WHERE j.status = 'QUEUED' AND j.lane = line.lane AND j.account_id = line.account_id AND `+promotedSQL+` = line.promoted
			ORDER BY j.queue_order LIMIT ?2) head
		ORDER BY line.account_id, line.lane, line.promoted, head.queue_order`,
		postgres.UUIDArray(running), accounts, sample).Scan(ctx, &found)
	return found, err
}

// OwnAhead is how many jobs of the same account start before a job of a lane.
type OwnAhead struct {
	JobID models.JobID `bun:"id"`
	Count int          `bun:"ahead"`
}

// CountOwnAhead counts, for each of these jobs that is queued, the jobs of its account that
// come before it in the lane. Jobs between two of them are counted once, up to limit.
func CountOwnAhead(ctx context.Context, db bun.IDB, ids []models.JobID, limit int) ([]OwnAhead, error) {
	var found []OwnAhead
	err := db.NewRaw(`
		WITH asked AS (
			SELECT id, account_id, lane, queue_order,
				lag(queue_order, 1, 0) OVER (PARTITION BY account_id, lane ORDER BY queue_order) AS since
			FROM jobs WHERE id IN (?0) AND status = 'QUEUED')
		SELECT id, sum(least(between_them.count, ?1)) OVER (PARTITION BY account_id, lane ORDER BY queue_order) AS ahead
		FROM asked CROSS JOIN LATERAL (
			SELECT count(*) FROM (
				SELECT FROM (VALUES (false), (true)) AS line (promoted)
				JOIN jobs j ON j.status = 'QUEUED' AND j.account_id = asked.account_id AND j.lane = asked.lane AND `+promotedSQL+` = line.promoted
					AND j.queue_order >= asked.since AND j.queue_order < asked.queue_order
				LIMIT ?1) counted) between_them`, bun.List(ids), limit).Scan(ctx, &found)
	return found, err
}
