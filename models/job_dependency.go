package models

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// FailurePolicy says what happens to a job if one that it depends on ends without success.
type FailurePolicy string

// The values of FailurePolicy.
const (
	FailureCascade  FailurePolicy = "CASCADE"      // the job fails, too
	FailureContinue FailurePolicy = "CONTINUE"     // the job runs anyway
	FailureRetry    FailurePolicy = "RETRY_PARENT" // the other one is retried; if that does not help, CASCADE
)

// JobDependency says that a job waits for another job.
type JobDependency struct {
	bun.BaseModel `bun:"table:job_dependencies,alias:jd"`

	JobID     JobID         `bun:"job_id,pk"`
	DependsOn JobID         `bun:"depends_on,pk"`
	OnFailure FailurePolicy `bun:"on_failure"`
	// ParentRetries is how often DependsOn was retried for JobID.
	ParentRetries int `bun:"parent_retries"`
}

// InsertDependencies records which jobs depend on which.
func InsertDependencies(ctx context.Context, tx bun.Tx, rows []JobDependency) error {
	if len(rows) == 0 {
		return nil
	}
	jobs, on, policies := make([]JobID, len(rows)), make([]JobID, len(rows)), make([]FailurePolicy, len(rows))
	for i, row := range rows {
		jobs[i], on[i], policies[i] = row.JobID, row.DependsOn, row.OnFailure
	}
	_, err := tx.NewRaw(`INSERT INTO job_dependencies (job_id, depends_on, on_failure)
		SELECT * FROM unnest(?::uuid[], ?::uuid[], ?::text[])`, postgres.UUIDArray(jobs), postgres.UUIDArray(on),
		postgres.TextArray(policies)).Exec(ctx)
	return err
}

// ListAwaited returns the given jobs that other jobs depend on. The caller has locked the
// jobs, so that a concurrent submit of a dependent job has either committed or waits for the
// lock.
func ListAwaited(ctx context.Context, tx bun.Tx, jobs []JobID) (awaited []JobID, err error) {
	err = postgres.Read(ctx, tx, `
		SELECT DISTINCT d.depends_on FROM unnest((SELECT @jobs::uuid[])) AS j (id)
		CROSS JOIN LATERAL (SELECT depends_on FROM job_dependencies WHERE depends_on = j.id LIMIT 1) d
		ORDER BY d.depends_on`,
		pgx.NamedArgs{"jobs": postgres.Column(jobs, postgres.UUID)}, &awaited)
	return awaited, err
}

// ListDependencies returns the dependencies of these jobs, in order.
func ListDependencies(ctx context.Context, db bun.IDB, jobs []JobID) ([]JobDependency, error) {
	var rows []JobDependency
	err := db.NewSelect().Model(&rows).Where("jd.job_id IN (?)", bun.List(jobs)).Order("jd.job_id", "jd.depends_on").Scan(ctx)
	return rows, err
}

// ListChildren returns the jobs that depend on a job, oldest first, at most limit.
func ListChildren(ctx context.Context, db bun.IDB, on JobID, limit int) (children []*Job, err error) {
	err = db.NewRaw(`
		SELECT j.* FROM (SELECT job_id FROM job_dependencies WHERE depends_on = ? ORDER BY job_id LIMIT ?) child
		JOIN jobs j ON j.id = child.job_id ORDER BY j.id`, on, limit).Scan(ctx, &children)
	return children, err
}

