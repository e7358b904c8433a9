package models

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
)

// paceSeconds is the time over which the pace of jobs is measured, in seconds.
const paceSeconds = 600

// JobTotals says how far the jobs of a filter are.
type JobTotals struct {
	Total int
	// Statuses has each status that occurs, in the order of JobStatuses.
	Statuses []StatusCount
	// Failures counts the FAILED jobs by class, the most frequent first.
	Failures []FailureCount
	// Percent is the mean progress. A job that has ended counts as 100. It is 0 without jobs.
	Percent float64
	// EstimatedEndAt is the estimated end of the last job, from how many ended in the last ten minutes, or nil
	// if none has ended since then, or all have.
	EstimatedEndAt *time.Time
	// Partly means that there may be more jobs.
	Partly bool
}

// FailureCount is how many jobs failed with a class.
type FailureCount struct {
	FailureClass FailureClass
	Jobs         int
}

// SumJobs sums up the jobs of a filter. It examines at most limit jobs.
func SumJobs(ctx context.Context, db bun.IDB, f JobFilter, limit int) (*JobTotals, error) {
	r, err := f.choose(ctx, db, "", limit)
	if err != nil {
		return nil, err
	}
	found, most := r.found(f, limit, limit)
	query := joined([]clause{found, sqlf(`,
		matched AS (SELECT DISTINCT id FROM found WHERE meets),
		moment AS (SELECT clock_timestamp() AS now),
		parts AS (
			SELECT j.status, CASE WHEN j.status = 'FAILED' THEN j.failure_class END AS class, count(*) AS n, sum(j.percent) AS percent,
				count(*) FILTER (WHERE j.completed_at > now - make_interval(secs => ?)) AS ended, min(j.created_at) AS since
			FROM matched m CROSS JOIN moment
			CROSS JOIN LATERAL (SELECT status, failure_class, percent, completed_at, created_at FROM jobs WHERE id = m.id LIMIT 1) j
			GROUP BY 1, 2)
		SELECT status, coalesce(class, '') AS class, n, percent, ended, now,
			least(extract(epoch FROM now - min(since) OVER ()), ?)::float8 AS seconds, false AS partly FROM parts CROSS JOIN moment
		UNION ALL SELECT '', '', 0, 0, 0, now, 0, (SELECT count(*) FROM found) >= ? FROM moment`, paceSeconds, paceSeconds, most)}, "")
	var rows []jobsPart
	if err := db.NewRaw(query.sql, query.args...).Scan(ctx, &rows); err != nil {
		return nil, err
	}
	return sumParts(rows), nil
}

// jobsPart is what SumJobs reads of the jobs with one status and failure class. Seconds is the time
// over which Ended counts them, and the same in all rows.
type jobsPart struct {
	Status  JobStatus    `bun:"status"`
	Class   FailureClass `bun:"class"`
	N       int          `bun:"n"`
	Percent float64      `bun:"percent"`
	Ended   int          `bun:"ended"`
	Seconds float64      `bun:"seconds"`
	Now     time.Time    `bun:"now"`
	Partly  bool         `bun:"partly"`
}

func sumParts(rows []jobsPart) *JobTotals {
	t := &JobTotals{Statuses: []StatusCount{}, Failures: []FailureCount{}}
	byStatus := map[JobStatus]int{}
	open, ended, seconds, percent := 0, 0, 0.0, 0.0
	var now time.Time
	for _, row := range rows {
		t.Partly = t.Partly || row.Partly
		if row.Status == "" {
			continue
		}
		t.Total += row.N
		byStatus[row.Status] += row.N
		ended, seconds, now = ended+row.Ended, row.Seconds, row.Now
		if row.Status.Terminal() {
			percent += 100 * float64(row.N)
		} else {
			open, percent = open+row.N, percent+row.Percent
		}
		if row.Class != "" {
			t.Failures = append(t.Failures, FailureCount{row.Class, row.N})
		}
	}
	for _, status := range JobStatuses {
		if n := byStatus[status]; n > 0 {
			t.Statuses = append(t.Statuses, StatusCount{status, n})
		}
	}
	slices.SortFunc(t.Failures, func(a, b FailureCount) int {
		if a.Jobs != b.Jobs {
			return b.Jobs - a.Jobs
		}
		return strings.Compare(string(a.FailureClass), string(b.FailureClass))
	})
	if t.Total > 0 {
		t.Percent = percent / float64(t.Total)
	}
	if open > 0 && ended > 0 {
		t.EstimatedEndAt = new(now.Add(time.Duration(float64(open) / float64(ended) * seconds * float64(time.Second))))
	}
	return t
}
