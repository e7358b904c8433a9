package costs

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Task is work of a hosted provider for which the ledger has a fee.
type Task struct {
	// Entry is its number in the ledger.
	Entry     int64            `bun:"entry"`
	At        time.Time        `bun:"at"`
	AttemptID models.AttemptID `bun:"attempt_id"`
	JobID     models.JobID     `bun:"job_id"`
	Pool      string           `bun:"pool"`
	// Provider is the kind of the hosted provider, such as veo.
	Provider string `bun:"provider"`
	// Task is the provider's id of the work, or "" if Reelay has not learnt it.
	Task string `bun:"task"`
	// CostUSD is the fee, or nil if the price is unknown. A correction moves it, and does not change the sum.
	CostUSD *decimal.Decimal `bun:"cost_usd"`
}

// ListTasks returns the work of hosted providers whose fees were entered in a span, after an entry, the oldest first.
func ListTasks(ctx context.Context, db bun.IDB, from, to time.Time, after int64, limit int) (found []*Task, err error) {
	err = db.NewRaw(`
		SELECT l.id AS entry, l.at, l.attempt_id, l.job_id, l.pool, l.provider, coalesce(l.provider_ref, '') AS task, l.useful_usd + l.wasted_usd AS cost_usd
		FROM ledger l WHERE l.at >= ?0 AND l.at < ?1 AND l.kind = 'FEE' AND l.id > ?2 ORDER BY l.id LIMIT ?3`,
		from, to, after, limit).Scan(ctx, &found)
	return found, err
}

// WorkerCost is what the attempts of a worker cost that have ended.
type WorkerCost struct {
	WorkerID models.WorkerID `bun:"worker_id"`
	// USD is nil if a part is unknown.
	USD *decimal.Decimal `bun:"usd"`
}

// OfWorkers returns what the attempts of these workers cost. Workers without an attempt that has ended are missing.
func OfWorkers(ctx context.Context, db bun.IDB, workers []models.WorkerID) (found []*WorkerCost, err error) {
	err = db.NewRaw(`
		SELECT a.worker_id, CASE WHEN count(*) = count(l.useful_usd + l.wasted_usd) THEN sum(l.useful_usd + l.wasted_usd) END AS usd
		FROM job_attempts a JOIN ledger l ON l.attempt_id = a.id AND l.kind IN ('ATTEMPT', 'FEE')
		WHERE a.worker_id = ANY (?::uuid[]) AND a.ended_at IS NOT NULL GROUP BY a.worker_id`, postgres.UUIDArray(workers)).Scan(ctx, &found)
	return found, err
}

// FailedJobs is how many jobs of a model failed.
type FailedJobs struct {
	Model string `bun:"model"`
	Jobs  int64  `bun:"jobs"`
}

// CountFailed counts the jobs that failed for good in the time of a filter, by model.
func CountFailed(ctx context.Context, db bun.IDB, f Filter) (found []*FailedJobs, err error) {
	err = db.NewRaw(`
		SELECT model, count(*) AS jobs FROM jobs
		WHERE status = 'FAILED' AND failure_class IS NOT NULL AND completed_at >= ?0 AND completed_at < ?1 AND (?2 OR account_id = ?3)
		GROUP BY model`, f.From, f.To, f.Account == "", f.Account).Scan(ctx, &found)
	return found, err
}
