package capacity

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// FailingWorker is a worker on which models crashed, or that delivered defective videos.
type FailingWorker struct {
	ID models.WorkerID `bun:"id"`
	models.Host
	// Failures counts the attempts, Jobs the different jobs.
	Failures int `bun:"failures"`
	Jobs     int `bun:"jobs"`
	models.WorkerQuarantine
}

// ListFailingWorkers returns the workers with such attempts at more than one job within window, up
// to limit, those with the most jobs first.
func ListFailingWorkers(ctx context.Context, db bun.IDB, window time.Duration, limit int) (found []FailingWorker, err error) {
	err = db.NewRaw(`
		SELECT w.id, w.provider, w.provider_instance_id, w.quarantined_until, bad.failures, bad.jobs
		FROM (
			SELECT a.worker_id, count(*) AS failures, count(DISTINCT a.job_id) AS jobs FROM job_attempts a
			WHERE `+models.SuspectSQL+` AND a.ended_at > (SELECT clock_timestamp()) - make_interval(secs => ?0)
			GROUP BY a.worker_id HAVING count(DISTINCT a.job_id) > 1) bad
		JOIN workers w ON w.id = bad.worker_id
		ORDER BY bad.jobs DESC, bad.failures DESC, w.id LIMIT ?1`, window.Seconds(), limit).Scan(ctx, &found)
	return found, err
}
