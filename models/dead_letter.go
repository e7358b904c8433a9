package models

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Resolution is the outcome of a dead letter.
type Resolution string

const (
	// ResolvedRedriven: an operator sent it back as a job.
	ResolvedRedriven Resolution = "REDRIVEN"
	// ResolvedRetried: the job's owner opened a new run.
	ResolvedRetried Resolution = "RETRIED"
	// ResolvedDiscarded: an operator discarded it.
	ResolvedDiscarded Resolution = "DISCARDED"
	// ResolvedDeleted: the job's owner deleted it.
	ResolvedDeleted Resolution = "DELETED"
)

// Audience is the party that must act on a dead letter.
type Audience string

const (
	AudienceOperator Audience = "OPERATOR"
	// AudienceCustomer must act on failures that the job's owner caused.
	AudienceCustomer Audience = "CUSTOMER"
)

// OperatorsSQL selects the dead letters that operators must act on. The index
// dead_letters_for_operators has the same condition.
const OperatorsSQL = "failure_class NOT IN ('INVALID_INPUT', 'CONTENT_POLICY', 'DEPENDENCY_FAILED', 'BUDGET_EXCEEDED', 'ENDPOINT_FAILED', 'REJECTED')"

// Audience returns the party that must act on a dead letter of the class.
func (c FailureClass) Audience() Audience {
	switch c {
	case FailInvalidInput, FailContentPolicy, FailDependency, FailBudget, FailEndpoint, FailRejected:
		return AudienceCustomer
	}
	return AudienceOperator
}

// Audience returns the party that must act on the dead letter.
func (d *DeadLetter) Audience() Audience { return d.FailureClass.Audience() }

// DeadLetter is the record of a run that failed for good, until somebody resolves it.
type DeadLetter struct {
	bun.BaseModel `bun:"table:dead_letters,alias:dl"`

	ID    DeadLetterID `bun:"id,pk"`
	JobID JobID        `bun:"job_id"`
	Run   int          `bun:"run"`
	Model string       `bun:"model"`
	// Provider is the provider of the last attempt, or empty if there was none.
	Provider     string       `bun:"provider,nullzero"`
	FailureClass FailureClass `bun:"failure_class"`
	Reason       string       `bun:"reason"`
	// Fingerprint is the same for failures of the same cause.
	Fingerprint string     `bun:"fingerprint"`
	Attempts    int        `bun:"attempts"`
	LogID       ArtifactID `bun:"log_id"`
	CreatedAt   time.Time  `bun:"created_at"`
	ResolvedAt  time.Time  `bun:"resolved_at,nullzero"`
	Resolution  Resolution `bun:"resolution,nullzero"`
	ResolvedBy  string     `bun:"resolved_by,nullzero"`
	Note        string     `bun:"note,nullzero"`
}

// InsertDeadLetter writes the dead letter of a run that has just failed, with the number of
// its attempts, and the provider and the log of the last one.
func InsertDeadLetter(ctx context.Context, tx bun.Tx, d *DeadLetter) error {
	err := tx.NewRaw(`
		SELECT count(*) AS attempts, (array_agg(w.provider ORDER BY a.attempt_no DESC))[1] AS provider,
			(array_agg(a.log_id ORDER BY a.attempt_no DESC))[1] AS log_id
		FROM job_attempts a JOIN workers w ON w.id = a.worker_id
		WHERE a.job_id = ? AND a.run = ?`, d.JobID, d.Run).Scan(ctx, d)
	if err != nil {
		return err
	}
	_, err = tx.NewInsert().Model(d).Exec(ctx)
	return err
}

// InsertUntriedDeadLetters writes the dead letters of runs that had no attempt.
func InsertUntriedDeadLetters(ctx context.Context, tx bun.Tx, letters []*DeadLetter) error {
	_, err := tx.NewInsert().Model(&letters).Exec(ctx)
	return err
}

