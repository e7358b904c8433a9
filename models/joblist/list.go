package joblist

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Lists of jobs are read from streams. A stream is an index whose last column is the job's id.
// Its heads are the combinations of values in the columns before the id; a loose index scan
// finds them by jumping from each to the next. The jobs of each head are read from the newest
// on, and the heads are merged. So a page costs one probe per head, whichever values it asks
// for and however rare they are.
//
// There is a stream for every condition, but not for every pair of conditions. Conditions that
// the index does not cover are checked on the rows. A page examines a limited number of rows.
// At that limit it ends early and says where.
type stream struct {
	table string
	id    string       // the column that holds the job's id
	keys  []key        // what the index begins with
	heads []string     // the columns between these and the id
	only  []clause     // conditions on t that the index has
	pick  []clause     // conditions on a head, h
	from  models.JobID // the least id, if there is one
	to    models.JobID // the greatest
	// oldest reads the jobs from the oldest on, instead of from the newest.
	oldest bool
}

// key is a column of a stream with its single value.
type key struct {
	column string
	value  any
}

const (
	// examinedByList and examinedByCount bound how many rows a page and a count examine. That
	// takes some ten milliseconds.
	examinedByList  = 10_000
	examinedByCount = 20_000
	// examinedAside is the bound for both if a condition is about other rows than the job's, whose
	// look-ups cost several times as much.
	examinedAside = 4_000
	// leftOut bounds the count of jobs that are subtracted from another count.
	leftOut = 50_000
	// clockMargin is the greatest expected difference between the clock of the process that
	// made a job's id and PostgreSQL's, which sets created_at.
	clockMargin = 10 * time.Minute
)

// reading is one way to find the jobs of a filter: streams that contain them all, and the
// conditions that the streams do not cover.
type reading struct {
	streams []stream
	rest    JobFilter
}

// readings returns the possible readings. The first usually examines the fewest jobs.
func (f JobFilter) readings() (all []reading) {
	facets := f.facets()
	add := func(streams []stream, known func(rest *JobFilter), columns ...string) {
		rest := JobFilter{CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore, Dead: f.Dead, Terms: f.Terms}
		rest.Terms.Facets = slices.DeleteFunc(slices.Clone(facets), func(facet Facet) bool { return slices.Contains(columns, facet.Column) })
		known(&rest)
		all = append(all, reading{streams, rest})
	}
	nothing := func(*JobFilter) {}
	find := func(column string) int {
		return slices.IndexFunc(facets, func(facet Facet) bool { return facet.Column == column && !facet.Not && !facet.Prefix })
	}
	without := func(nth int) func(*JobFilter) {
		return func(rest *JobFilter) { rest.Terms.Facets = slices.Delete(slices.Clone(facets), nth, nth+1) }
	}
	if len(f.Terms.Words) > 0 {
		add(f.wordStreams(f.Terms.Words[0]), func(rest *JobFilter) { rest.Terms.Words = f.Terms.Words[1:] })
	}
	if f.Terms.WorkerID != "" {
		add([]stream{{table: "job_attempts", id: "job_id", keys: []key{{"worker_id", f.Terms.WorkerID}}}},
			func(rest *JobFilter) { rest.Terms.WorkerID, rest.AccountID = "", f.AccountID })
	}
	if f.Terms.BulkID != "" {
		add([]stream{{table: "bulk_items", id: "job_id", keys: []key{{"operation_id", f.Terms.BulkID}}}},
			func(rest *JobFilter) { rest.Terms.BulkID, rest.AccountID = "", f.AccountID })
	}
	if f.Terms.ScheduleID != "" {
		add([]stream{{table: "schedule_slots", id: "job_id", keys: []key{{"schedule_id", f.Terms.ScheduleID}},
			only: []clause{sqlf("t.job_id IS NOT NULL")}}},
			func(rest *JobFilter) { rest.Terms.ScheduleID, rest.AccountID = "", f.AccountID })
	}
	if f.Terms.WorkflowID != "" {
		add([]stream{{table: "workflow_nodes", id: "job_id", keys: []key{{"workflow_id", f.Terms.WorkflowID}}}},
			func(rest *JobFilter) { rest.Terms.WorkflowID, rest.AccountID = "", f.AccountID })
	}
	if f.Dead {
		add([]stream{{table: "dead_letters", id: "job_id", only: []clause{sqlf("t.resolved_at IS NULL")}}},
			func(rest *JobFilter) { rest.Dead, rest.AccountID = false, f.AccountID })
		// Jobs with an open dead letter are FAILED. The index of these jobs covers kind and
		// account.
		add([]stream{f.kinds(append(slices.Clone(facets), Facet{Column: "status", Values: []string{string(models.JobFailed)}}))}, nothing,
			kindColumns...)
	}
	if user := find("user_id"); user >= 0 {
		add(f.ofAccounts("jobs", "id", "user_id", facets[user].Values), without(user))
	}
	if class := find("failure_class"); class >= 0 {
		add([]stream{f.within(stream{table: "jobs", id: "id", only: []clause{sqlf("t.failure_class IS NOT NULL")},
			heads: []string{"failure_class"}, pick: []clause{facets[class].on("h")}})}, without(class))
	}
	if f.Terms.WasteOver != nil {
		add([]stream{f.within(stream{table: "jobs", id: "id", only: []clause{sqlf("t.wasted_gpu_seconds > 0")}})}, nothing)
	}
	if kinds := f.kinds(facets); len(all) == 0 || len(kinds.pick) > 0 && !f.Dead {
		add([]stream{kinds}, nothing, kindColumns...)
	}
	return all
}

