package models

import (
	"context"
	"time"

	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// WorkflowStatus is the state of a workflow.
type WorkflowStatus string

// The values of WorkflowStatus.
const (
	WorkflowRunning   WorkflowStatus = "RUNNING"
	WorkflowCompleted WorkflowStatus = "COMPLETED"
	WorkflowFailed    WorkflowStatus = "FAILED"
	WorkflowCancelled WorkflowStatus = "CANCELLED"
)

// WorkflowStatuses lists them all.
var WorkflowStatuses = []WorkflowStatus{WorkflowRunning, WorkflowCompleted, WorkflowFailed, WorkflowCancelled}

// Workflow is a graph of jobs that were submitted as one.
type Workflow struct {
	bun.BaseModel `bun:"table:workflows,alias:w"`

	ID        WorkflowID     `bun:"id,pk"`
	AccountID AccountID      `bun:"account_id"`
	CreatedBy KeyID          `bun:"created_by"`
	Name      string         `bun:"name"`
	Status    WorkflowStatus `bun:"status"`
	// Run counts how often the workflow was opened: a retry of one that has ended opens it again.
	Run int `bun:"run"`
	// Nodes is the number of nodes, Open of those whose jobs have not ended, and Failed of those
	// that ended badly and are not tolerated.
	Nodes  int `bun:"nodes"`
	Open   int `bun:"open"`
	Failed int `bun:"failed"`
	// Output is the key of the node whose result is the workflow's, or "".
	Output            string    `bun:"output,nullzero"`
	CallbackURL       string    `bun:"callback_url,nullzero"`
	IdempotencyKey    string    `bun:"idempotency_key,nullzero"`
	RequestDigest     []byte    `bun:"request_digest"`
	CancelBy          string    `bun:"cancel_by,nullzero"`
	CancelReason      string    `bun:"cancel_reason,nullzero"`
	CancelRequestedAt time.Time `bun:"cancel_requested_at,nullzero"`
	CreatedAt         time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
	CompletedAt       time.Time `bun:"completed_at,nullzero"`
}

// WorkflowNode is a job under its key in a workflow.
type WorkflowNode struct {
	bun.BaseModel `bun:"table:workflow_nodes,alias:wn"`

	WorkflowID WorkflowID `bun:"workflow_id,pk"`
	Key        string     `bun:"key,pk"`
	// Position is its place in an order in which parents come first, from 0.
	Position        int           `bun:"position"`
	JobID           JobID         `bun:"job_id"`
	After           []string      `bun:"after,array"`
	OnParentFailure FailurePolicy `bun:"on_parent_failure"`
	// Tolerated means that the workflow can be COMPLETED although the node failed.
	Tolerated bool `bun:"tolerated"`
	// Digest identifies the node's work: its request, and the digests of the nodes whose results
	// it uses.
	Digest []byte `bun:"digest"`
	// Reused means that an earlier workflow completed its job.
	Reused    bool      `bun:"reused"`
	SkippedAt time.Time `bun:"skipped_at,nullzero"`
	SkippedBy string    `bun:"skipped_by,nullzero"`
	// Overridden are the parents that an operator let it not wait for.
	Overridden []string `bun:"overridden,array,default:'{}'"`
}

// InsertWorkflow writes a new workflow with its nodes. Their jobs are written.
func InsertWorkflow(ctx context.Context, tx bun.Tx, w *Workflow, nodes []*WorkflowNode) error {
	if err := tx.NewInsert().Model(w).Returning("created_at").Scan(ctx); err != nil {
		return err
	}
	const batch = 1000
	for len(nodes) > 0 {
		some := nodes[:min(batch, len(nodes))]
		if _, err := tx.NewInsert().Model(&some).Exec(ctx); err != nil {
			return err
		}
		nodes = nodes[len(some):]
	}
	return nil
}

// GetWorkflow returns a workflow, or sql.ErrNoRows.
func GetWorkflow(ctx context.Context, db bun.IDB, id WorkflowID) (*Workflow, error) {
	w := new(Workflow)
	return w, db.NewSelect().Model(w).Where("w.id = ?", id).Scan(ctx)
}

// GetWorkflows returns the workflows with these ids, in no particular order.
func GetWorkflows(ctx context.Context, db bun.IDB, ids []WorkflowID) (found []*Workflow, err error) {
	return found, db.NewSelect().Model(&found).Where("w.id IN (?)", bun.List(ids)).Scan(ctx)
}

// FindWorkflowByKey returns an account's workflow with this idempotency key, or sql.ErrNoRows. It waits as [FindJobsByKeys]
// does.
func FindWorkflowByKey(ctx context.Context, db bun.IDB, account AccountID, key string) (*Workflow, error) {
	w := new(Workflow)
	return w, postgres.Await(db.NewSelect().Model(w).Column("w.*")).Where("w.account_id = ? AND w.idempotency_key = ?", account, key).Scan(ctx)
}

// LockWorkflow returns a workflow and locks its row, or sql.ErrNoRows. Jobs are locked before it.
func LockWorkflow(ctx context.Context, tx bun.Tx, id WorkflowID) (*Workflow, error) {
	w := new(Workflow)
	return w, tx.NewSelect().Model(w).Where("w.id = ?", id).For("NO KEY UPDATE").Scan(ctx)
}

// WorkflowFilter narrows a list of workflows. Empty fields do not narrow it.
type WorkflowFilter struct {
	AccountID AccountID
	Name      string
	Status    []WorkflowStatus
	// ScheduleID is the schedule that submitted them.
	ScheduleID ScheduleID
}

// ListWorkflows returns up to limit workflows older than after, or from the newest if it is
// empty, newest first.
func ListWorkflows(ctx context.Context, db bun.IDB, f WorkflowFilter, after WorkflowID, limit int) (found []*Workflow, err error) {
	q := db.NewSelect().Model(&found).Order("w.id DESC").Limit(int64(limit))
	if f.AccountID != "" {
		q.Where("w.account_id = ?", f.AccountID)
	}
	if f.Name != "" {
		q.Where("w.name = ?", f.Name)
	}
	if len(f.Status) > 0 {
		q.Where("w.status IN (?)", bun.List(f.Status))
	}
	if f.ScheduleID != "" {
		q.Join("JOIN schedule_slots s ON s.workflow_id = w.id AND s.schedule_id = ?", f.ScheduleID)
	}
	if after != "" {
		q.Where("w.id < ?", after)
	}
	return found, q.Scan(ctx)
}

// ListWorkflowNodes returns the nodes of workflows in their order.
func ListWorkflowNodes(ctx context.Context, db bun.IDB, ids ...WorkflowID) (nodes []*WorkflowNode, err error) {
	return nodes, db.NewSelect().Model(&nodes).Where("wn.workflow_id IN (?)", bun.List(ids)).Order("wn.workflow_id", "wn.position").Scan(ctx)
}

// GetWorkflowNodes returns the nodes with these keys, in their order.
func GetWorkflowNodes(ctx context.Context, db bun.IDB, id WorkflowID, keys ...string) (nodes []*WorkflowNode, err error) {
	return nodes, db.NewSelect().Model(&nodes).Where("wn.workflow_id = ? AND wn.key IN (?)", id, bun.List(keys)).Order("wn.position").Scan(ctx)
}

// NodeKeys returns the keys of those of the jobs that are nodes of a workflow.
func NodeKeys(ctx context.Context, db bun.IDB, id WorkflowID, jobs []JobID) (map[JobID]string, error) {
	var nodes []*WorkflowNode
	err := db.NewSelect().Model(&nodes).Column("key", "job_id").Where("wn.workflow_id = ? AND wn.job_id = ANY (?::uuid[])", id,
		postgres.UUIDArray(jobs)).Scan(ctx)
	keys := make(map[JobID]string, len(nodes))
	for _, n := range nodes {
		keys[n.JobID] = n.Key
	}
	return keys, err
}

// GetNodeOf returns the node of the workflow that submitted a job, or sql.ErrNoRows.
func GetNodeOf(ctx context.Context, db bun.IDB, job JobID) (*WorkflowNode, error) {
	n := new(WorkflowNode)
	return n, db.NewSelect().Model(n).Where("wn.job_id = ? AND NOT wn.reused", job).Scan(ctx)
}

// DoneNode is a node whose job is COMPLETED, with what says whether its result is kept.
type DoneNode struct {
	WorkflowNode `bun:",extend"`
	Model        string     `bun:"model"`
	ModelVersion int        `bun:"model_version"`
	ResultID     ArtifactID `bun:"result_id"`
	// Draft means that it is a draft. Spent means that it is a draft which can no longer be continued, or
	// an approval that picked a draft.
	Draft bool `bun:"draft"`
	Spent bool `bun:"spent"`
}

// ListDoneNodes returns the nodes of a workflow whose jobs are COMPLETED and not deleted.
func ListDoneNodes(ctx context.Context, db bun.IDB, id WorkflowID) (nodes []*DoneNode, err error) {
	err = db.NewRaw(`SELECT n.*, j.model, j.model_version, j.result_id, j.draft_steps IS NOT NULL AS draft,
			j.result_id IS NULL AND (j.type = 'workflow.approval' OR j.draft_steps IS NOT NULL
				AND NOT (j.latest_checkpoint_id IS NOT NULL AND j.kept_until > clock_timestamp())) AS spent
		FROM workflow_nodes n JOIN jobs j ON j.id = n.job_id
		WHERE n.workflow_id = ? AND j.status = 'COMPLETED' AND j.deleted_at IS NULL`, id).Scan(ctx, &nodes)
	return nodes, err
}

// SaveWorkflowNode writes what operators change of a node.
func SaveWorkflowNode(ctx context.Context, tx bun.Tx, n *WorkflowNode) error {
	return postgres.MustChange(tx.NewUpdate().Model(n).Column("tolerated", "skipped_at", "skipped_by", "overridden").WherePK().Exec(ctx))
}

// LockFailedNodes locks and returns the jobs of a workflow that it submitted itself, in the order of
// their ids: those that FAILED or were CANCELLED, of nodes that were not skipped. IS TRUE lets PostgreSQL
// look for each job by its id: while statistics are old, an index that begins with the status seems as
// good, and is read in full for each node.
func LockFailedNodes(ctx context.Context, tx bun.Tx, id WorkflowID) (jobs []*Job, err error) {
	err = tx.NewRaw(`SELECT j.* FROM workflow_nodes n JOIN jobs j ON j.id = n.job_id
		WHERE n.workflow_id = ? AND NOT n.reused AND n.skipped_at IS NULL AND (j.status IN ('FAILED', 'CANCELLED')) IS TRUE
		ORDER BY j.id FOR NO KEY UPDATE OF j`, id).Scan(ctx, &jobs)
	return jobs, err
}

// uncancelledSQL is the condition of a job j of a node n that the cancellation of its workflow has
// not reached.
const uncancelledSQL = "NOT n.reused AND j.completed_at IS NULL AND j.cancel_requested_at IS NULL"

// ListUncancelled returns the jobs of a workflow that have not ended and were not asked to, those
// that depend on others before these.
func ListUncancelled(ctx context.Context, db bun.IDB, id WorkflowID) (jobs []JobID, err error) {
	return jobs, db.NewRaw(`SELECT j.id FROM workflow_nodes n JOIN jobs j ON j.id = n.job_id
		WHERE n.workflow_id = ? AND `+uncancelledSQL+` ORDER BY n.position DESC`, id).Scan(ctx, &jobs)
}

// LockUncancelled locks and returns those of some jobs that have not ended and were not asked to, in
// the order of their ids.
func LockUncancelled(ctx context.Context, tx bun.Tx, ids []JobID) (jobs []*Job, err error) {
	return jobs, tx.NewRaw(`SELECT j.* FROM jobs j WHERE j.id = ANY (?::uuid[]) AND j.completed_at IS NULL AND j.cancel_requested_at IS NULL
		ORDER BY j.id FOR NO KEY UPDATE OF j`, postgres.UUIDArray(ids)).Scan(ctx, &jobs)
}

// ListCancelling returns up to limit workflows whose cancellation has not reached all of their jobs.
func ListCancelling(ctx context.Context, db bun.IDB, limit int) (found []*Workflow, err error) {
	return found, db.NewRaw(`SELECT w.* FROM workflows w
		WHERE w.status = 'RUNNING' AND w.cancel_requested_at IS NOT NULL AND EXISTS (
			SELECT FROM workflow_nodes n JOIN jobs j ON j.id = n.job_id WHERE n.workflow_id = w.id AND `+uncancelledSQL+`)
		ORDER BY w.id LIMIT ?`, limit).Scan(ctx, &found)
}

// SaveWorkflowCancel writes that the cancellation of a locked workflow was requested.
func SaveWorkflowCancel(ctx context.Context, tx bun.Tx, w *Workflow) error {
	return postgres.MustChange(tx.NewUpdate().Model(w).Column("cancel_by", "cancel_reason", "cancel_requested_at").WherePK().Exec(ctx))
}

// NodeChange is what the change of a job's status means for its workflow: Open is -1 if its run
// ended, and 1 if another one began; Failed is 1 if it ended badly, and -1 if a run that ended
// badly is followed by another one.
type NodeChange struct {
	JobID        JobID
	Open, Failed int
}

// CountNodes updates the counters of the workflows of jobs, and what follows from them. It
// returns the workflows, also those that have ended just now. It locks them in the order of
// their ids.
func CountNodes(ctx context.Context, tx bun.Tx, changes []NodeChange) (counted []*Workflow, err error) {
	ids, open, failed := make([]JobID, len(changes)), make([]int, len(changes)), make([]int, len(changes))
	for i, c := range changes {
		ids[i], open[i], failed[i] = c.JobID, c.Open, c.Failed
	}
	err = tx.NewRaw(`
		WITH n AS MATERIALIZED (
			SELECT wn.workflow_id AS id, sum(e.open)::integer AS open,
				coalesce(sum(e.failed) FILTER (WHERE NOT wn.tolerated), 0)::integer AS failed
			FROM unnest(?::uuid[], ?::integer[], ?::integer[]) AS e (job_id, open, failed)
			JOIN workflow_nodes wn ON wn.job_id = e.job_id AND NOT wn.reused
			GROUP BY wn.workflow_id),
		locked AS MATERIALIZED (
			SELECT id FROM workflows WHERE id IN (SELECT id FROM n) ORDER BY id FOR NO KEY UPDATE)
		UPDATE workflows w SET
			open = w.open + n.open, failed = w.failed + n.failed,
			status = CASE
				WHEN w.open + n.open > 0 THEN 'RUNNING'
				WHEN w.cancel_requested_at IS NOT NULL THEN 'CANCELLED'
				WHEN w.failed + n.failed > 0 THEN 'FAILED'
				ELSE 'COMPLETED' END,
			run = w.run + CASE WHEN w.open = 0 THEN 1 ELSE 0 END,
			completed_at = CASE WHEN w.open + n.open = 0 THEN clock_timestamp() END,
			-- A run that begins is not cancelled, but the skip of an ended node begins none.
			cancel_by = CASE WHEN w.open > 0 OR n.open = 0 THEN w.cancel_by END,
			cancel_reason = CASE WHEN w.open > 0 OR n.open = 0 THEN w.cancel_reason END,
			cancel_requested_at = CASE WHEN w.open > 0 OR n.open = 0 THEN w.cancel_requested_at END
		FROM n WHERE w.id = n.id AND w.id IN (SELECT id FROM locked)
		RETURNING w.*`, postgres.UUIDArray(ids), pgdialect.Array(open), pgdialect.Array(failed)).Scan(ctx, &counted)
	return counted, err
}

// CountNodeStates counts the nodes of workflows by the status of their jobs.
func CountNodeStates(ctx context.Context, db bun.IDB, ids []WorkflowID) (counts []NodeCount, err error) {
	err = db.NewRaw(`SELECT n.workflow_id, j.status, n.skipped_at IS NOT NULL AS skipped, count(*) AS nodes,
			sum(CASE WHEN j.status = 'COMPLETED' OR n.skipped_at IS NOT NULL THEN 100 WHEN j.completed_at IS NULL THEN j.percent ELSE 0 END) AS percent
		FROM workflow_nodes n JOIN jobs j ON j.id = n.job_id WHERE n.workflow_id IN (?) GROUP BY 1, 2, 3`, bun.List(ids)).Scan(ctx, &counts)
	return counts, err
}

// NodeCount is a number of nodes of a workflow whose jobs have one status.
type NodeCount struct {
	WorkflowID WorkflowID `bun:"workflow_id"`
	Status     JobStatus  `bun:"status"`
	Skipped    bool       `bun:"skipped"`
	Nodes      int        `bun:"nodes"`
	// Percent is the sum of their progress.
	Percent float64 `bun:"percent"`
}

// UsesResult returns a node of the workflow that uses the result of a job and has not ended, or
// sql.ErrNoRows.
func UsesResult(ctx context.Context, db bun.IDB, id WorkflowID, source JobID) (key string, err error) {
	err = db.NewRaw(`SELECT n.key FROM job_sources s JOIN workflow_nodes n ON n.job_id = s.job_id JOIN jobs j ON j.id = s.job_id
		WHERE s.source_id = ? AND n.workflow_id = ? AND j.status <> 'COMPLETED' AND n.skipped_at IS NULL ORDER BY n.position LIMIT 1`, source,
		id).Scan(ctx, &key)
	return key, err
}

// DeleteOldWorkflows deletes up to limit workflows that ended a while ago, with their nodes, and
// returns how many. Their jobs stay.
func DeleteOldWorkflows(ctx context.Context, db bun.IDB, keep time.Duration, limit int) (int, error) {
	return postgres.Affected(db.NewRaw(`DELETE FROM workflows WHERE id IN (
		SELECT id FROM workflows WHERE completed_at < clock_timestamp() - make_interval(secs => ?) ORDER BY completed_at LIMIT ?)`,
		keep.Seconds(), limit).Exec(ctx))
}
