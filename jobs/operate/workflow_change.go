package operate

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// WorkflowOperator changes workflows as a whole, for their owners and for operators. Each change but Cancel
// is one transaction, which locks jobs in the order of their ids, then the workflow.
type WorkflowOperator struct {
	DB        *bun.DB
	Catalogue *catalogue.Catalogue
	Sealer    *seal.Sealer
	Notifier  *change.Notifier
	// Estimates says what new runs cost; nil leaves what was estimated.
	Estimates *estimate.Estimator
}

// Get returns a workflow that the caller may see, or NOT_FOUND.
func (w *WorkflowOperator) Get(ctx context.Context, p jobs.Principal, id models.WorkflowID) (*models.Workflow, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("workflow")
	}
	found, err := models.GetWorkflow(ctx, w.DB, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "workflow"), "read workflow %s", id)
	}
	if !p.Sees(found.AccountID) {
		return nil, apierror.NotFound("workflow")
	}
	return found, nil
}

// change calls act in a transaction, and publishes the changes that it returns. It returns the
// workflow as it is then.
func (w *WorkflowOperator) change(ctx context.Context, p jobs.Principal, id models.WorkflowID,
	act func(ctx context.Context, tx bun.Tx, seen *models.Workflow) ([]*change.Change, error)) (*models.Workflow, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	seen, err := w.Get(ctx, p, id)
	if err != nil {
		return nil, err
	}
	var done []*change.Change
	err = jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		done, err = act(ctx, tx, seen)
		return err
	})
	if err != nil {
		return nil, err
	}
	w.Notifier.After(ctx, done...)
	return models.GetWorkflow(ctx, w.DB, id)
}

