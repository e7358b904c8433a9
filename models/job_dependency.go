package models

import (
	"context"

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
		SELECT * FROM unnest(?::uuid[], ?::uuid[], ?::text[])`, uuidArray(jobs), uuidArray(on), textArray(policies)).Exec(ctx)
	return err
}

// ShareParents is ShareJobs for what jobs depend on, without these jobs themselves.
func ShareParents(ctx context.Context, tx bun.Tx, jobs []JobID) (parents []*Job, err error) {
	err = tx.NewRaw(`
		SELECT j.* FROM jobs j
		WHERE j.id = ANY (ARRAY(SELECT depends_on FROM job_dependencies WHERE job_id = ANY (?0::uuid[]) EXCEPT SELECT unnest(?0::uuid[])))
		ORDER BY j.id FOR SHARE OF j`, uuidArray(jobs)).Scan(ctx, &parents)
	return parents, err
}

// ListAwaited returns the given jobs that other jobs depend on. The caller has locked the
// jobs, so that a concurrent submit of a dependent job has either committed or waits for the
// lock.
func ListAwaited(ctx context.Context, tx bun.Tx, jobs []JobID) (awaited []JobID, err error) {
	err = tx.NewSelect().Model((*JobDependency)(nil)).Distinct().Column("depends_on").
		Where("jd.depends_on IN (?)", bun.List(jobs)).Order("jd.depends_on").Scan(ctx, &awaited)
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

// LockWaiting locks and returns the BLOCKED jobs that the ends of jobs can change, in the order
// of their ids: those that depend on one of them; and, below those of failed, whatever may fail
// with its parent, and what depends on that. edges are their dependencies on ended jobs and on
// each other.
//
// The array in the recursion and the subquery in it keep PostgreSQL from joining whole tables at each
// of what may be 10,000 levels. The array outside is needed for the locks: of rows for whose lock it
// waited, PostgreSQL checks the conditions again, and takes an IN with a UNION for false then.
func LockWaiting(ctx context.Context, tx bun.Tx, ended, failed []JobID) (waiting []*Job, edges []JobDependency, err error) {
	err = tx.NewRaw(`
		WITH RECURSIVE failing (id) AS (
			SELECT unnest(?1::uuid[])
			UNION
			SELECT unnest(ARRAY(
				SELECT d.job_id FROM job_dependencies d
				WHERE d.depends_on = f.id AND d.on_failure <> 'CONTINUE'
					AND (SELECT j.status FROM jobs j WHERE j.id = d.job_id) = 'BLOCKED')) FROM failing f)
		SELECT j.* FROM jobs j
		WHERE j.status = 'BLOCKED' AND j.id = ANY (ARRAY(
			SELECT job_id FROM job_dependencies WHERE depends_on = ANY (?0::uuid[])
			UNION SELECT d.job_id FROM failing f JOIN job_dependencies d ON d.depends_on = f.id))
		ORDER BY j.id FOR NO KEY UPDATE OF j`, uuidArray(ended), uuidArray(failed)).Scan(ctx, &waiting)
	if err != nil || len(waiting) == 0 {
		return waiting, nil, err
	}
	ids := make([]JobID, len(waiting))
	for i, job := range waiting {
		ids[i] = job.ID
	}
	err = tx.NewSelect().Model(&edges).
		Where("jd.job_id = ANY (?::uuid[])", uuidArray(ids)).
		Where("jd.depends_on = ANY (?::uuid[])", uuidArray(append(ids, ended...))).
		Order("jd.depends_on", "jd.job_id").Scan(ctx)
	return waiting, edges, err
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
	err = tx.NewRaw("DELETE FROM parent_retries WHERE job_id = ANY (?::uuid[]) RETURNING job_id", uuidArray(jobs)).Scan(ctx, &dropped)
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
	n, err := affected(tx.NewDelete().Model((*JobDependency)(nil)).Where("jd.job_id = ? AND jd.depends_on = ?", job, on).Exec(ctx))
	return n > 0, err
}
