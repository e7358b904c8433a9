package models

import (
	"context"

	"github.com/uptrace/bun"
)

// JobDependency says that a job waits until another job is COMPLETED.
type JobDependency struct {
	bun.BaseModel `bun:"table:job_dependencies,alias:jd"`

	JobID     JobID `bun:"job_id,pk"`
	DependsOn JobID `bun:"depends_on,pk"`
}

// InsertDependencies records which jobs depend on which.
func InsertDependencies(ctx context.Context, tx bun.Tx, rows []JobDependency) error {
	_, err := tx.NewInsert().Model(&rows).Exec(ctx)
	return err
}

// ShareParents is ShareJobs for the jobs that a job depends on.
func ShareParents(ctx context.Context, tx bun.Tx, job JobID) (parents []*Job, err error) {
	err = tx.NewSelect().Model(&parents).
		Where("j.id IN (SELECT depends_on FROM job_dependencies WHERE job_id = ?)", job).Order("j.id").For("SHARE").Scan(ctx)
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

// Dependent is a job and one of the jobs that it depends on.
type Dependent struct {
	Job
	Parent JobID `bun:"parent"`
}

// LockDependents locks and returns the BLOCKED jobs that depend on the given job, in the order
// of their ids.
func LockDependents(ctx context.Context, tx bun.Tx, on JobID) ([]*Dependent, error) {
	var waiting []*Dependent
	err := tx.NewRaw(`
		SELECT j.*, ?0::uuid AS parent FROM jobs j
		WHERE j.status = 'BLOCKED' AND j.id IN (SELECT job_id FROM job_dependencies WHERE depends_on = ?0)
		ORDER BY j.id FOR NO KEY UPDATE OF j`, on).Scan(ctx, &waiting)
	return waiting, err
}

// LockDescendants is LockDependents for direct and indirect dependents. The parent of each is
// a job through which it depends on the given job.
func LockDescendants(ctx context.Context, tx bun.Tx, on JobID) ([]*Dependent, error) {
	var waiting []*Dependent
	err := tx.NewRaw(`
		WITH RECURSIVE below (id) AS (
			SELECT job_id FROM job_dependencies WHERE depends_on = ?0
			UNION
			SELECT d.job_id FROM below b JOIN jobs j ON j.id = b.id AND j.status = 'BLOCKED' JOIN job_dependencies d ON d.depends_on = b.id)
		SELECT j.*, (
			SELECT d.depends_on FROM job_dependencies d
			WHERE d.job_id = j.id AND (d.depends_on = ?0 OR d.depends_on IN (SELECT id FROM below))
			ORDER BY d.depends_on <> ?0, d.depends_on LIMIT 1) AS parent
		FROM jobs j WHERE j.status = 'BLOCKED' AND j.id IN (SELECT id FROM below)
		ORDER BY j.id FOR NO KEY UPDATE OF j`, on).Scan(ctx, &waiting)
	return waiting, err
}
