package wire

import (
	"context"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// WorkflowCounts are numbers of nodes of a workflow.
type WorkflowCounts struct {
	Total     int     `json:"total"`
	Waiting   int     `json:"waiting"`
	Running   int     `json:"running"`
	Completed int     `json:"completed"`
	Failed    int     `json:"failed"`
	Cancelled int     `json:"cancelled"`
	Skipped   int     `json:"skipped"`
	Percent   float64 `json:"percent"`
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
func (r *Summaries) OfWorkflows(ctx context.Context, p jobs.Principal, all []*models.Workflow, base string,
	ttl time.Duration) ([]*WorkflowSummary, error) {
	if len(all) == 0 {
		return nil, nil
	}
	edges, err := r.Workflows.Of(p, all...)
	if err != nil {
		return nil, err
	}
	counts, err := edges.Counts(ctx)
	if err != nil {
		return nil, err
	}
	outputs, err := r.outputs(ctx, p, edges, base, ttl)
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
			s.Counts = new(WorkflowCounts(c))
		}
		summaries[i] = s
	}
	return summaries, nil
}

// outputs summarizes the jobs whose results are the workflows'.
func (r *Summaries) outputs(ctx context.Context, p jobs.Principal, edges query.WorkflowEdges, base string,
	ttl time.Duration) (map[models.WorkflowID]*Summary, error) {
	found, err := edges.Outputs(ctx)
	if err != nil {
		return nil, err
	}
	outputs := map[models.WorkflowID]*Summary{}
	for id, job := range found {
		summaries, err := r.OfJobs(ctx, p, []*models.Job{job}, base, ttl)
		if err != nil {
			return nil, err
		}
		outputs[id] = summaries[0]
	}
	return outputs, nil
}
