package query

import (
	"context"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
)

// WorkflowCounts are numbers of nodes of a workflow.
type WorkflowCounts struct {
	Total     int `json:"total"`
	Waiting   int `json:"waiting"`
	Running   int `json:"running"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	// Skipped nodes are none of the others.
	Skipped int `json:"skipped"`
	// Percent is how much of the work is done, from 0 to 100: the mean over the nodes.
	Percent float64 `json:"percent"`
}

// CountNodes counts the nodes of workflows that the caller was shown.
func (r *Reader) CountNodes(ctx context.Context, ids []models.WorkflowID) (map[models.WorkflowID]WorkflowCounts, error) {
	rows, err := models.CountNodeStates(ctx, r.DB, ids)
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

// WorkflowsOf returns the workflows of jobs that the caller was shown, in no particular order.
func (r *Reader) WorkflowsOf(ctx context.Context, ids []models.WorkflowID) ([]*models.Workflow, error) {
	found, err := models.GetWorkflows(ctx, r.DB, ids)
	return found, apierror.Wrap(err, "read workflows")
}

// WorkflowNodes returns the nodes of workflows that the caller was shown, parents first.
func (r *Reader) WorkflowNodes(ctx context.Context, ids []models.WorkflowID) ([]*models.WorkflowNode, error) {
	nodes, err := models.ListWorkflowNodes(ctx, r.DB, ids...)
	return nodes, apierror.Wrap(err, "read the nodes of workflows")
}
