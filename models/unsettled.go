package models

import (
	"context"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// The table unsettled has the dependencies on ended jobs that are still to be settled: the job
// that depends on an ended one still counts it in its BlockedBy.

// LeaveUnsettled records the dependencies of BLOCKED jobs on ended jobs, except those of the jobs
// in settled, and returns how many there are. The ended jobs are locked.
func LeaveUnsettled(ctx context.Context, tx bun.Tx, ended, settled []JobID) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		INSERT INTO unsettled (depends_on, job_id)
		SELECT d.depends_on, d.job_id FROM job_dependencies d
		WHERE d.depends_on = ANY (?::uuid[]) AND d.job_id <> ALL (?::uuid[])
			AND (SELECT j.status FROM jobs j WHERE j.id = d.job_id) = 'BLOCKED'
		ON CONFLICT DO NOTHING`, postgres.UUIDArray(ended), postgres.UUIDArray(settled)).Exec(ctx))
}

// LeaveUnsettledOf records the dependencies of new runs on jobs that ended while the runs were
// written.
func LeaveUnsettledOf(ctx context.Context, tx bun.Tx, runs, ended []JobID) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		INSERT INTO unsettled (depends_on, job_id)
		SELECT d.depends_on, d.job_id FROM job_dependencies d
		WHERE d.depends_on = ANY (?::uuid[]) AND d.job_id = ANY (?::uuid[])
		ON CONFLICT DO NOTHING`, postgres.UUIDArray(ended), postgres.UUIDArray(runs)).Exec(ctx))
}

// TakeUnsettled deletes up to limit records of dependencies on these jobs, or on any if on is nil,
// and returns the dependencies that still exist. It skips those that others have locked: no run of these jobs, or of those on which they depend, can
// begin until the transaction ends.
func TakeUnsettled(ctx context.Context, tx bun.Tx, on []JobID, limit int) (taken int, edges []JobDependency, err error) {
	var rows []struct {
		JobDependency `bun:",extend"`
		Exists        bool `bun:"there"`
	}
	err = tx.NewRaw(`
		WITH next AS MATERIALIZED (SELECT depends_on, job_id FROM unsettled
			WHERE ? OR depends_on = ANY (?::uuid[]) ORDER BY depends_on, job_id LIMIT ? FOR UPDATE SKIP LOCKED),
		taken AS (DELETE FROM unsettled u USING next n WHERE u.depends_on = n.depends_on AND u.job_id = n.job_id)
		SELECT n.depends_on, n.job_id, coalesce(d.on_failure, '') AS on_failure, coalesce(d.parent_retries, 0) AS parent_retries, d.job_id IS NOT NULL AS there
		FROM next n LEFT JOIN job_dependencies d ON d.job_id = n.job_id AND d.depends_on = n.depends_on
		ORDER BY n.depends_on, n.job_id`, on == nil, postgres.UUIDArray(on), limit).Scan(ctx, &rows)
	for _, row := range rows {
		if row.Exists {
			edges = append(edges, row.JobDependency)
		}
	}
	return len(rows), edges, err
}

// ForgetUnsettled deletes the records of jobs that begin another run, and of the jobs that depend on
// them. It returns the latter: they still wait for these jobs. It waits for those that others settle.
func ForgetUnsettled(ctx context.Context, tx bun.Tx, jobs []JobID) (waits []JobDependency, err error) {
	err = tx.NewRaw(`
		WITH gone AS (DELETE FROM unsettled WHERE depends_on = ANY (?0::uuid[]) OR job_id = ANY (?0::uuid[]) RETURNING depends_on, job_id)
		SELECT depends_on, job_id FROM gone WHERE depends_on = ANY (?0::uuid[])`, postgres.UUIDArray(jobs)).Scan(ctx, &waits)
	return waits, err
}