// choose returns the reading that examines the fewest jobs. It counts each reading only up to
// most jobs. Of equal counts the first reading wins.
func (f JobFilter) choose(ctx context.Context, db bun.IDB, after models.JobID, most int) (reading, error) {
	all := f.readings()
	if len(all) == 1 || len(all[0].rest.conditions()) == 0 {
		return all[0], nil
	}
	var with, counts []clause
	for nth, r := range all {
		var rows []clause
		for _, s := range r.streams {
			n := len(with)
			with = append(with, s.picked(n))
			rows = append(rows, wrapped(fmt.Sprintf("SELECT FROM picked%d p CROSS JOIN LATERAL (", n), s.under(f, "id", after, sqlf("?", most)),
				") x"))
		}
		counts = append(counts, wrapped(fmt.Sprintf("SELECT %d AS nth, count(*) AS n FROM (", nth), joined(rows, " UNION ALL "),
			" LIMIT ?) found", most))
	}
	query := joined([]clause{wrapped("WITH RECURSIVE ", joined(with, ", "), " "), wrapped("SELECT nth FROM (", joined(counts, " UNION ALL "),
		") counted ORDER BY n, nth LIMIT 1")}, "")
	var nth int
	err := db.NewRaw(query.sql, query.args...).Scan(ctx, &nth)
	return all[nth], err
}

// within restricts a stream to the filter's account.
func (f JobFilter) within(s stream) stream {
	if f.AccountID != "" {
		s.keys = append(s.keys, key{"account_id", f.AccountID})
	}
	return s
}

// kinds returns the stream of all jobs, or of some kinds.
func (f JobFilter) kinds(facets []Facet) stream {
	s := f.within(stream{table: "jobs", id: "id"})
	for _, facet := range facets {
		if slices.Contains(kindColumns, facet.Column) {
			s.pick = append(s.pick, facet.on("h"))
		}
	}
	if f.AccountID != "" || len(s.pick) > 0 {
		s.heads = kindColumns
	}
	return s
}

// ofAccounts returns streams of the jobs with these values in a column that is followed by the
// account in its index.
func (f JobFilter) ofAccounts(table, id, column string, values []string) []stream {
	var all []stream
	for _, value := range values {
		s := f.within(stream{table: table, id: id, keys: []key{{column, value}}, only: []clause{sqlf("t." + column + " IS NOT NULL")}})
		if f.AccountID == "" {
			s.heads = []string{"account_id"}
		}
		all = append(all, s)
	}
	return all
}

func (f JobFilter) wordStreams(word Word) []stream {
	var all []stream
	if word.From != "" {
		s := f.kinds(f.facets())
		s.from, s.to = word.From, word.To
		all = append(all, s)
	}
	if word.Text != "" {
		all = append(all, f.ofAccounts("jobs", "id", "idempotency_key", []string{word.Text})...)
		all = append(all, f.ofAccounts("job_words", "job_id", "word", []string{word.Text})...)
	}
	return all
}

// bounds returns the least and the greatest id to read from a stream, and whether the one of
// them at which the reading begins is excluded. Ids begin with their time.
func (f JobFilter) bounds(s stream, after models.JobID) (from, to models.JobID, beyond bool) {
	from, to = cmp.Or(s.from, models.JobKind+"_"+models.JobID(uuid.Nil.String())),
		cmp.Or(s.to, models.JobKind+"_"+models.JobID(uuid.Max.String()))
	if !f.CreatedAfter.IsZero() {
		from = max(from, oldestID(f.CreatedAfter.Add(-clockMargin)))
	}
	if !f.CreatedBefore.IsZero() {
		to = min(to, oldestID(f.CreatedBefore.Add(clockMargin)))
	}
	switch after = models.JobID(strings.ToLower(string(after))); {
	case after != "" && s.oldest:
		return max(from, after), to, after >= from
	case after != "" && after <= to:
		return from, after, true
	}
	return from, to, false
}

