// Package joblist finds jobs by a filter: pages of a list, counts, totals, and the jobs of a bulk
// operation. It plans each read, so that its cost grows with the result and not with the history.
package joblist

import (
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// JobFilter narrows a list of jobs. Empty fields do not narrow it.
type JobFilter struct {
	AccountID models.AccountID   `json:"accountId,omitempty"`
	Status    []models.JobStatus `json:"status,omitempty"`
	Type      string             `json:"type,omitempty"`
	Model     string             `json:"model,omitempty"`
	Tier      []models.Tier      `json:"tier,omitempty"`
	UserID    string             `json:"userId,omitempty"`
	// ScheduleID is the schedule that submitted the job. query.Narrow moves it to Terms.
	ScheduleID models.ScheduleID `json:"scheduleId,omitempty"`
	// WorkflowID is the workflow that has the job as a node. query.Narrow moves it to Terms.
	WorkflowID    models.WorkflowID     `json:"workflowId,omitempty"`
	FailureClass  []models.FailureClass `json:"failureClass,omitempty"`
	CreatedAfter  time.Time             `json:"createdAfter,omitzero"`
	CreatedBefore time.Time             `json:"createdBefore,omitzero"`
	// Within is the greatest age. query.Narrow turns it into CreatedAfter.
	Within time.Duration `json:"within,omitzero"`
	// Search holds further conditions as a person typed them, Terms their parsed form. Queries
	// use only Terms.
	Search string   `json:"search,omitempty"`
	Terms  JobTerms `json:"-"`
	// Dead selects jobs with an open dead letter.
	Dead bool `json:"dead,omitempty"`
}

// JobTerms are the conditions of a search. A job must meet all of them.
type JobTerms struct {
	Facets []Facet
	Words  []Word
	// WorkerID is a worker that had an attempt of the job.
	WorkerID models.WorkerID
	// WasteOver selects jobs that wasted more GPU seconds than this. It is 0 or more.
	WasteOver *float64
	// BulkID is an operation that the job is in, ScheduleID a schedule that submitted it, and
	// WorkflowID a workflow that has it as a node.
	BulkID     models.BulkID
	ScheduleID models.ScheduleID
	WorkflowID models.WorkflowID
	// Metadata are fields on the first level. Words holds their values, too.
	Metadata []MetadataField
	// Pools and Zones are those of a worker that had an attempt of the job.
	Pools, Zones []string
	// CheckpointOver and CheckpointUnder bound the age of the newest checkpoint; 0 is no bound.
	CheckpointOver, CheckpointUnder time.Duration
}

// MetadataField is a field of metadata with its value as text.
type MetadataField struct{ Key, Value string }

// Facet is a condition on the value in one column. It must be one of Values, or begin with one
// if Prefix is set. Not negates the condition.
type Facet struct {
	Column      string
	Values      []string
	Prefix, Not bool
}

// Word is a search text. It matches jobs with an id between From and To, and jobs that have
// Text as their idempotency key or as a value in their metadata. Without Text only ids match;
// without From only keys and metadata do.
type Word struct {
	Text     string
	From, To models.JobID
}

// kindColumns are columns with few values. The indexes of all jobs begin with them.
var kindColumns = []string{"status", "tier", "type", "model"}

// facets returns all conditions on single columns.
func (f JobFilter) facets() []Facet {
	all := slices.Clone(f.Terms.Facets)
	add := func(column string, values []string) {
		if len(values) > 0 && values[0] != "" {
			all = append(all, Facet{Column: column, Values: values})
		}
	}
	add("status", plainTexts(f.Status))
	add("type", []string{f.Type})
	add("model", []string{f.Model})
	add("tier", plainTexts(f.Tier))
	add("user_id", []string{f.UserID})
	add("failure_class", plainTexts(f.FailureClass))
	return all
}

func plainTexts[T ~string](values []T) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return texts
}

// clause is part of a statement, with its arguments.
type clause struct {
	sql  string
	args []any
}

func sqlf(sql string, args ...any) clause { return clause{sql, args} }

// and joins conditions. Without conditions it is true.
func and(all []clause) clause {
	if len(all) == 0 {
		return sqlf("true")
	}
	return joined(all, " AND ")
}

func joined(all []clause, by string) clause {
	var c clause
	var texts []string
	for _, one := range all {
		texts = append(texts, one.sql)
		c.args = append(c.args, one.args...)
	}
	c.sql = strings.Join(texts, by)
	return c
}

// on returns the facet as a condition on a table's rows.
func (f Facet) on(table string) clause {
	column := table + "." + f.Column
	c := sqlf(column+" IN (?)", bun.List(f.Values))
	if f.Prefix {
		var some []clause
		for _, prefix := range f.Values {
			some = append(some, sqlf("starts_with("+column+", ?)", prefix))
		}
		c = joined(some, " OR ")
	}
	if f.Not {
		return clause{"(" + c.sql + ") IS NOT TRUE", c.args}
	}
	return clause{"(" + c.sql + ")", c.args}
}