// FindWaiting returns the BLOCKED jobs that the ends of jobs can change: those that depend on one
// of them; and, below those of failed, whatever may fail with its parent, and what depends on that.
// It stops at most jobs, unless most is 0: if it returns that many, there may be others.
//
// The array in the recursion and the subqueries keep PostgreSQL from joining whole tables at each of
// what may be 10,000 levels.
func FindWaiting(ctx context.Context, tx bun.Tx, ended, failed []JobID, most int) (waiting []JobID, err error) {
	return waiting, tx.NewRaw(`
		WITH RECURSIVE failing (id) AS (
			SELECT unnest(?1::uuid[])
			UNION
			SELECT unnest(ARRAY(
				SELECT d.job_id FROM job_dependencies d
				WHERE d.depends_on = f.id AND d.on_failure <> 'CONTINUE'
					AND (SELECT j.status FROM jobs j WHERE j.id = d.job_id) = 'BLOCKED')) FROM failing f)
		SELECT DISTINCT below.job_id
		FROM (SELECT unnest(?0::uuid[]) AS id UNION (SELECT id FROM failing LIMIT ?2::integer + cardinality(?1::uuid[]))) f
		CROSS JOIN LATERAL (
			SELECT d.job_id FROM job_dependencies d
			WHERE d.depends_on = f.id AND (SELECT j.status FROM jobs j WHERE j.id = d.job_id) = 'BLOCKED'
			ORDER BY d.job_id LIMIT ?2::integer) below
		ORDER BY below.job_id LIMIT ?2::integer`, postgres.UUIDArray(ended), postgres.UUIDArray(failed), limitOf(most)).Scan(ctx, &waiting)
}

// LockBlocked locks and returns those of some jobs that are BLOCKED, in the order of their ids.
func LockBlocked(ctx context.Context, tx bun.Tx, ids []JobID) (found []*Job, err error) {
	return found, tx.NewRaw(`SELECT j.* FROM jobs j WHERE j.id = ANY (?::uuid[]) AND j.status = 'BLOCKED' ORDER BY j.id FOR NO KEY UPDATE OF j`,
		postgres.UUIDArray(ids)).Scan(ctx, &found)
}

// LockWaiting locks and returns all jobs of FindWaiting that are still BLOCKED, in the order of
// their ids. edges are their dependencies on ended jobs and on each other.
func LockWaiting(ctx context.Context, tx bun.Tx, ended, failed []JobID) (waiting []*Job, edges []JobDependency, err error) {
	ids, err := FindWaiting(ctx, tx, ended, failed, 0)
	if err != nil || len(ids) == 0 {
		return nil, nil, err
	}
	if waiting, err = LockBlocked(ctx, tx, ids); err != nil || len(waiting) == 0 {
		return waiting, nil, err
	}
	ids = ids[:0]
	for _, job := range waiting {
		ids = append(ids, job.ID)
	}
	edges, err = ListDependenciesOn(ctx, tx, ids, append(slices.Clone(ids), ended...))
	return waiting, edges, err
}

// ListDependenciesOn returns the dependencies of jobs on any of others, in order.
func ListDependenciesOn(ctx context.Context, db bun.IDB, jobs, on []JobID) (edges []JobDependency, err error) {
	return edges, db.NewSelect().Model(&edges).
		Where("jd.job_id = ANY (?::uuid[])", postgres.UUIDArray(jobs)).
		Where("jd.depends_on = ANY (?::uuid[])", postgres.UUIDArray(on)).
		Order("jd.depends_on", "jd.job_id").Scan(ctx)
}

// limitOf returns an argument for LIMIT: none if most is 0.
func limitOf(most int) any {
	if most == 0 {
		return nil
	}
	return most
}

// IsAwaited reports whether a BLOCKED job depends on a job.
func IsAwaited(ctx context.Context, db bun.IDB, job JobID) (awaited bool, err error) {
	return awaited, db.NewRaw(`SELECT EXISTS (
		SELECT FROM job_dependencies d WHERE d.depends_on = ? AND (SELECT j.status FROM jobs j WHERE j.id = d.job_id) = 'BLOCKED')`,
		job).Scan(ctx, &awaited)
}

