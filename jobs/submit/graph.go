package submit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Graph is a workflow to be submitted: all its jobs are accepted, or none.
type Graph struct {
	Workflow *models.Workflow
	// Nodes has parents first.
	Nodes []*GraphNode

	// jobs are the nodes that are not reused, in their order.
	jobs []*GraphNode
	// drafts are those that nodes can continue and that are no new jobs of the graph.
	drafts map[models.JobID]*models.Job
	// existing is the workflow of an earlier request with the same key.
	existing *models.Workflow
}

// SubmitGraph accepts a workflow: once it returns, all its jobs are durable. If the idempotency key
// was used before with the same request, it returns the first workflow, and true; with another
// request it returns IDEMPOTENCY_CONFLICT. Other errors are those of [Submitter.Submit]; their
// field names the node. A workflow counts as one submit against the account's rate, and each of its
// jobs against its queue.
func (s *Submitter) SubmitGraph(ctx context.Context, p jobs.Principal, g *Graph) (w *models.Workflow, deduplicated bool, err error) {
	if err := p.RequireChange(); err != nil {
		return nil, false, err
	}
	g.Workflow.AccountID, g.Workflow.CreatedBy = p.AccountID, p.KeyID
	if known, err := g.find(ctx, s.DB); known || err != nil {
		return g.existing, known, err
	}
	all := g.begin()
	if err := g.readDrafts(ctx, s.DB); err != nil {
		return nil, false, err
	}
	if len(all) == 0 {
		err = apierror.Wrap(s.writeReused(ctx, g), "submit a workflow of reused jobs")
	} else {
		_, err = s.submit(ctx, p, all, g)
	}
	if err != nil {
		return nil, false, err
	}
	if g.existing != nil {
		return g.existing, true, nil
	}
	return g.Workflow, false, nil
}

// begin returns the submissions of the new jobs, and sets what follows from the nodes.
func (g *Graph) begin() (all []Submission) {
	for _, node := range g.Nodes {
		node.WorkflowID = g.Workflow.ID
		if !node.Reused {
			in := node.Submission
			in.node = node
			all, g.jobs = append(all, in), append(g.jobs, node)
		}
	}
	w := g.Workflow
	w.Run, w.Nodes, w.Open, w.Status = 1, len(g.Nodes), len(g.jobs), models.WorkflowRunning
	if w.Open == 0 {
		w.Status = models.WorkflowCompleted
	}
	return all
}

// CheckGraph returns the errors of [Submitter.SubmitGraph] that do not depend on the moment, and the
// highest tier of the jobs. It submits nothing.
func (s *Submitter) CheckGraph(ctx context.Context, p jobs.Principal, g *Graph) (highest models.Tier, err error) {
	found, err := models.GetAccounts(ctx, s.DB, []models.AccountID{p.AccountID})
	if err == nil && len(found) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return "", apierror.Wrap(err, "read the account")
	}
	account := found[0]
	all := g.begin()
	if err := g.readDrafts(ctx, s.DB); err != nil {
		return "", err
	}
	call := s.newCall(p, all, g)
	if err := g.invalid(call); err != nil {
		return "", err
	}
	if err := s.prepare(ctx, call); err != nil {
		return "", apierror.Wrap(err, "check %s", text.Count(len(call.set), "job"))
	}
	for i := range call.set {
		one := &call.set[i]
		if err := cmp.Or(one.badInput, setTier(&one.asked, account)); err != nil {
			return "", g.at(i, Refusal(err))
		}
		if highest == "" || one.asked.Tier.Above(highest) {
			highest = one.asked.Tier
		}
	}
	if len(call.set) > account.MaxQueued {
		return "", g.tooLarge(account, len(call.set))
	}
	return highest, nil
}

// writeReused writes a workflow without new jobs.
func (s *Submitter) writeReused(ctx context.Context, g *Graph) error {
	return jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := models.LockSubmits(ctx, tx, g.Workflow.AccountID); err != nil {
			return err
		}
		if account, _, err := models.ReadAccount(ctx, tx, g.Workflow.AccountID); err != nil {
			return err
		} else if !account.ClosedAt.IsZero() {
			return apierror.ErrAccountClosed
		}
		if known, err := g.find(ctx, tx); known || err != nil {
			return err
		}
		return g.write(ctx, tx, s.Sealer)
	})
}

