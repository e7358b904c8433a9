package backlog

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Kind is the set of properties that decide how long a job takes on one type of GPU.
type Kind struct {
	Model string `bun:"model,pk"`
	// TimeClass is the class of the job's parameters (catalogue.Model.TimeClass), or "" if none of them
	// matters.
	TimeClass string `bun:"time_class,pk"`
}

// RenderTime is how long jobs of a kind take on a type of GPU: the worker's seconds, summed
// over all attempts, as a multiple of the catalogue's estimate.
type RenderTime struct {
	bun.BaseModel `bun:"table:render_times,alias:rt"`

	Kind
	GPUType string  `bun:"gpu_type,pk"`
	Ratio   float64 `bun:"ratio"`
	// Variance is the variance of the ratio.
	Variance  float64   `bun:"variance"`
	Samples   int64     `bun:"samples"`
	UpdatedAt time.Time `bun:"updated_at,nullzero,default:clock_timestamp()"`
}

// ListRenderTimes returns all render times.
func ListRenderTimes(ctx context.Context, db bun.IDB) ([]*RenderTime, error) {
	var found []*RenderTime
	err := db.NewSelect().Model(&found).Scan(ctx)
	return found, err
}

// PutRenderTimes writes render times.
func PutRenderTimes(ctx context.Context, tx bun.Tx, times []*RenderTime) error {
	_, err := tx.NewInsert().Model(&times).
		On("CONFLICT (model, time_class, gpu_type) DO UPDATE").
		Set("ratio = excluded.ratio, variance = excluded.variance, samples = excluded.samples, updated_at = clock_timestamp()").
		Exec(ctx)
	return err
}

// kindSQL selects the columns of Kind from a row j of jobs.
const kindSQL = "j.model, j.time_class"

// Rendered is a completed job: how long it occupied workers, and the catalogue's estimate.
type Rendered struct {
	Kind
	GPUType          string  `bun:"gpu_type"`
	Seconds          float64 `bun:"seconds"`
	EstimatedSeconds float64 `bun:"estimated_gpu_seconds"`
}

// ListRendered returns the newest jobs that completed after one time and up to another,
// oldest first.
func ListRendered(ctx context.Context, db bun.IDB, after, until time.Time, limit int) ([]Rendered, error) {
	var found []Rendered
	err := db.NewRaw(`
		SELECT model, time_class, gpu_type, estimated_gpu_seconds, seconds FROM (
			SELECT `+kindSQL+`, w.gpu_type, j.estimated_gpu_seconds, j.completed_at,
				(SELECT sum(gpu_seconds) FROM job_attempts WHERE job_id = j.id AND run = j.run) AS seconds
			FROM jobs j
			CROSS JOIN LATERAL (SELECT worker_id FROM job_attempts WHERE job_id = j.id ORDER BY attempt_no DESC LIMIT 1) last
			JOIN workers w ON w.id = last.worker_id
			WHERE j.completed_at > ?0 AND j.completed_at <= ?1 AND j.status = 'COMPLETED'
				AND j.draft_steps IS NULL AND j.continues IS NULL -- they are parts of a render
			ORDER BY j.completed_at DESC LIMIT ?2) newest
		WHERE seconds > 0
		ORDER BY completed_at`, after, until, limit).Scan(ctx, &found)
	return found, err
}

// Arrival is how many jobs per second an account submits in a tier for a model.
type Arrival struct {
	AccountID     models.AccountID `bun:"account_id"`
	Tier          models.Tier      `bun:"tier"`
	Model         string           `bun:"model"`
	JobsPerSecond float64          `bun:"jobs_per_second"`
	// GPUSeconds is the catalogue's estimate for one of the jobs.
	GPUSeconds float64 `bun:"gpu_seconds"`
	// The fields below describe the account in the tier's lane.
	VirtualTime float64 `bun:"virtual_time"`
	Weight      float64 `bun:"weight"`
	Running     int     `bun:"running"`
	MaxRunning  int     `bun:"max_running"`
}

// ListArrivals returns the rates of accounts that submitted jobs recently, averaged over span:
// the most active first, at most 2,000.
func ListArrivals(ctx context.Context, db bun.IDB, span time.Duration) ([]*Arrival, error) {
	var found []*Arrival
	err := db.NewRaw(`
		SELECT a.*, coalesce(l.virtual_time, 0) AS virtual_time, c.weight, c.running, c.max_running
		FROM (
			SELECT account_id, tier, model, gpu_seconds,
				jobs_per_second * exp(-extract(epoch FROM greatest(clock_timestamp() - until, interval '0'))::float8 / ?) AS jobs_per_second
			FROM arrivals ORDER BY 5 DESC LIMIT 2000) a
		JOIN accounts c ON c.id = a.account_id
		LEFT JOIN account_lanes l ON l.account_id = a.account_id AND l.lane = a.tier AND NOT l.promoted`, span.Seconds()).Scan(ctx, &found)
	return found, err
}

// CountArrivals adds the jobs submitted between two times to the averages over span. It
// deletes the rates of accounts that submitted nothing for ten times span. age is how long
// jobs have been counted at all, at most span: a younger average has not decayed yet.
func CountArrivals(ctx context.Context, tx bun.Tx, from, until time.Time, span, age time.Duration) error {
	_, err := tx.NewRaw(`
		WITH forgotten AS (DELETE FROM arrivals WHERE until < ?1::timestamptz - 10 * make_interval(secs => ?2))
		INSERT INTO arrivals AS a (account_id, tier, model, gpu_seconds, jobs_per_second, until)
		SELECT account_id, tier, model, avg(estimated_gpu_seconds), count(*) / ?3::float8, ?1
		FROM jobs WHERE id >= uuid7_floor(?0) AND id < uuid7_floor(?1)
		GROUP BY account_id, tier, model
		ON CONFLICT (account_id, tier, model) DO UPDATE SET until = excluded.until, gpu_seconds = excluded.gpu_seconds, jobs_per_second = excluded.jobs_per_second
			+ a.jobs_per_second * exp(-extract(epoch FROM excluded.until - a.until)::float8 / ?2)`,
		from, until, span.Seconds(), age.Seconds()).Exec(ctx)
	return err
}

// Learning is the time up to which the averages include all jobs.
type Learning struct {
	BeganAt time.Time `bun:"began_at"`
	Until   time.Time `bun:"until"`
	// Now is PostgreSQL's clock.
	Now time.Time `bun:"now"`
}

// LockLearning locks and returns it, or returns sql.ErrNoRows if another process has it
// locked.
func LockLearning(ctx context.Context, tx bun.Tx) (*Learning, error) {
	l := new(Learning)
	err := tx.NewRaw("SELECT began_at, until, clock_timestamp() AS now FROM learning FOR UPDATE SKIP LOCKED").Scan(ctx, l)
	return l, err
}

// SetLearned records the time up to which the averages include all jobs.
func SetLearned(ctx context.Context, tx bun.Tx, until time.Time) error {
	return postgres.MustChange(tx.NewRaw("UPDATE learning SET until = ?", until).Exec(ctx))
}
