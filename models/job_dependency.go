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

// InsertJobDependencies writes what a new job depends on.
func InsertJobDependencies(ctx context.Context, tx bun.Tx, job JobID, on []JobID) error {
	rows := make([]JobDependency, len(on))
	for i, parent := range on {
		rows[i] = JobDependency{JobID: job, DependsOn: parent}
	}
	_, err := tx.NewInsert().Model(&rows).Exec(ctx)
	return err
}

// ListParents returns the jobs that a job depends on, by their ids.
func ListParents(ctx context.Context, db bun.IDB, job JobID) ([]*Job, error) {
	var parents []*Job
	err := db.NewSelect().Model(&parents).
		Where("j.id IN (SELECT depends_on FROM job_dependencies WHERE job_id = ?)", job).Order("j.id").Scan(ctx)
	return parents, err
}

// ListDependencies returns what these jobs depend on, in order.
func ListDependencies(ctx context.Context, db bun.IDB, jobs []JobID) ([]JobDependency, error) {
	var rows []JobDependency
	err := db.NewSelect().Model(&rows).Where("jd.job_id IN (?)", bun.List(jobs)).Order("jd.job_id", "jd.depends_on").Scan(ctx)
	return rows, err
}

// GetJobs returns the jobs of these ids, in no order.
func GetJobs(ctx context.Context, db bun.IDB, ids []JobID) ([]*Job, error) {
	var found []*Job
	err := db.NewSelect().Model(&found).Where("j.id IN (?)", bun.List(ids)).Scan(ctx)
	return found, err
}

// LockDependents returns the BLOCKED jobs that depend on the given one, and keeps
// them still until the transaction ends.
func LockDependents(ctx context.Context, tx bun.Tx, on JobID) ([]*Job, error) {
	var waiting []*Job
	err := tx.NewSelect().Model(&waiting).
		Where("j.status = 'BLOCKED' AND j.id IN (SELECT job_id FROM job_dependencies WHERE depends_on = ?)", on).
		Order("j.id").For("NO KEY UPDATE").Scan(ctx)
	return waiting, err
}
