// Package reports reads what operators look at from time to time: why jobs fail for good, how often they are tried, and
// how much is kept. Each read examines a bounded number of rows.
package reports

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Examined bounds the rows that a report examines.
const Examined = 10_000

// DeadLetters are the open dead letters of jobs of a type and a model that failed in one way.
type DeadLetters struct {
	Type         string              `bun:"type"`
	Model        string              `bun:"model"`
	FailureClass models.FailureClass `bun:"failure_class"`
	Count        int                 `bun:"count"`
	OldestAt     time.Time           `bun:"oldest_at"`
	NewestAt     time.Time           `bun:"newest_at"`
}

// CountDeadLetters counts the open dead letters by type, model and failure class, the most frequent first. It counts
// those of the jobs that were submitted last, up to Examined.
func CountDeadLetters(ctx context.Context, db bun.IDB) (found []*DeadLetters, err error) {
	err = db.NewRaw(`
		SELECT j.type, d.model, d.failure_class, count(*) AS count, min(d.created_at) AS oldest_at, max(d.created_at) AS newest_at
		FROM (
			SELECT job_id, model, failure_class, created_at FROM dead_letters
			WHERE resolved_at IS NULL ORDER BY job_id DESC NULLS LAST LIMIT ?) d
		CROSS JOIN LATERAL (SELECT type FROM jobs WHERE id = d.job_id LIMIT 1) j
		GROUP BY 1, 2, 3 ORDER BY count DESC, 1, 2, 3`, Examined).Scan(ctx, &found)
	return found, err
}

// Retries is how often completed jobs of a type were tried again.
type Retries struct {
	Type string `bun:"type"`
	// Completed is how many jobs were examined, and Retried how many of them had more than one attempt.
	Completed int `bun:"completed"`
	Retried   int `bun:"retried"`
	// Retries is how many attempts they had beyond the first, and Most how many one of them had.
	Retries int `bun:"retries"`
	Most    int `bun:"most"`
	// Since is when the first of them completed.
	Since time.Time `bun:"since"`
}

// Mean is the mean number of retries.
func (r *Retries) Mean() float64 { return float64(r.Retries) / float64(r.Completed) }

// CountRetries sums up the attempts of the jobs that completed last: at most Examined that ended after since. Jobs that
// no worker ran have none. The types with the highest mean come first.
func CountRetries(ctx context.Context, db bun.IDB, since time.Time) (found []*Retries, err error) {
	err = db.NewRaw(`
		SELECT type, count(*) AS completed, count(*) FILTER (WHERE again > 0) AS retried, sum(again) AS retries, max(again) AS most,
			min(completed_at) AS since
		FROM (
			SELECT type, status, greatest(attempt_no - 1, 0) AS again, completed_at FROM jobs
			WHERE completed_at >= ? ORDER BY completed_at DESC LIMIT ?) ended
		WHERE status = 'COMPLETED'
		GROUP BY type ORDER BY sum(again)::float8 / count(*) DESC, type`, since, Examined).Scan(ctx, &found)
	return found, err
}