// own returns the jobs of the call that are about to be written, if they are of a graph.
func (g *Graph) own(call *submitCall) map[models.JobID]*models.Job {
	if g == nil {
		return nil
	}
	own := make(map[models.JobID]*models.Job, len(call.set))
	for i := range call.set {
		if one := &call.set[i]; one.err == nil {
			own[one.asked.ID] = &one.asked
		}
	}
	return own
}

// find looks for the workflow of an earlier request with the same key. The result is final only
// while no other submit of the account runs.
func (g *Graph) find(ctx context.Context, db bun.IDB) (known bool, err error) {
	if g.Workflow.IdempotencyKey == "" {
		return false, nil
	}
	first, err := models.FindWorkflowByKey(ctx, db, g.Workflow.AccountID, g.Workflow.IdempotencyKey)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up the workflow's key: %w", err)
	case string(first.RequestDigest) != string(g.Workflow.RequestDigest):
		return false, errKeyOfAnother
	}
	g.existing = first
	return true, nil
}

// refusal returns the first error of the nodes, with the node's place in its field.
func (g *Graph) refusal(answers []Submitted) error {
	for i, answer := range answers {
		if answer.Refused != nil {
			return g.at(i, answer.Refused)
		}
	}
	return nil
}

// at adds to an error the node that it is about, unless it is about the whole workflow.
func (g *Graph) at(i int, refused *apierror.Error) error {
	switch refused.Code {
	case apierror.CodeQuotaExceeded, apierror.CodeBudgetExceeded, apierror.CodeRateLimited, apierror.CodeOverloaded, apierror.CodeUnavailable:
		return refused
	}
	node := g.jobs[i]
	named := *refused
	message := refused.Message
	for _, other := range g.jobs { // their ids are new, so only the keys are useful
		if strings.Contains(message, string(other.JobID)) {
			message = strings.ReplaceAll(message, string(other.JobID), other.Key)
		}
	}
	named.Message = fmt.Sprintf("The node %s: %s", node.Key, message)
	return named.In(strings.TrimSuffix(fmt.Sprintf("jobs.%s.job.%s", node.Key, refused.Field), "."))
}

// invalid returns why a node's request is always refused. g can be nil.
func (g *Graph) invalid(call *submitCall) error {
	if g == nil {
		return nil
	}
	for i := range call.set {
		if err := Refusal(call.set[i].err); err != nil {
			return g.at(i, err)
		}
	}
	return nil
}

// tooLarge returns the error for jobs that never fit into the account's queue. g can be nil.
func (g *Graph) tooLarge(account *models.Account, jobs int) error {
	if g == nil {
		return ErrQueueFull
	}
	return apierror.Later(apierror.CodeQuotaExceeded, 10*time.Second,
		"This workflow has %d jobs, and the account can have %d waiting jobs together with those that it has: submit a smaller one, wait for some to start, or have an operator raise maxQueued.", jobs, account.MaxQueued)
}

// write writes the workflow with its nodes, whose jobs must be written.
func (g *Graph) write(ctx context.Context, tx bun.Tx, sealer *seal.Sealer) error {
	if g.Workflow.Open == 0 {
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		g.Workflow.CompletedAt = now
	}
	if g.Workflow.CallbackURL != "" {
		if err := change.EnsureCallbackEndpoints(ctx, tx, sealer, []models.AccountID{g.Workflow.AccountID}); err != nil {
			return err
		}
	}
	nodes := lo.Map(g.Nodes, func(n *GraphNode, _ int) *models.WorkflowNode { return &n.WorkflowNode })
	if err := models.InsertWorkflow(ctx, tx, g.Workflow, nodes); err != nil {
		return err
	}
	if g.Workflow.Open > 0 {
		return nil
	}
	return change.AnnounceWorkflows(ctx, tx, []*models.Workflow{g.Workflow})
}

// policy returns what happens to the job if one of its parents ends without success.
func (one *submission) policy() models.FailurePolicy {
	if one.in.node == nil {
		return models.FailureCascade
	}
	return cmp.Or(one.in.node.OnParentFailure, models.FailureCascade)
}