// ListDemanded returns those of some failed jobs for which a BLOCKED job waits that wants them
// retried, and not more than most times.
func ListDemanded(ctx context.Context, tx bun.Tx, failed []JobID, most int) (demanded []JobID, err error) {
	return demanded, tx.NewRaw(`
		SELECT f.id FROM unnest(?::uuid[]) AS f (id) WHERE EXISTS (
			SELECT FROM job_dependencies d
			WHERE d.depends_on = f.id AND d.on_failure = 'RETRY_PARENT' AND d.parent_retries < ?
				AND (SELECT j.status FROM jobs j WHERE j.id = d.job_id) = 'BLOCKED')
		ORDER BY f.id`, postgres.UUIDArray(failed), most).Scan(ctx, &demanded)
}

// ParentRetry says that a run of a FAILED job is to be followed by another one, because a job
// that depends on it demands that.
type ParentRetry struct {
	bun.BaseModel `bun:"table:parent_retries,alias:pr"`

	JobID JobID `bun:"job_id,pk"`
	Run   int   `bun:"run"`
}

// InsertParentRetry records that a locked job, which fails, is to be retried for these dependents.
func InsertParentRetry(ctx context.Context, tx bun.Tx, r ParentRetry) error {
	if _, err := tx.NewInsert().Model(&r).On("CONFLICT (job_id) DO UPDATE SET run = excluded.run").Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewUpdate().Model((*JobDependency)(nil)).Set("parent_retries = parent_retries + 1").
		Where("jd.depends_on = ? AND jd.on_failure = ?", r.JobID, FailureRetry).Exec(ctx)
	return err
}

// ListParentRetries returns up to limit jobs that are to be retried.
func ListParentRetries(ctx context.Context, db bun.IDB, limit int) (due []ParentRetry, err error) {
	return due, db.NewSelect().Model(&due).Order("pr.job_id").Limit(int64(limit)).Scan(ctx)
}

// DropParentRetries deletes the records of locked jobs, and returns those that had one.
func DropParentRetries(ctx context.Context, tx bun.Tx, jobs []JobID) (dropped []JobID, err error) {
	err = tx.NewRaw("DELETE FROM parent_retries WHERE job_id = ANY (?::uuid[]) RETURNING job_id", postgres.UUIDArray(jobs)).Scan(ctx, &dropped)
	return dropped, err
}

// Tolerate lets all jobs that depend on a job run even if it ends without success.
func Tolerate(ctx context.Context, tx bun.Tx, job JobID) error {
	_, err := tx.NewUpdate().Model((*JobDependency)(nil)).Set("on_failure = ?", FailureContinue).Where("jd.depends_on = ?", job).Exec(ctx)
	return err
}

// DependencyState is what a job has from one that it depends on.
type DependencyState struct {
	// Open means that it waits for it, and Used that it uses its result.
	Open bool `bun:"open"`
	Used bool `bun:"used"`
}

// OpenDependency returns the state of a dependency of a locked job; the zero value if there is none.
func OpenDependency(ctx context.Context, tx bun.Tx, job, on JobID) (s DependencyState, err error) {
	err = tx.NewRaw(`SELECT
			EXISTS (SELECT FROM job_dependencies d JOIN jobs p ON p.id = d.depends_on
				WHERE d.job_id = ?0 AND d.depends_on = ?1 AND p.status <> 'COMPLETED' AND NOT (d.on_failure = 'CONTINUE' AND p.completed_at IS NOT NULL
					AND NOT EXISTS (SELECT FROM parent_retries r WHERE r.job_id = p.id))) AS open,
			EXISTS (SELECT FROM job_sources s WHERE s.job_id = ?0 AND s.source_id = ?1) AS used`, job, on).Scan(ctx, &s)
	return s, err
}

// DeleteDependency deletes a dependency, and reports whether there was one.
func DeleteDependency(ctx context.Context, tx bun.Tx, job, on JobID) (bool, error) {
	n, err := postgres.Affected(tx.NewDelete().Model((*JobDependency)(nil)).Where("jd.job_id = ? AND jd.depends_on = ?", job, on).Exec(ctx))
	return n > 0, err
}
