package joblist

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/models"
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
	// EstimatedEndAt is the estimated end of the last job, or nil if it is unknown: see pace.end.
	EstimatedEndAt *time.Time
	// Partly means that there may be more jobs.
	Partly bool
}

// FailureCount is how many jobs failed with a class.
type FailureCount struct {
	FailureClass models.FailureClass
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
		jobs_of AS MATERIALIZED (
			SELECT j.* FROM matched m
			CROSS JOIN LATERAL (SELECT status, failure_class, percent, completed_at, created_at, progress_at + make_interval(secs => eta_seconds) AS ends
				FROM jobs WHERE id = m.id LIMIT 1) j),
		newest AS (SELECT max(completed_at) AS last, min(created_at) AS since FROM jobs_of),
		parts AS (
			SELECT status, CASE WHEN status = 'FAILED' THEN failure_class END AS class, count(*) AS n, sum(percent) AS percent,
				count(*) FILTER (WHERE completed_at > last - make_interval(secs => ?)) AS ended, count(ends) AS known, max(ends) AS ends
			FROM jobs_of CROSS JOIN newest
			GROUP BY 1, 2)
		SELECT status, coalesce(class, '') AS class, n, percent, ended, known, ends, now, last,
			least(extract(epoch FROM last - since), ?)::float8 AS seconds, false AS partly FROM parts CROSS JOIN moment CROSS JOIN newest
		UNION ALL SELECT '', '', 0, 0, 0, 0, NULL, now, NULL, 0, (SELECT count(*) FROM found) >= ? FROM moment`, paceSeconds, paceSeconds, most)},
		"")
	var rows []jobsPart
	if err := db.NewRaw(query.sql, query.args...).Scan(ctx, &rows); err != nil {
		return nil, err
	}
	return sumParts(rows), nil
}

// jobsPart is what SumJobs reads of the jobs with one status and failure class. Seconds is the time
// over which Ended counts them, and the same in all rows.
type jobsPart struct {
	Status  models.JobStatus    `bun:"status"`
	Class   models.FailureClass `bun:"class"`
	N       int                 `bun:"n"`
	Percent float64             `bun:"percent"`
	Ended   int                 `bun:"ended"`
	Seconds float64             `bun:"seconds"`
	Known   int                 `bun:"known"` // of how many a worker says when they end
	Ends    time.Time           `bun:"ends"`  // when the last of these ends
	Now     time.Time           `bun:"now"`
	Last    time.Time           `bun:"last"` // when the newest job of all rows ended
	Partly  bool                `bun:"partly"`
}

func sumParts(rows []jobsPart) *JobTotals {
	t := &JobTotals{Statuses: []StatusCount{}, Failures: []FailureCount{}}
	byStatus := map[models.JobStatus]int{}
	var pace pace
	percent := 0.0
	for _, row := range rows {
		t.Partly = t.Partly || row.Partly
		if row.Status == "" {
			continue
		}
		t.Total += row.N
		byStatus[row.Status] += row.N
		pace.ended, pace.seconds, pace.now, pace.last = pace.ended+row.Ended, row.Seconds, row.Now, row.Last
		if row.Status.Terminal() {
			percent += 100 * float64(row.N)
		} else {
			pace.open, pace.known, percent = pace.open+row.N, pace.known+row.Known, percent+row.Percent
			if row.Ends.After(pace.ends) {
				pace.ends = row.Ends
			}
		}
		if row.Class != "" {
			t.Failures = append(t.Failures, FailureCount{row.Class, row.N})
		}
	}
	for _, status := range models.JobStatuses {
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
	t.EstimatedEndAt = pace.end()
	return t
}

// pace is how fast jobs end: ended of them in the seconds before the last one that did. known of the
// open ones say when they end, the last of them at ends.
type pace struct {
	now, last, ends    time.Time
	open, known, ended int
	seconds            float64
}

// end estimates when the last open job ends, or returns nil. The pace counts from the newest end, not
// from now, so that the estimate stays where it is until another job ends. If each open job says when
// it ends, that counts. There is no estimate once its time has passed.
func (p pace) end() *time.Time {
	end := p.ends
	if p.known < p.open {
		if p.ended == 0 || p.now.Sub(p.last) > paceSeconds*time.Second {
			return nil
		}
		if at := p.last.Add(time.Duration(float64(p.open) / float64(p.ended) * p.seconds * float64(time.Second))); at.After(end) {
			end = at
		}
	}
	if p.open == 0 || !end.After(p.now) {
		return nil
	}
	return &end
}
