package joblist

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// CountJobs counts jobs, up to limit. It examines at most limit rows, or examinedByCount if
// that is more, and returns limit if these do not settle the count. If a condition is about other
// rows than the job's, a small limit is not worth so much: then it examines up to examinedAside.
func CountJobs(ctx context.Context, db bun.IDB, f JobFilter, limit int) (int, error) {
	if all, but, ok := f.difference(); ok {
		less, err := countJobs(ctx, db, but, leftOut)
		if err != nil {
			return 0, err
		}
		if less < leftOut {
			n, err := countJobs(ctx, db, all, limit+less)
			return max(n-less, 0), err // a job may fail between the two counts
		}
	}
	return countJobs(ctx, db, f, limit)
}

// difference splits a filter that excludes some failure classes: all matches without the
// exclusion, but matches only what it excludes. Indexes count these two, but no index finds
// the jobs with another class or none.
func (f JobFilter) difference() (all, but JobFilter, ok bool) {
	nth := slices.IndexFunc(f.Terms.Facets, func(facet Facet) bool { return facet.Column == "failure_class" && facet.Not && !facet.Prefix })
	if nth < 0 {
		return all, but, false
	}
	all, but = f, f
	all.Terms.Facets = slices.Delete(slices.Clone(f.Terms.Facets), nth, nth+1)
	but.Terms.Facets = slices.Clone(f.Terms.Facets)
	but.Terms.Facets[nth].Not = false
	return all, but, len(all.readings()[0].rest.conditions()) == 0
}

func countJobs(ctx context.Context, db bun.IDB, f JobFilter, limit int) (int, error) {
	most := max(limit, examinedByCount)
	if f.Terms.aside() && limit < examinedByCount {
		most = examinedAside
	}
	r, err := f.choose(ctx, db, "", most)
	if err != nil {
		return 0, err
	}
	found, most := r.found(f, limit, most)
	counted := "id"
	if !r.once() {
		counted = "DISTINCT id"
	}
	query := joined([]clause{found, sqlf("SELECT count("+counted+") FILTER (WHERE meets) AS n, count(*) = ? AS partly FROM found", most)}, "")
	var count struct {
		N      int  `bun:"n"`
		Partly bool `bun:"partly"`
	}
	err = db.NewRaw(query.sql, query.args...).Scan(ctx, &count)
	if count.Partly {
		return limit, err
	}
	return min(count.N, limit), err
}

// StatusCounts are how many jobs have each status. If Partly is set, there may be more of each.
type StatusCounts struct {
	Jobs   map[models.JobStatus]int
	Partly bool
}

// CountFacets counts the jobs of a filter by status. It examines at most limit jobs.
func CountFacets(ctx context.Context, db bun.IDB, f JobFilter, limit int) (*StatusCounts, error) {
	r, err := f.choose(ctx, db, "", limit)
	if err != nil {
		return nil, err
	}
	found, most := r.found(f, limit, limit)
	query := joined([]clause{found, sqlf(`, matched AS (SELECT DISTINCT id FROM found WHERE meets)
		SELECT j.status, count(*) AS n, (SELECT count(*) FROM found) >= ? AS partly
		FROM matched m CROSS JOIN LATERAL (SELECT status FROM jobs WHERE id = m.id LIMIT 1) j GROUP BY j.status
		UNION ALL SELECT '', 0, (SELECT count(*) FROM found) >= ?`, most, most)}, "")
	var rows []struct {
		Status models.JobStatus `bun:"status"`
		N      int              `bun:"n"`
		Partly bool             `bun:"partly"`
	}
	if err := db.NewRaw(query.sql, query.args...).Scan(ctx, &rows); err != nil {
		return nil, err
	}
	counts := &StatusCounts{Jobs: map[models.JobStatus]int{}}
	for _, row := range rows {
		counts.Jobs[row.Status], counts.Partly = row.N, row.Partly
	}
	return counts, nil
}

// OfKinds reports whether jobs are counted from an index alone, for each status and however many
// there are: if the filter is about kinds, an account and the time of submit only.
func (f JobFilter) OfKinds() bool {
	rest := f.readings()
	rest[0].rest.CreatedAfter, rest[0].rest.CreatedBefore = time.Time{}, time.Time{}
	return len(rest) == 1 && len(rest[0].rest.conditions()) == 0 && rest[0].streams[0].table == "jobs" && len(rest[0].streams[0].only) == 0
}

// All reports whether all jobs match.
func (f JobFilter) All() bool { return f.OfKinds() && len(f.conditions()) == 0 }

// found writes the common table expression found: the ids of up to most jobs of a reading, and
// whether they match the filter. If the reading needs no further conditions, limit jobs are
// enough. It returns how many jobs it examines at most.
func (r reading) found(f JobFilter, limit, most int) (clause, int) {
	if len(r.rest.conditions()) == 0 && r.once() {
		most = limit
	}
	var with, rows []clause
	for n, s := range r.streams {
		with = append(with, s.picked(n))
		for _, part := range s.parts(r.rest) {
			rows = append(rows, wrapped(fmt.Sprintf("SELECT x.* FROM picked%d p CROSS JOIN LATERAL (", n),
				part.streams[0].met(f, part.rest, "", sqlf("?", most)), ") x"))
		}
	}
	with = append(with, wrapped("found AS (SELECT * FROM (", joined(rows, " UNION ALL "), ") rows LIMIT ?)", most))
	return wrapped("WITH RECURSIVE ", joined(with, ", "), " "), most
}

// parts splits a stream in up to three. The id of most jobs proves that they were created
// within the filter's bounds, so their rows need no check. The other parts hold the jobs that
// are so close to a bound that the difference between the clocks matters.
func (s stream) parts(rest JobFilter) []reading {
	certain, sure := s, rest
	sure.CreatedAfter, sure.CreatedBefore = time.Time{}, time.Time{}
	parts := []reading{}
	if !rest.CreatedAfter.IsZero() {
		first, edge := oldestID(rest.CreatedAfter.Add(clockMargin)), s
		certain.from, edge.to = max(s.from, first), first
		if s.to != "" {
			edge.to = min(s.to, first)
		}
		parts = append(parts, reading{[]stream{edge}, rest})
	}
	if !rest.CreatedBefore.IsZero() {
		last, edge := oldestID(rest.CreatedBefore.Add(-clockMargin)), s
		certain.to, edge.from = last, max(s.from, last)
		if s.to != "" {
			certain.to = min(s.to, last)
		}
		parts = append(parts, reading{[]stream{edge}, rest})
	}
	if len(parts) == 2 && certain.from >= certain.to {
		return []reading{{[]stream{s}, rest}} // the bounds are too near to each other
	}
	return append(parts, reading{[]stream{certain}, sure})
}

// once reports whether the reading yields each job only once.
func (r reading) once() bool {
	return len(r.streams) == 1 && (r.streams[0].table == "jobs" || r.streams[0].table == "job_words")
}

// StatusCount is how many jobs have a status.
type StatusCount struct {
	Status models.JobStatus `bun:"status"`
	Jobs   int              `bun:"jobs"`
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
		LEFT JOIN known ON known.status = asked.status`, postgres.TextArray(models.JobStatuses), limit).Scan(ctx, &counts)
	return counts, err
}