// Retry opens new runs of all nodes that FAILED or were CANCELLED, except those that were skipped;
// the others stay as they are. Each waits for its parents again. The runs start from the newest
// checkpoints, unless fromScratch is set. Retry returns CONFLICT if there are none, if the workflow
// is being cancelled, or if a job was deleted.
func (w *WorkflowOperator) Retry(ctx context.Context, p jobs.Principal, id models.WorkflowID, fromScratch bool) (*models.Workflow, error) {
	after, err := w.change(ctx, p, id, func(ctx context.Context, tx bun.Tx, seen *models.Workflow) ([]*change.Change, error) {
		if err := submit.LockBudget(ctx, tx, seen.AccountID); err != nil {
			return nil, err
		}
		failed, err := lockFailed(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		nodes, err := models.ListWorkflowNodes(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		place := map[models.JobID]*models.WorkflowNode{}
		for _, n := range nodes {
			place[n.JobID] = n
		}
		// A skip may have been committed while this waited for the job.
		failed = slices.DeleteFunc(failed, func(c *change.Change) bool { return !place[c.Job.ID].SkippedAt.IsZero() })
		now, err := models.GetWorkflow(ctx, tx, id)
		switch {
		case err != nil:
			return nil, err
		case now.Status == models.WorkflowRunning && !now.CancelRequestedAt.IsZero():
			return nil, apierror.Conflict("This workflow is being cancelled: wait until its last job has stopped.")
		case len(failed) == 0:
			return nil, apierror.Conflict("No node of this workflow has failed or was cancelled: there is nothing to retry.")
		}
		if err := p.AuditOf(ctx, tx, "retryWorkflow", now.AccountID, string(id), jobs.Payload{"jobs": len(failed)}); err != nil {
			return nil, err
		}
		slices.SortFunc(failed, func(a, b *change.Change) int { return cmp.Compare(place[a.Job.ID].Position, place[b.Job.ID].Position) })
		ids := lo.Map(failed, func(c *change.Change, _ int) models.JobID { return c.Job.ID })
		if err := models.ResolveDeadLetters(ctx, tx, ids, models.ResolvedRetried, string(p.KeyID), ""); err != nil {
			return nil, err
		}
		for _, c := range failed {
			c.Bounded = true
		}
		err = reopenAll(ctx, tx, failed, opening{
			event: models.EventQueued, by: p.KeyID, fromScratch: fromScratch, known: w.Catalogue.Current(), estimates: w.Estimates,
			name: func(job *models.Job, refused *apierror.Error) error {
				return apierror.Conflict("The node %s: %s", place[job.ID].Key, refused.Message)
			},
			last: func() error { // the jobs that a concurrent cancel has cancelled are not among those that are locked
				locked, err := models.LockWorkflow(ctx, tx, id)
				if err == nil && !locked.CancelRequestedAt.Equal(now.CancelRequestedAt) {
					return postgres.ErrLostRace
				}
				return err
			},
		})
		if errors.Is(err, models.ErrNoRoom) {
			return nil, submit.ErrQueueFull
		}
		return failed, err
	})
	return after, apierror.Wrap(err, "retry workflow %s", id)
}

// lockFailed locks the jobs of a workflow that ended badly.
func lockFailed(ctx context.Context, tx bun.Tx, id models.WorkflowID) ([]*change.Change, error) {
	locked, err := models.LockFailedNodes(ctx, tx, id)
	if err != nil {
		return nil, fmt.Errorf("lock the jobs: %w", err)
	}
	now, err := postgres.Now(ctx, tx)
	return lo.Map(locked, func(job *models.Job, _ int) *change.Change { return change.At(tx, now, job) }), err
}

// Skip lets the nodes that depend on a node run as if it were COMPLETED. If it waits, it is
// cancelled. Skipping it again changes nothing. Skip returns CONFLICT for a node that runs or is
// COMPLETED, and for one whose result another node uses.
func (w *WorkflowOperator) Skip(ctx context.Context, p jobs.Principal, id models.WorkflowID, key string) (*models.Workflow, error) {
	after, err := w.change(ctx, p, id, func(ctx context.Context, tx bun.Tx, seen *models.Workflow) ([]*change.Change, error) {
		node, c, err := lockNode(ctx, tx, id, key)
		if err != nil || !node.SkippedAt.IsZero() {
			return nil, err
		}
		if c.Job.Status.Live() {
			return nil, apierror.Conflict("The node %s is running: cancel its job first.", key)
		}
		if c.Job.Status == models.JobCompleted {
			return nil, apierror.Conflict("The node %s is COMPLETED: nothing waits for it.", key)
		}
		if user, err := models.UsesResult(ctx, tx, id, c.Job.ID); err == nil {
			return nil, apierror.Conflict("The node %s uses the result of %s: skip that one, too, and first.", user, key)
		} else if !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if err := models.Tolerate(ctx, tx, c.Job.ID); err != nil {
			return nil, err
		}
		waiting := c.Job.Status.Waiting()
		if !waiting && !node.Tolerated {
			if err := recount(ctx, tx, models.NodeChange{JobID: c.Job.ID, Failed: -1}); err != nil {
				return nil, err
			}
		}
		node.Tolerated, node.SkippedAt, node.SkippedBy = true, c.Now, string(p.KeyID)
		if err := models.SaveWorkflowNode(ctx, tx, node); err != nil {
			return nil, err
		}
		if err := p.Audit(ctx, tx, "skipWorkflowJob", string(id),
			jobs.Payload{"node": key, "job": c.Job.ID, "status": c.Job.Status}); err != nil {
			return nil, err
		}
		if waiting {
			if err := askToStop(ctx, c, p, "the node was skipped"); err != nil {
				return nil, err
			}
			return []*change.Change{c}, c.Save(ctx)
		}
		return []*change.Change{c}, giveUp(ctx, c)
	})
	return after, apierror.Wrap(err, "skip the node %s of workflow %s", key, id)
}

// recount is countWorkflows for a change that is not one of a job's status.
func recount(ctx context.Context, tx bun.Tx, n models.NodeChange) error {
	counted, err := models.CountNodes(ctx, tx, []models.NodeChange{n})
	if err != nil {
		return fmt.Errorf("count the nodes of workflows: %w", err)
	}
	return change.AnnounceWorkflows(ctx, tx, slices.DeleteFunc(counted, func(w *models.Workflow) bool { return w.Open > 0 }))
}

// giveUp settles the dependents of an ended job that have waited for its retry, and drops that.
func giveUp(ctx context.Context, c *change.Change) error {
	dropped, err := models.DropParentRetries(ctx, c.Tx, []models.JobID{c.Job.ID})
	if err != nil || len(dropped) == 0 {
		return apierror.Wrap(err, "drop the retry for dependents")
	}
	s := change.Settlement{Over: map[models.JobID]*change.Change{c.Job.ID: c}, Final: true}
	if err := s.Run(ctx, c.Tx, []models.JobID{c.Job.ID}); err != nil {
		return err
	}
	return change.SaveAll(ctx, c.Tx, []*change.Change{c}, models.Writes{})
}

// lockNode locks the job of a node, and reads the node.
func lockNode(ctx context.Context, tx bun.Tx, id models.WorkflowID, key string) (*models.WorkflowNode, *change.Change, error) {
	if !text.Valid(key, 1, 100) { // PostgreSQL's texts cannot have every character
		return nil, nil, apierror.NotFound("node").In("key")
	}
	nodes, err := models.GetWorkflowNodes(ctx, tx, id, key)
	if err != nil {
		return nil, nil, err
	}
	if len(nodes) == 0 {
		return nil, nil, apierror.NotFound("node").In("key")
	}
	job, err := models.LockJob(ctx, tx, nodes[0].JobID)
	if err != nil {
		return nil, nil, err
	}
	c, err := change.New(ctx, tx, job)
	if err != nil {
		return nil, nil, err
	}
	nodes, err = models.GetWorkflowNodes(ctx, tx, id, key) // another one may have changed it before the lock
	if err == nil && len(nodes) == 0 {
		err = apierror.NotFound("node").In("key")
	}
	if err != nil {
		return nil, nil, err
	}
	return nodes[0], c, nil
}

// Override lets a node not wait for one of its parents any more. It returns CONFLICT if the node
// does not wait for it, or uses its result.
func (w *WorkflowOperator) Override(ctx context.Context, p jobs.Principal, id models.WorkflowID, key, parent string) (*models.Workflow,
	error) {
	after, err := w.change(ctx, p, id, func(ctx context.Context, tx bun.Tx, seen *models.Workflow) ([]*change.Change, error) {
		node, c, err := lockNode(ctx, tx, id, key)
		if err != nil || slices.Contains(node.Overridden, parent) {
			return nil, err
		}
		if !slices.Contains(node.After, parent) {
			return nil, apierror.NotFound("parent of the node").In("parent")
		}
		above, err := models.GetWorkflowNodes(ctx, tx, id, parent)
		if err != nil || len(above) == 0 {
			return nil, apierror.OrNotFound(cmp.Or(err, sql.ErrNoRows), "parent of the node")
		}
		edge, err := models.OpenDependency(ctx, tx, c.Job.ID, above[0].JobID)
		switch {
		case err != nil:
			return nil, err
		case c.Job.Status != models.JobBlocked || !edge.Open:
			return nil, apierror.Conflict("The node %s does not wait for %s.", key, parent)
		case edge.Used:
			return nil, apierror.Conflict("The node %s uses the result of %s: it cannot run without it.", key, parent)
		}
		if _, err := models.DeleteDependency(ctx, tx, c.Job.ID, above[0].JobID); err != nil {
			return nil, err
		}
		node.Overridden = append(node.Overridden, parent)
		if err := models.SaveWorkflowNode(ctx, tx, node); err != nil {
			return nil, err
		}
		if err := p.Audit(ctx, tx, "overrideDependency", string(id), jobs.Payload{"node": key, "parent": parent, "job": c.Job.ID}); err != nil {
			return nil, err
		}
		c.Job.BlockedBy--
		if err := c.Unblock(); err != nil {
			return nil, err
		}
		return []*change.Change{c}, c.Save(ctx)
	})
	return after, apierror.Wrap(err, "override what the node %s of workflow %s waits for", key, id)
}

// retryParentsLimit bounds the jobs of one pass.
const retryParentsLimit = 200

// RetryParents opens new runs of failed jobs whose dependents demand it, and returns how many. Any
// number of processes may call it at once.
func (w *WorkflowOperator) RetryParents(ctx context.Context) (int, error) {
	due, err := models.ListParentRetries(ctx, w.DB, retryParentsLimit)
	if err != nil {
		return 0, fmt.Errorf("find the jobs to retry for their dependents: %w", err)
	}
	retried := 0
	var failed []error
	for _, one := range due {
		done, err := w.retryParent(ctx, one)
		if err != nil {
			failed = append(failed, fmt.Errorf("retry job %s for its dependents: %w", one.JobID, err))
			continue
		}
		if done != nil {
			retried++
			w.Notifier.After(ctx, done)
		}
	}
	return retried, errors.Join(failed...)
}

// retryParent opens the run, unless the job was retried meanwhile or nothing waits for it. If it
// cannot run again, its dependents are settled.
func (w *WorkflowOperator) retryParent(ctx context.Context, due models.ParentRetry) (done *change.Change, err error) {
	again := func(ctx context.Context, c *change.Change) error {
		if err := models.ResolveDeadLetters(ctx, c.Tx, []models.JobID{due.JobID}, models.ResolvedRetried, jobs.HostName,
			"for a job that depends on it"); err != nil {
			return err
		}
		return reopen(ctx, c, opening{event: models.EventQueued, by: jobs.HostName, known: w.Catalogue.Current(), estimates: w.Estimates})
	}
	if done, err = w.withParent(ctx, due, again); submit.Refusal(err) != nil {
		return w.withParent(ctx, due, func(ctx context.Context, c *change.Change) error { return giveUp(ctx, c) })
	}
	return done, err
}

// withParent calls act for a job that is to be retried, if it still is.
func (w *WorkflowOperator) withParent(ctx context.Context, due models.ParentRetry,
	act func(context.Context, *change.Change) error) (done *change.Change, err error) {
	err = jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		done = nil
		job, err := models.LockFreeJob(ctx, tx, due.JobID)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // the next pass looks again
		}
		if err != nil {
			return err
		}
		awaited, err := models.IsAwaited(ctx, tx, job.ID)
		if err != nil {
			return err
		}
		if job.Status != models.JobFailed || job.Run != due.Run || !awaited {
			_, err := models.DropParentRetries(ctx, tx, []models.JobID{job.ID})
			return err
		}
		if done, err = change.New(ctx, tx, job); err != nil {
			return err
		}
		return act(ctx, done)
	})
	return done, err
}
