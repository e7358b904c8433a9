package models

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// TypeApproval is the type of jobs that need no worker: each waits until one of its candidates is
// picked, and then has that one's result.
const TypeApproval = "workflow.approval"

// Approval reports whether the job is an approval.
func (j *Job) Approval() bool { return j.Type == TypeApproval }

// Decision is the answer to an approval.
type Decision string

// The values of Decision.
const (
	Approved Decision = "APPROVED"
	Rejected Decision = "REJECTED"
)

// Approval is a question that was asked, and its answer.
type Approval struct {
	bun.BaseModel `bun:"table:approvals,alias:ap"`

	JobID   JobID     `bun:"job_id,pk"`
	Run     int       `bun:"run,pk"`
	AskedAt time.Time `bun:"asked_at,nullzero"`
	// ExpiresAt is when the default is applied.
	ExpiresAt time.Time `bun:"expires_at,nullzero"`
	OnTimeout OnTimeout `bun:"on_timeout"`
	DecidedAt time.Time `bun:"decided_at,nullzero"`
	Decision  Decision  `bun:"decision,nullzero"`
	// Picked is the candidate whose result the job has; "" if it was rejected, or that job was deleted.
	Picked JobID `bun:"picked,nullzero"`
	// DecidedBy says for people who decided, and Note why.
	DecidedBy string `bun:"decided_by,nullzero"`
	Note      string `bun:"note,nullzero"`
}

// OnTimeout is the default of an approval: it applies without an answer in time.
type OnTimeout string

// The values of OnTimeout.
const (
	TimeoutReject  OnTimeout = "reject"
	TimeoutApprove OnTimeout = "approve"
	TimeoutFirst   OnTimeout = "first"
)

// Question is what the params of an approval say.
type Question struct {
	// Candidates are the ids of jobs. Drafts is how many of them are drafts: all, or none.
	Candidates  []JobID   `json:"candidates"`
	Drafts      int       `json:"-"`
	Question    string    `json:"question"`
	WaitSeconds int       `json:"waitSeconds"`
	OnTimeout   OnTimeout `json:"onTimeout"`
}

// Question reads the params of an approval. Those of a deleted job have none.
func (j *Job) Question() (q Question) {
	_ = json.Unmarshal(j.Params, &q) // they match the schema
	for i, name := range q.Candidates {
		id, draft := strings.CutSuffix(string(name), ".draft")
		if q.Candidates[i] = JobID(id); draft {
			q.Drafts++
		}
	}
	return q
}

// InsertApproval writes a question that is asked now, by PostgreSQL's clock, and reads back its times.
func InsertApproval(ctx context.Context, tx bun.Tx, a *Approval, wait time.Duration) error {
	return tx.NewRaw(`INSERT INTO approvals (job_id, run, on_timeout, expires_at)
		VALUES (?, ?, ?, clock_timestamp() + make_interval(secs => ?))
		RETURNING *`, a.JobID, a.Run, a.OnTimeout, wait.Seconds()).Scan(ctx, a)
}

// SaveDecision writes the answer to an approval, whose job is locked.
func SaveDecision(ctx context.Context, tx bun.Tx, a *Approval) error {
	return postgres.MustChange(tx.NewUpdate().Model(a).Column("decided_at", "decision", "picked", "decided_by", "note").WherePK().
		Where("decided_at IS NULL").Exec(ctx))
}

// DropApproval removes the question of a run that ended without an answer.
func DropApproval(ctx context.Context, db bun.IDB, a *Approval) error {
	_, err := db.NewDelete().Model(a).WherePK().Where("decided_at IS NULL").Exec(ctx)
	return err
}

// GetApproval returns the question of a job's run, or sql.ErrNoRows if it was not asked.
func GetApproval(ctx context.Context, db bun.IDB, job JobID, run int) (*Approval, error) {
	a := new(Approval)
	return a, db.NewSelect().Model(a).Where("ap.job_id = ? AND ap.run = ?", job, run).Scan(ctx)
}

// ListApprovals returns the newest questions of these jobs, in no particular order.
func ListApprovals(ctx context.Context, db bun.IDB, jobs []JobID) (found []*Approval, err error) {
	err = db.NewRaw(`SELECT DISTINCT ON (job_id) * FROM approvals WHERE job_id = ANY (?::uuid[]) ORDER BY job_id, run DESC`,
		postgres.UUIDArray(jobs)).Scan(ctx, &found)
	return found, err
}

// ListAsking returns up to limit approvals whose question is to be asked.
func ListAsking(ctx context.Context, db bun.IDB, limit int) (jobs []JobID, err error) {
	return jobs, db.NewRaw(`SELECT j.id FROM jobs j
		WHERE j.type = 'workflow.approval' AND j.status = 'BLOCKED' AND j.blocked_by = 2
			AND (j.run_at <= clock_timestamp()) IS NOT FALSE
			AND NOT EXISTS (SELECT FROM approvals a WHERE a.job_id = j.id AND a.run = j.run)
		ORDER BY j.id LIMIT ?`, limit).Scan(ctx, &jobs)
}

// ListUnanswered returns up to limit questions whose time is over.
func ListUnanswered(ctx context.Context, db bun.IDB, limit int) (found []*Approval, err error) {
	return found, db.NewSelect().Model(&found).Where("ap.decided_at IS NULL AND ap.expires_at <= (SELECT clock_timestamp())").
		Order("ap.expires_at").Limit(int64(limit)).Scan(ctx)
}

// ApprovalNode is the job of an approval, as a node of a workflow.
type ApprovalNode struct {
	Job    `bun:",extend"`
	NodeOf WorkflowID `bun:"node_of"`
}

// ListApprovalNodes returns the approvals of workflows, parents first.
func ListApprovalNodes(ctx context.Context, db bun.IDB, ids []WorkflowID) (nodes []*ApprovalNode, err error) {
	err = db.NewRaw(`SELECT j.*, n.workflow_id AS node_of FROM workflow_nodes n JOIN jobs j ON j.id = n.job_id
		WHERE n.workflow_id IN (?) AND j.type = 'workflow.approval' ORDER BY n.workflow_id, n.position`, bun.List(ids)).Scan(ctx, &nodes)
	return nodes, err
}
