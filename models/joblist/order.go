package joblist

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// JobOrder is an order of a list of jobs.
type JobOrder string

const (
	// OrderNewest and OrderOldest list all jobs, by the time of their submit.
	OrderNewest JobOrder = "NEWEST"
	OrderOldest JobOrder = "OLDEST"
	// OrderWaiting lists QUEUED jobs, those that were queued first come first.
	OrderWaiting JobOrder = "LONGEST_WAITING"
	// OrderRunning lists jobs that a worker holds, the longest leases first.
	OrderRunning JobOrder = "LONGEST_RUNNING"
	// OrderDue lists SCHEDULED jobs, the next ones first.
	OrderDue JobOrder = "DUE_FIRST"
	// OrderEnded lists jobs that have ended, the last ones first.
	OrderEnded JobOrder = "LAST_ENDED"
)

// JobOrders lists them all. For each there is an index.
var JobOrders = []JobOrder{OrderNewest, OrderOldest, OrderWaiting, OrderRunning, OrderDue, OrderEnded}

// Statuses returns the statuses of the jobs that an order lists, or nil if it lists all jobs.
func (o JobOrder) Statuses() []models.JobStatus {
	return map[JobOrder][]models.JobStatus{
		OrderWaiting: {models.JobQueued}, OrderRunning: {models.JobAssigned, models.JobRunning, models.JobCompleting},
		OrderDue:   {models.JobScheduled},
		OrderEnded: {models.JobCompleted, models.JobFailed, models.JobCancelled},
	}[o]
}

// byTime is an order by a column with a time: where its rows are, and in which direction.
type byTime struct {
	stream
	column string
	down   bool
}

// timeOrders holds the orders by a time. The number of jobs that workers hold is bounded by the
// fleet: these are sorted without an index.
var timeOrders = map[JobOrder]byTime{
	OrderWaiting: {stream{table: "jobs", id: "id", heads: []string{"lane", "tier", "model"}, only: []clause{sqlf("t.status = 'QUEUED'")}},
		"queued_at", false},
	OrderRunning: {stream{table: "jobs", id: "id", only: []clause{sqlf("t.status IN ('ASSIGNED', 'RUNNING', 'COMPLETING')")}}, "leased_at",
		false},
	OrderDue:   {stream{table: "jobs", id: "id", heads: []string{"lane"}, only: []clause{sqlf("t.status = 'SCHEDULED'")}}, "run_at", false},
	OrderEnded: {stream{table: "jobs", id: "id", only: []clause{sqlf("t.completed_at IS NOT NULL")}}, "completed_at", true},
}

// ListJobsIn is ListJobs in another order. after is the Place of the last job of the page
// before, or "".
func ListJobsIn(ctx context.Context, db bun.IDB, order JobOrder, f JobFilter, after string, limit int) (*JobList, error) {
	by, ok := timeOrders[order]
	if !ok {
		list, err := listJobsByID(ctx, db, f, order == OrderOldest, models.JobID(after), limit)
		if err == nil && list.Edge != "" {
			list.End = string(list.Edge)
		}
		return list, err
	}
	list, err := by.list(ctx, db, f, after, limit, 0)
	if err == nil && list.End != "" && len(list.Jobs) < limit {
		list, err = by.list(ctx, db, f, after, limit, examinedByList)
	}
	if err == nil && len(list.Jobs) == limit {
		list.End = order.Place(list.Jobs[limit-1])
	}
	return list, err
}

// Place is where a list in this order continues after a job.
func (o JobOrder) Place(j *models.Job) string {
	at := map[JobOrder]time.Time{OrderWaiting: j.QueuedAt, OrderRunning: j.LeasedAt, OrderDue: j.RunAt, OrderEnded: j.CompletedAt}
	if t, ok := at[o]; ok {
		return place(t, j.ID)
	}
	return string(j.ID)
}

func place(at time.Time, id models.JobID) string {
	return at.UTC().Format(time.RFC3339Nano) + " " + string(id)
}

// ValidPlace reports whether a text is a Place in a list of this order, or "".
func (o JobOrder) ValidPlace(text string) bool {
	by, ok := timeOrders[o]
	if !ok || text == "" {
		return text == "" || models.JobID(text).Valid()
	}
	_, id, err := by.begin(text)
	return err == nil && id.Valid()
}

