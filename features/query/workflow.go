package query

import (
	"context"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Workflows reads what belongs to workflows.
type Workflows struct {
	db *bun.DB
}

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

// Counts counts the nodes of workflows that the caller was shown.
func (r *Workflows) Counts(ctx context.Context, ids []models.WorkflowID) (map[models.WorkflowID]WorkflowCounts, error) {
	rows, err := models.CountNodeStates(ctx, r.db, ids)
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

// ByID returns the workflows of jobs that the caller was shown, in no particular order.
func (r *Workflows) ByID(ctx context.Context, ids []models.WorkflowID) ([]*models.Workflow, error) {
	found, err := models.GetWorkflows(ctx, r.db, ids)
	return found, apierror.Wrap(err, "read workflows")
}

// Schedules returns the schedules that submitted workflows that the caller was shown, in no
// particular order.
func (r *Workflows) Schedules(ctx context.Context, ids []models.WorkflowID) ([]*schedules.WorkflowSchedule, error) {
	found, err := schedules.GetSchedulesOfWorkflows(ctx, r.db, ids)
	return found, apierror.Wrap(err, "read the schedules of workflows")
}

// Nodes returns the nodes of workflows that the caller was shown, parents first.
func (r *Workflows) Nodes(ctx context.Context, ids []models.WorkflowID) ([]*models.WorkflowNode, error) {
	nodes, err := models.ListWorkflowNodes(ctx, r.db, ids...)
	return nodes, apierror.Wrap(err, "read the nodes of workflows")
}

// WorkflowSummary is a workflow as REST and webhooks show it.
type WorkflowSummary struct {
	WorkflowID     models.WorkflowID `json:"workflow_id" doc:"The workflow's id."`
	Name           string            `json:"name"`
	Status         string            `json:"status" enum:"running,completed,failed,cancelled" doc:"The workflow's status. All but running are final unless it is retried."`
	Run            int               `json:"run" doc:"Number of the run. Each retry of an ended workflow starts the next one."`
	IdempotencyKey *string           `json:"idempotency_key"`
	Counts         *WorkflowCounts   `json:"counts,omitempty" doc:"Number of nodes by state."`
	Output         *Summary          `json:"output" doc:"The job whose result is the workflow's result. Null if the workflow names none."`
	CancelReason   *string           `json:"cancel_reason"`
	CreatedAt      time.Time         `json:"created_at"`
	CompletedAt    *time.Time        `json:"completed_at" doc:"When it ended."`
}

// OfWorkflows returns what REST shows of workflows that the caller was shown. Links are
// valid for ttl, and begin with base.
func (r *Summaries) OfWorkflows(ctx context.Context, all []*models.Workflow, base string, ttl time.Duration) ([]*WorkflowSummary,
	error) {
	if len(all) == 0 {
		return nil, nil
	}
	ids := lo.Map(all, func(w *models.Workflow, _ int) models.WorkflowID { return w.ID })
	counts, err := r.Workflows.Counts(ctx, ids)
	if err != nil {
		return nil, err
	}
	outputs, err := r.outputs(ctx, all, base, ttl)
	if err != nil {
		return nil, err
	}
	summaries := make([]*WorkflowSummary, len(all))
	for i, w := range all {
		s := &WorkflowSummary{
			WorkflowID: w.ID, Name: w.Name, Status: strings.ToLower(string(w.Status)), Run: w.Run, Output: outputs[w.ID],
			CreatedAt:      w.CreatedAt.UTC(),
			IdempotencyKey: lo.EmptyableToPtr(w.IdempotencyKey), CancelReason: lo.EmptyableToPtr(w.CancelReason),
		}
		if !w.CompletedAt.IsZero() {
			s.CompletedAt = new(w.CompletedAt.UTC())
		}
		if c, there := counts[w.ID]; there {
			s.Counts = &c
		}
		summaries[i] = s
	}
	return summaries, nil
}

// outputs summarizes the jobs whose results are the workflows'.
func (r *Summaries) outputs(ctx context.Context, all []*models.Workflow, base string,
	ttl time.Duration) (map[models.WorkflowID]*Summary, error) {
	outputs := map[models.WorkflowID]*Summary{}
	for _, w := range all {
		if w.Output == "" {
			continue
		}
		nodes, err := models.GetWorkflowNodes(ctx, r.Workflows.db, w.ID, w.Output)
		if err != nil || len(nodes) == 0 {
			return nil, apierror.Wrap(err, "read the output of workflow %s", w.ID)
		}
		jobs, err := r.Jobs.ByID(ctx, []models.JobID{nodes[0].JobID})
		if err != nil {
			return nil, err
		}
		summaries, err := r.OfJobs(ctx, jobs, base, ttl)
		if err != nil || len(summaries) == 0 {
			return nil, err
		}
		outputs[w.ID] = summaries[0]
	}
	return outputs, nil
}
