package query

import (
	"context"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Workflows reads workflows and what belongs to them. Lists and changes of them are in features/workflow.
type Workflows struct {
	db      *bun.DB
	objects jobs.Objects
	clock   *jobs.Clock
	links   approvalLinks
}

// WorkflowEdges reads what belongs to some workflows. Its reads check no tenancy, so only Workflows.Of
// makes one, after its check.
type WorkflowEdges struct {
	workflows *Workflows
	caller    jobs.Principal
	rows      []*models.Workflow
}

// Of returns the edges of workflows, or NOT_FOUND if the caller may not see one of them. It reads nothing.
func (r *Workflows) Of(p jobs.Principal, rows ...*models.Workflow) (WorkflowEdges, error) {
	if !lo.EveryBy(rows, func(w *models.Workflow) bool { return p.Sees(w.AccountID) }) {
		return WorkflowEdges{}, apierror.NotFound("workflow")
	}
	return WorkflowEdges{workflows: r, caller: p, rows: rows}, nil
}

// ids returns the ids of the workflows, each once.
func (e WorkflowEdges) ids() []models.WorkflowID {
	return lo.Uniq(lo.Map(e.rows, func(w *models.Workflow, _ int) models.WorkflowID { return w.ID }))
}

// WorkflowCounts are numbers of nodes of a workflow.
type WorkflowCounts struct {
	Total     int
	Waiting   int
	Running   int
	Completed int
	Failed    int
	Cancelled int
	// Skipped nodes are none of the others.
	Skipped int
	// Percent is how much of the work is done, from 0 to 100: the mean over the nodes.
	Percent float64
}

// Counts counts the nodes of the workflows.
func (e WorkflowEdges) Counts(ctx context.Context) (map[models.WorkflowID]WorkflowCounts, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	rows, err := models.CountNodeStates(ctx, e.workflows.db, e.ids())
	if err != nil {
		return nil, apierror.Wrap(err, "count the nodes of workflows")
	}
	all := map[models.WorkflowID]WorkflowCounts{}
	for _, row := range rows {
		c := all[row.WorkflowID]
		c.Total += row.Nodes
		c.Percent += row.Percent
		switch {
		case row.Skipped:
			c.Skipped += row.Nodes
		case row.Status == models.JobCompleted:
			c.Completed += row.Nodes
		case row.Status == models.JobFailed:
			c.Failed += row.Nodes
		case row.Status == models.JobCancelled:
			c.Cancelled += row.Nodes
		case row.Status.Live():
			c.Running += row.Nodes
		default:
			c.Waiting += row.Nodes
		}
		all[row.WorkflowID] = c
	}
	for id, c := range all {
		c.Percent /= float64(c.Total)
		all[id] = c
	}
	return all, nil
}

// ByID returns those of the workflows that the caller may see, in any order.
func (r *Workflows) ByID(ctx context.Context, p jobs.Principal, ids []models.WorkflowID) ([]*models.Workflow, error) {
	found, err := models.GetWorkflows(ctx, r.db, ids)
	return slices.DeleteFunc(found, func(w *models.Workflow) bool { return !p.Sees(w.AccountID) }), apierror.Wrap(err, "read workflows")
}

// Schedules returns the schedules that submitted the workflows, in any order.
func (e WorkflowEdges) Schedules(ctx context.Context) ([]*schedules.WorkflowSchedule, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	found, err := schedules.GetSchedulesOfWorkflows(ctx, e.workflows.db, e.ids())
	return found, apierror.Wrap(err, "read the schedules of workflows")
}

// Nodes returns the nodes of the workflows, parents first.
func (e WorkflowEdges) Nodes(ctx context.Context) ([]*models.WorkflowNode, error) {
	if len(e.rows) == 0 {
		return nil, nil
	}
	nodes, err := models.ListWorkflowNodes(ctx, e.workflows.db, e.ids()...)
	return nodes, apierror.Wrap(err, "read the nodes of workflows")
}

// Outputs returns the jobs whose results are those of the workflows, as far as the caller may see them.
func (e WorkflowEdges) Outputs(ctx context.Context) (map[models.WorkflowID]*models.Job, error) {
	outputs := map[models.WorkflowID]*models.Job{}
	for _, w := range e.rows {
		if w.Output == "" {
			continue
		}
		nodes, err := models.GetWorkflowNodes(ctx, e.workflows.db, w.ID, w.Output)
		if err != nil {
			return nil, apierror.Wrap(err, "read the output of workflow %s", w.ID)
		}
		for _, node := range nodes {
			found, err := models.GetJobs(ctx, e.workflows.db, []models.JobID{node.JobID})
			if err != nil {
				return nil, apierror.Wrap(err, "read the output of workflow %s", w.ID)
			}
			for _, job := range seen(e.caller, found) {
				outputs[w.ID] = job
			}
		}
	}
	return outputs, nil
}