// oldestID returns an id below all ids that were made at or after a time.
func oldestID(at time.Time) models.JobID {
	hex := fmt.Sprintf("%012x", max(0, min(at.UnixMilli(), 1<<48-1)))
	return models.JobID(models.JobKind + "_" + hex[:8] + "-" + hex[8:] + "-0000-0000-000000000000")
}

// columns returns the first columns of the stream's index in a table, and the values to
// compare them with: those of the keys and, if head is set, those of the head.
func (s stream) columns(table, head string) (columns []string, values []clause) {
	for _, k := range s.keys {
		columns, values = append(columns, table+"."+k.column), append(values, sqlf("?", k.value))
	}
	if head != "" {
		for _, name := range s.heads {
			columns, values = append(columns, table+"."+name), append(values, sqlf(head+"."+name))
		}
	}
	return columns, values
}

// compared compares rows. Without columns it is true.
func compared(columns []string, by string, values []clause) clause {
	if len(columns) == 0 {
		return sqlf("true")
	}
	return wrapped("("+strings.Join(columns, ", ")+") "+by+" (", joined(values, ", "), ")")
}

// picked writes the common table expression picked<n>: the stream's heads, numbered. It also
// sorts by the keys, and compares them as a range instead of by equality: only the stream's
// own index has that order.
func (s stream) picked(n int) clause {
	name, heads := fmt.Sprintf("picked%d", n), fmt.Sprintf("heads%d", n)
	if len(s.heads) == 0 {
		return sqlf(name + " AS (SELECT 1 AS head)")
	}
	keys, values := s.columns("t", "")
	all, here := s.columns("t", "h")
	own := all[len(keys):]
	next := func(after clause) clause {
		where := and(append(slices.Clone(s.only), after, compared(keys, "<=", values)))
		return wrapped("SELECT "+strings.Join(own, ", ")+" FROM "+s.table+" t WHERE ", where, " ORDER BY "+strings.Join(all, ", ")+" LIMIT 1")
	}
	return joined([]clause{
		wrapped(heads+" AS ((", next(compared(keys, ">=", values)), ") UNION ALL "),
		wrapped("SELECT n.* FROM "+heads+" h CROSS JOIN LATERAL (", next(compared(all, ">", here)), ") n), "),
		wrapped(name+" AS MATERIALIZED (SELECT row_number() OVER () AS head, h.* FROM "+heads+" h WHERE ", and(s.pick), ")"),
	}, "")
}

// under selects columns of the newest rows of each picked head p, up to limit per head. The
// streams' indexes use NULLS FIRST, although no id is NULL, so that only they have this order.
// With the usual order PostgreSQL, which cannot know how rare a pair of values is, would
// sometimes walk the primary key and filter.
func (s stream) under(f JobFilter, columns string, after models.JobID, limit clause) clause {
	from, to, beyond := f.bounds(s, after)
	id, order, above, below := "t."+s.id, " DESC NULLS LAST", ">=", "<="
	switch {
	case beyond && s.oldest:
		above = ">"
	case beyond:
		below = "<"
	}
	switch {
	case s.oldest && s.usual():
		order = ""
	case s.oldest:
		order = " NULLS FIRST"
	case s.usual():
		order = " DESC"
	}
	where := slices.Clone(s.only)
	heads, values := s.columns("t", "p")
	for i := range heads {
		where = append(where, wrapped(heads[i]+" = ", values[i], ""))
	}
	where = append(where, sqlf(id+" "+above+" ?", from), sqlf(id+" "+below+" ?", to))
	if columns == "id" {
		columns = s.id + " AS id"
	}
	return joined([]clause{wrapped("SELECT t."+columns+" FROM "+s.table+" t WHERE ", and(where), " ORDER BY "+id+order+" LIMIT "), limit}, "")
}

// met selects ids as under does, and whether each job matches the rest of the filter. In a
// stream of jobs it checks the row itself or the index, which costs a third of a lookup by id.
// Elsewhere the conditions are no part of the lookup: while statistics are old, PostgreSQL would
// look for each id in all jobs of the account.
func (s stream) met(f, rest JobFilter, after models.JobID, limit clause) clause {
	conditions := rest.conditions()
	switch {
	case len(conditions) == 0:
		return wrapped("SELECT x.id, true AS meets FROM (", s.under(f, "id", after, limit), ") x")
	case s.table == "jobs" && rest.plain():
		return joined([]clause{wrapped("SELECT j.id, (", and(conditions), ") IS TRUE AS meets FROM ("),
			wrapped("", s.under(f, "*", after, limit), ") j")}, "")
	}
	return joined([]clause{
		wrapped("SELECT x.id, coalesce((SELECT (", and(conditions), ") IS TRUE FROM jobs j WHERE j.id = x.id), false) AS meets FROM ("),
		wrapped("", s.under(f, "id", after, limit), ") x"),
	}, "")
}