// begin returns the time and the id to continue after.
func (by byTime) begin(after string) (at any, id models.JobID, err error) {
	if after == "" && by.down {
		return "infinity", models.JobID(models.JobKind + "_" + uuid.Max.String()), nil
	}
	if after == "" {
		return "-infinity", models.JobID(models.JobKind + "_" + uuid.Nil.String()), nil
	}
	text, rest, _ := strings.Cut(after, " ")
	at, err = time.Parse(time.RFC3339Nano, text)
	return at, models.JobID(rest), err
}

// list examines about examined jobs in all, and at least limit jobs of each head.
func (by byTime) list(ctx context.Context, db bun.IDB, f JobFilter, after string, limit, examined int) (*JobList, error) {
	at, id, err := by.begin(after)
	if err != nil {
		return nil, err
	}
	s := by.stream
	for _, facet := range f.facets() {
		if slices.Contains(s.heads, facet.Column) {
			s.pick = append(s.pick, facet.on("h"))
		}
	}
	beyond, toward, away := ">", "", " DESC"
	if by.down {
		beyond, toward, away = "<", " DESC", ""
	}
	heads, values := s.columns("t", "p")
	where := append([]clause{}, s.only...)
	for i := range heads {
		where = append(where, wrapped(heads[i]+" = ", values[i], ""))
	}
	where = append(where, sqlf(fmt.Sprintf("(t.%s, t.id) %s (?::timestamptz, ?::uuid)", by.column, beyond), at, id))
	query := joined([]clause{
		wrapped("WITH RECURSIVE ", s.picked(0), ", "),
		sqlf("most AS MATERIALIZED (SELECT greatest(?, ? / greatest(count(*), 1)) AS n FROM picked0), ", limit, examined),
		wrapped("candidates AS MATERIALIZED (SELECT p.head, m.n AS most, x.* FROM most m, picked0 p CROSS JOIN LATERAL (SELECT j.id, j."+
			by.column+" AS at, (",
			and(f.conditions()), ") IS TRUE AS meets FROM ("),
		wrapped("SELECT * FROM jobs t WHERE ", and(where), fmt.Sprintf(" ORDER BY t.%s%s, t.id%s LIMIT m.n) j) x), ", by.column, toward, toward)),
		// Of a head that yielded its maximum, jobs beyond the last one read are unknown.
		sqlf(fmt.Sprintf(`edge AS MATERIALIZED (
			SELECT at, id FROM (
				SELECT DISTINCT ON (head) head, at, id, count(*) OVER (PARTITION BY head) AS n, most FROM candidates
				ORDER BY head, at%[2]s, id%[2]s) last
			WHERE n >= most ORDER BY at%[1]s, id%[1]s LIMIT 1)
		SELECT e.at AS edge_at, e.id AS edge, j.*
		FROM (SELECT 1) one LEFT JOIN edge e ON true LEFT JOIN LATERAL (
			SELECT j.* FROM (
				SELECT id, at FROM candidates c
				WHERE c.meets AND (e.id IS NULL OR (c.at, c.id) %[3]s= (e.at, e.id)) ORDER BY at%[1]s, id%[1]s LIMIT ?) c
			CROSS JOIN LATERAL (SELECT * FROM jobs j WHERE j.id = c.id LIMIT 1) j ORDER BY c.at%[1]s, c.id%[1]s) j ON true`,
			toward, away, map[bool]string{true: ">", false: "<"}[by.down]), limit),
	}, "")
	return scanPlaces(ctx, db, query)
}

func scanPlaces(ctx context.Context, db bun.IDB, query clause) (*JobList, error) {
	var found []*struct {
		models.Job
		Edge   models.JobID `bun:"edge"`
		EdgeAt time.Time    `bun:"edge_at"`
	}
	if err := db.NewRaw(query.sql, query.args...).Scan(ctx, &found); err != nil {
		return nil, err
	}
	list := &JobList{}
	for _, row := range found {
		if row.Edge != "" {
			list.End = place(row.EdgeAt, row.Edge)
		}
		if row.ID != "" {
			list.Jobs = append(list.Jobs, &row.Job)
		}
	}
	return list, nil
}
