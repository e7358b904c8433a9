package models

import (
	"context"

	"github.com/uptrace/bun"
)

// StatusCount is how many jobs have a status.
type StatusCount struct {
	Status JobStatus `bun:"status"`
	Jobs   int       `bun:"jobs"`
}

// CountStatuses counts the jobs of each status. Up to limit the count is exact, from the index
// alone. Beyond that it comes from PostgreSQL's statistics, as of the table's last ANALYZE.
func CountStatuses(ctx context.Context, db bun.IDB, limit int) ([]StatusCount, error) {
	var counts []StatusCount
	err := db.NewRaw(`
		WITH known AS (
			SELECT common.status, (common.share * greatest(c.reltuples, 0))::bigint AS jobs
			FROM pg_stats s
			JOIN pg_class c ON c.oid = 'jobs'::regclass
			CROSS JOIN LATERAL unnest(s.most_common_vals::text::text[], s.most_common_freqs) AS common (status, share)
			WHERE s.schemaname = current_schema() AND s.tablename = 'jobs' AND s.attname = 'status')
		SELECT asked.status, CASE WHEN exact.jobs <= ?1 THEN exact.jobs ELSE greatest(exact.jobs, known.jobs) END AS jobs
		FROM unnest(?0::text[]) AS asked (status)
		CROSS JOIN LATERAL (
			SELECT count(*) AS jobs FROM (SELECT FROM jobs j WHERE j.status = asked.status LIMIT ?1 + 1) found) exact
		LEFT JOIN known ON known.status = asked.status`, textArray(JobStatuses), limit).Scan(ctx, &counts)
	return counts, err
}