// on returns the word as a condition on jobs.
func (w Word) on() clause {
	var some []clause
	if w.From != "" {
		some = append(some, sqlf("j.id BETWEEN ? AND ?", w.From, w.To))
	}
	if w.Text != "" {
		some = append(some, sqlf(`j.idempotency_key = ? OR EXISTS (
			SELECT FROM job_words w WHERE w.word = ? AND w.account_id = j.account_id AND w.job_id = j.id)`, w.Text, w.Text))
	}
	c := joined(some, " OR ")
	return clause{"(" + c.sql + ")", c.args}
}

// conditions returns the whole filter as conditions on jobs.
func (f JobFilter) conditions() []clause {
	var all []clause
	if f.AccountID != "" {
		all = append(all, sqlf("j.account_id = ?", f.AccountID))
	}
	for _, facet := range f.facets() {
		all = append(all, facet.on("j"))
	}
	if !f.CreatedAfter.IsZero() {
		all = append(all, sqlf("j.created_at > ?", f.CreatedAfter))
	}
	if !f.CreatedBefore.IsZero() {
		all = append(all, sqlf("j.created_at < ?", f.CreatedBefore))
	}
	if f.Dead {
		all = append(all, sqlf("EXISTS (SELECT FROM dead_letters d WHERE d.job_id = j.id AND d.resolved_at IS NULL)"))
	}
	for _, word := range f.Terms.Words {
		all = append(all, word.on())
	}
	if f.Terms.WorkerID != "" {
		all = append(all, sqlf("EXISTS (SELECT FROM job_attempts a WHERE a.worker_id = ? AND a.job_id = j.id)", f.Terms.WorkerID))
	}
	if f.Terms.BulkID != "" {
		all = append(all, sqlf("EXISTS (SELECT FROM bulk_items b WHERE b.operation_id = ? AND b.job_id = j.id)", f.Terms.BulkID))
	}
	if f.Terms.ScheduleID != "" {
		all = append(all, sqlf("EXISTS (SELECT FROM schedule_slots s WHERE s.schedule_id = ? AND s.job_id = j.id)", f.Terms.ScheduleID))
	}
	if f.Terms.WorkflowID != "" {
		all = append(all, sqlf("EXISTS (SELECT FROM workflow_nodes n WHERE n.workflow_id = ? AND n.job_id = j.id)", f.Terms.WorkflowID))
	}
	for _, field := range f.Terms.Metadata {
		all = append(all, sqlf("j.metadata ->> ? = ?", field.Key, field.Value))
	}
	// IS TRUE keeps the subquery out of the join: PostgreSQL reads the workers once, and looks each
	// attempt's up in memory.
	const onWorker = "EXISTS (SELECT FROM job_attempts a WHERE a.job_id = j.id AND (a.worker_id IN (SELECT w.id FROM workers w WHERE "
	if len(f.Terms.Pools) > 0 {
		all = append(all, sqlf(onWorker+"w.pool_id IN (SELECT p.id FROM pools p WHERE p.name IN (?)))) IS TRUE)", bun.List(f.Terms.Pools)))
	}
	if len(f.Terms.Zones) > 0 {
		all = append(all, sqlf(onWorker+"w.zone IN (?))) IS TRUE)", bun.List(f.Terms.Zones)))
	}
	const checkpointed = "j.latest_checkpoint_id IS NOT NULL AND (SELECT c.created_at FROM artifacts c WHERE c.id = j.latest_checkpoint_id) "
	if age := f.Terms.CheckpointOver; age > 0 {
		all = append(all, sqlf(checkpointed+"< clock_timestamp() - make_interval(secs => ?)", age.Seconds()))
	}
	if age := f.Terms.CheckpointUnder; age > 0 {
		all = append(all, sqlf(checkpointed+"> clock_timestamp() - make_interval(secs => ?)", age.Seconds()))
	}
	if f.Terms.WasteOver != nil {
		all = append(all, sqlf("j.wasted_gpu_seconds > ?", *f.Terms.WasteOver))
	}
	return all
}

// plain reports whether all conditions are on the job's own row or id.
func (f JobFilter) plain() bool {
	return len(f.Terms.Words) == 0 && f.Terms.WorkerID == "" && !f.Terms.aside()
}

// aside reports whether a condition is about other rows than the job's, apart from words and
// workers.
func (t JobTerms) aside() bool {
	return t.BulkID != "" || t.ScheduleID != "" || t.WorkflowID != "" || len(t.Pools)+len(t.Zones) > 0 || t.CheckpointOver+
		t.CheckpointUnder > 0
}

// Aside reports whether a condition of the filter cannot be checked on a job's row.
func (f JobFilter) Aside() bool { return f.Terms.WorkerID != "" || f.Terms.aside() }