// usual reports whether the stream's index is a primary key.
func (s stream) usual() bool {
	return s.table == "job_words" || s.table == "jobs" && len(s.keys)+len(s.heads)+len(s.only) == 0
}

// JobList is one page of jobs.
type JobList struct {
	Jobs []*models.Job
	// Edge is set if there may be more jobs. All jobs from the beginning of the list to this id
	// were examined.
	Edge models.JobID
	// End is the place to continue from in any order: see ListJobsIn.
	End string
}

// ListJobs returns up to limit jobs older than after, or from the newest if it is empty,
// newest first. If few of the examined jobs match, it returns fewer, and an edge to continue
// from.
func ListJobs(ctx context.Context, db bun.IDB, f JobFilter, after models.JobID, limit int) (*JobList, error) {
	return listJobsByID(ctx, db, f, false, after, limit)
}

func listJobsByID(ctx context.Context, db bun.IDB, f JobFilter, oldest bool, after models.JobID, limit int) (*JobList, error) {
	list, err := listJobs(ctx, db, f, f.readings()[0].from(oldest), after, limit, 0)
	most := examinedByList
	if f.Terms.aside() {
		most = examinedAside
	}
	for _, examined := range []int{most / 10, most} {
		if err == nil && list.Edge != "" && len(list.Jobs) < limit {
			var r reading
			if r, err = f.choose(ctx, db, after, examined); err == nil {
				list, err = listJobs(ctx, db, f, r.from(oldest), after, limit, examined)
			}
		}
	}
	if err == nil && len(list.Jobs) == limit {
		list.Edge = list.Jobs[limit-1].ID
	}
	return list, err
}

// from returns the reading from the oldest or from the newest job on.
func (r reading) from(oldest bool) reading {
	r.streams = slices.Clone(r.streams)
	for i := range r.streams {
		r.streams[i].oldest = oldest
	}
	return r
}

// listJobs examines about examined jobs in all, and at least limit jobs of each head.
func listJobs(ctx context.Context, db bun.IDB, f JobFilter, r reading, after models.JobID, limit, examined int) (*JobList, error) {
	var with, rows []clause
	for n, s := range r.streams {
		with = append(with, s.picked(n),
			sqlf(fmt.Sprintf("most%d AS MATERIALIZED (SELECT greatest(?, ? / greatest(count(*), 1)) AS n FROM picked%d)", n, n), limit, examined))
		rows = append(rows, wrapped(
			fmt.Sprintf("SELECT %d AS stream, p.head, m.n AS most, x.id, x.meets FROM most%d m, picked%d p CROSS JOIN LATERAL (", n, n, n),
			s.met(f, r.rest, after, sqlf(fmt.Sprintf("(SELECT n FROM most%d)", n))), ") x"))
	}
	with = append(with, wrapped("candidates AS MATERIALIZED (", joined(rows, " UNION ALL "), ")"))
	toward, away, within := " DESC", "", ">="
	if len(r.streams) > 0 && r.streams[0].oldest {
		toward, away, within = "", " DESC", "<="
	}
	query := wrapped("WITH RECURSIVE ", joined(with, ", "), fmt.Sprintf(`,
		-- If a head yielded its maximum, jobs of it beyond the last one read are unknown.
		edge AS MATERIALIZED (SELECT (
			SELECT last FROM (
				SELECT (array_agg(id ORDER BY id%[2]s))[1] AS last, count(*) AS n, most FROM candidates GROUP BY stream, head, most) heads
			WHERE n >= most ORDER BY last%[1]s LIMIT 1) AS id)
		SELECT e.id AS edge, j.*
		FROM edge e LEFT JOIN LATERAL (
			SELECT j.* FROM (
				SELECT DISTINCT id FROM candidates c WHERE c.meets AND (e.id IS NULL OR c.id %[3]s e.id) ORDER BY id%[1]s) c
			CROSS JOIN LATERAL (SELECT * FROM jobs j WHERE j.id = c.id LIMIT 1) j ORDER BY c.id%[1]s LIMIT ?) j ON true`, toward, away, within),
		limit)
	var found []*struct {
		models.Job
		Edge models.JobID `bun:"edge"`
	}
	if err := db.NewRaw(query.sql, query.args...).Scan(ctx, &found); err != nil {
		return nil, err
	}
	list := &JobList{}
	for _, row := range found {
		list.Edge = row.Edge
		if row.ID != "" {
			list.Jobs = append(list.Jobs, &row.Job)
		}
	}
	return list, nil
}

func wrapped(before string, c clause, behind string, args ...any) clause {
	return clause{before + c.sql + behind, append(slices.Clone(c.args), args...)}
}