// ResolveDeadLetters records the outcome of the open dead letters of jobs. A job has one at most.
func ResolveDeadLetters(ctx context.Context, tx bun.Tx, jobs []JobID, as Resolution, by, note string) error {
	_, err := tx.NewRaw(`
		UPDATE dead_letters SET resolved_at = clock_timestamp(), resolution = ?, resolved_by = ?, note = ?
		WHERE job_id = ANY (?::uuid[]) AND resolved_at IS NULL`, as, by, postgres.Nullable(note), postgres.UUIDArray(jobs)).Exec(ctx)
	return err
}

// GetDeadLetter returns a dead letter, or sql.ErrNoRows.
func GetDeadLetter(ctx context.Context, db bun.IDB, id DeadLetterID) (*DeadLetter, error) {
	d := new(DeadLetter)
	err := db.NewSelect().Model(d).Where("dl.id = ?", id).Scan(ctx)
	return d, err
}

// FindDeadLetter returns the dead letter of a job's run, or sql.ErrNoRows.
func FindDeadLetter(ctx context.Context, db bun.IDB, job JobID, run int) (*DeadLetter, error) {
	d := new(DeadLetter)
	err := db.NewSelect().Model(d).Where("dl.job_id = ? AND dl.run = ?", job, run).Scan(ctx)
	return d, err
}

// DeadLetterFilter narrows a list of dead letters. Empty fields do not narrow it.
type DeadLetterFilter struct {
	Fingerprint  string       `json:"fingerprint,omitempty"`
	FailureClass FailureClass `json:"failureClass,omitempty"`
	Model        string       `json:"model,omitempty"`
	Provider     string       `json:"provider,omitempty"`
	// Resolved selects resolved dead letters instead of open ones.
	Resolved bool `json:"resolved,omitempty"`
	// Audience selects by the party that must act. Empty selects both.
	Audience []Audience `json:"audience,omitempty"`
}

func (f DeadLetterFilter) Apply(q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("?", resolvedIs("dl", f.Resolved)).Where("?", audienceIs("dl", f.Audience))
	if f.Fingerprint != "" {
		q = q.Where("dl.fingerprint = ?", f.Fingerprint)
	}
	if f.FailureClass != "" {
		q = q.Where("dl.failure_class = ?", f.FailureClass)
	}
	if f.Model != "" {
		q = q.Where("dl.model = ?", f.Model)
	}
	if f.Provider != "" {
		q = q.Where("dl.provider = ?", f.Provider)
	}
	return q
}

// resolvedIs writes the condition as text, not as an argument: only then can PostgreSQL use
// the partial indexes.
func resolvedIs(alias string, resolved bool) bun.Safe {
	if resolved {
		return bun.Safe(alias + ".resolved_at IS NOT NULL")
	}
	return bun.Safe(alias + ".resolved_at IS NULL")
}

// audienceIs writes text for the same reason.
func audienceIs(alias string, audience []Audience) bun.Safe {
	operators, customers := slices.Contains(audience, AudienceOperator), slices.Contains(audience, AudienceCustomer)
	switch {
	case operators == customers:
		return "true"
	case operators:
		return bun.Safe(alias + "." + OperatorsSQL)
	}
	return bun.Safe("NOT (" + alias + "." + OperatorsSQL + ")")
}

// ListDeadLetters returns dead letters older than after, or from the newest if it is empty,
// newest first.
func ListDeadLetters(ctx context.Context, db bun.IDB, f DeadLetterFilter, after DeadLetterID, limit int) ([]*DeadLetter, error) {
	var found []*DeadLetter
	q := f.Apply(db.NewSelect().Model(&found)).Order("dl.id DESC").Limit(int64(limit))
	if after != "" {
		q = q.Where("dl.id < ?", after)
	}
	err := q.Scan(ctx)
	return found, err
}

// CountDeadLetters counts up to limit dead letters.
func CountDeadLetters(ctx context.Context, db bun.IDB, f DeadLetterFilter, limit int) (int, error) {
	some := f.Apply(db.NewSelect().Model((*DeadLetter)(nil)).ColumnExpr("1")).Limit(int64(limit))
	var n int
	err := db.NewSelect().ColumnExpr("count(*)").TableExpr("(?) AS found", some).Scan(ctx, &n)
	return n, err
}

