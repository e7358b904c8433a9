package models

import (
	"context"

	"github.com/uptrace/bun"
)

// JobDependency says that a job waits until another one is COMPLETED.
type JobDependency struct {
	bun.BaseModel `bun:"table:job_dependencies,alias:jd"`

	JobID     JobID `bun:"job_id,pk"`
	DependsOn JobID `bun:"depends_on,pk"`
}

// InsertDependencies notes what jobs depend on.
func InsertDependencies(ctx context.Context, tx bun.Tx, rows []JobDependency) error {
	_, err := tx.NewInsert().Model(&rows).Exec(ctx)
	return err
}

// ShareParents returns the jobs that a job depends on, as ShareJobs does.
func ShareParents(ctx context.Context, tx bun.Tx, job JobID) (parents []*Job, err error) {
	err = tx.NewSelect().Model(&parents).
		Where("j.id IN (SELECT depends_on FROM job_dependencies WHERE job_id = ?)", job).Order("j.id").For("SHARE").Scan(ctx)
	return parents, err
}

// ListAwaited returns those of the given jobs that others depend on. The caller has
// locked them, so that whoever submits a job that depends on one was seen, or waits.
func ListAwaited(ctx context.Context, tx bun.Tx, jobs []JobID) (awaited []JobID, err error) {
	err = tx.NewSelect().Model((*JobDependency)(nil)).Distinct().Column("depends_on").
		Where("jd.depends_on IN (?)", bun.List(jobs)).Order("jd.depends_on").Scan(ctx, &awaited)
	return awaited, err
}

// ListDependencies returns what these jobs depend on, in order.
func ListDependencies(ctx context.Context, db bun.IDB, jobs []JobID) ([]JobDependency, error) {
	var rows []JobDependency
	err := db.NewSelect().Model(&rows).Where("jd.job_id IN (?)", bun.List(jobs)).Order("jd.job_id", "jd.depends_on").Scan(ctx)
	return rows, err
}

// Dependent is a job and one of those that it depends on.
type Dependent struct {
	Job
	Parent JobID `bun:"parent"`
}

// LockDependents returns the BLOCKED jobs that depend on the given one, by their
// ids, and keeps them still until the transaction ends.
func LockDependents(ctx context.Context, tx bun.Tx, on JobID) ([]*Dependent, error) {
	var waiting []*Dependent
	err := tx.NewRaw(`
		SELECT j.*, ?0::uuid AS parent FROM jobs j
		WHERE j.status = 'BLOCKED' AND j.id IN (SELECT job_id FROM job_dependencies WHERE depends_on = ?0)
		ORDER BY j.id FOR NO KEY UPDATE OF j`, on).Scan(ctx, &waiting)
	return waiting, err
}

// LockDescendants is LockDependents with those that depend on these in turn, and
// so on. The parent of each is one through which it hangs on the given job.
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