// DeadLetterGroup sums up the dead letters of one cause.
type DeadLetterGroup struct {
	Fingerprint  string       `bun:"fingerprint"`
	FailureClass FailureClass `bun:"failure_class"`
	Model        string       `bun:"model"`
	Count        int          `bun:"count"`
	FirstAt      time.Time    `bun:"first_at"`
	LastAt       time.Time    `bun:"last_at"`
	// Reason is the reason of the newest one.
	Reason string `bun:"reason"`
	// Resolved is true if these are resolved dead letters.
	Resolved bool `bun:"resolved"`
}

// Audience returns the party that must act on the group.
func (g *DeadLetterGroup) Audience() Audience { return g.FailureClass.Audience() }

// GroupDeadLetters counts dead letters by cause, the most frequent first. It applies only
// Resolved, Audience and Fingerprint of the filter.
func GroupDeadLetters(ctx context.Context, db bun.IDB, f DeadLetterFilter, limit int) ([]*DeadLetterGroup, error) {
	var groups []*DeadLetterGroup
	err := db.NewRaw(`
		SELECT g.*, newest.reason, ?4 AS resolved FROM (
			SELECT fingerprint, failure_class, model, count(*) AS count, min(created_at) AS first_at, max(created_at) AS last_at
			FROM dead_letters d WHERE ?0 AND ?2 AND (?3 = '' OR fingerprint = ?3)
			GROUP BY fingerprint, failure_class, model
			ORDER BY count(*) DESC, max(created_at) DESC, fingerprint LIMIT ?1) g
		CROSS JOIN LATERAL (
			SELECT reason FROM dead_letters d
			WHERE ?0 AND fingerprint = g.fingerprint AND failure_class = g.failure_class AND model = g.model
			ORDER BY id DESC LIMIT 1) newest
		ORDER BY g.count DESC, g.last_at DESC, g.fingerprint`, resolvedIs("d", f.Resolved), limit, audienceIs("d", f.Audience), f.Fingerprint,
		f.Resolved).Scan(ctx, &groups)
	return groups, err
}

// DeadLetterStats sums up the open dead letters. The JSON objects map names to counts; dead
// letters without a provider count as "none".
type DeadLetterStats struct {
	Total            int             `bun:"total"`
	OldestAgeSeconds *float64        `bun:"oldest_age_seconds"`
	ByProvider       json.RawMessage `bun:"by_provider"`
	ByModel          json.RawMessage `bun:"by_model"`
	ByClass          json.RawMessage `bun:"by_class"`
}

// CountOpenDeadLetters counts the open dead letters.
func CountOpenDeadLetters(ctx context.Context, db bun.IDB, audience []Audience) (*DeadLetterStats, error) {
	stats := new(DeadLetterStats)
	err := db.NewRaw(`
		WITH counted AS MATERIALIZED (
			SELECT coalesce(provider, 'none') AS provider, model, failure_class, count(*) AS n, min(created_at) AS first_at
			FROM dead_letters d WHERE resolved_at IS NULL AND ?0 GROUP BY 1, 2, 3)
		SELECT coalesce(sum(n), 0) AS total, extract(epoch FROM clock_timestamp() - min(first_at)) AS oldest_age_seconds,
			(SELECT coalesce(jsonb_object_agg(name, n), '{}') FROM (SELECT provider AS name, sum(n) AS n FROM counted GROUP BY 1) x) AS by_provider,
			(SELECT coalesce(jsonb_object_agg(name, n), '{}') FROM (SELECT model AS name, sum(n) AS n FROM counted GROUP BY 1) x) AS by_model,
			(SELECT coalesce(jsonb_object_agg(name, n), '{}') FROM (SELECT failure_class AS name, sum(n) AS n FROM counted GROUP BY 1) x) AS by_class
		FROM counted`, audienceIs("d", audience)).Scan(ctx, stats)
	return stats, err
}
