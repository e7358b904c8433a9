package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

const (
	workflowsPath = "/api/v1/workflows"
	// createWorkflow is a pattern of the mux.
	createWorkflow = http.MethodPost + " " + workflowsPath
)

// workflowRequest is jobs that are submitted as one graph.
type workflowRequest struct {
	Name           string                `json:"name" doc:"Name, 1 to 100 characters. It need not be unique."`
	Jobs           []workflowNodeRequest `json:"jobs" nullable:"false" minItems:"1" maxItems:"10000" doc:"The nodes, in any order."`
	CallbackURL    *string               `json:"callback_url,omitempty" doc:"An https URL that receives a webhook when the workflow ends."`
	Output         *string               `json:"output,omitempty" doc:"Key of the node whose result is the workflow's result."`
	Reuse          *models.WorkflowID    `json:"reuse,omitempty" doc:"Id of an earlier workflow. Its completed nodes are reused where key and work are the same."`
	IdempotencyKey *string               `json:"idempotency_key,omitempty" doc:"1 to 255 printable characters. The header Idempotency-Key has the same meaning. The same key with the same request returns the same workflow."`
}

type workflowNodeRequest struct {
	Key             string     `json:"key" doc:"Key of the node: up to 100 letters, digits, - and _, in parts separated by dots." example:"shots.s1"`
	After           []string   `json:"after,omitempty" doc:"Keys of nodes that must end first, besides those whose results it uses."`
	OnParentFailure *string    `json:"on_parent_failure,omitempty" enum:"cascade,continue,retry_parent" doc:"What happens if a parent does not succeed. Default: cascade (the node fails, too)."`
	Continues       *string    `json:"continues,omitempty" doc:"Key of an approval whose candidates are drafts. The node continues the one that is picked: job has the drafts' model and an empty payload."`
	Job             jobRequest `json:"job" doc:"The job, without idempotency_key. Its payload can use results of other nodes, such as {{shots.s1.lastFrame}}."`
}

// workflowView is a workflow with its nodes.
type workflowView struct {
	*wire.WorkflowSummary
	Nodes []workflowNodeView `json:"nodes,omitempty" doc:"The nodes, parents first. Lists leave them out."`
}

type workflowNodeView struct {
	Key             string       `json:"key"`
	After           []string     `json:"after" nullable:"false"`
	OnParentFailure string       `json:"on_parent_failure" enum:"cascade,continue,retry_parent"`
	JobID           models.JobID `json:"job_id"`
	Status          string       `json:"status" enum:"queued,assigned,running,completing,completed,failed,cancelled,scheduled,blocked" doc:"The status of its job."`
	ProgressPct     float64      `json:"progress_pct"`
	WaitingFor      []string     `json:"waiting_for,omitempty" doc:"Why it waits, in sentences, the most informative first."`
	FailureReason   string       `json:"failure_reason,omitempty"`
	Reused          bool         `json:"reused,omitempty" doc:"An earlier workflow completed its job."`
	Skipped         bool         `json:"skipped,omitempty" doc:"Its dependents run as if it were completed."`
	Overridden      []string     `json:"overridden,omitempty" doc:"Parents that it no longer waits for."`
	// Approval is set for nodes of that model.
	Approval *wire.Approval `json:"approval,omitempty" doc:"The question and the answer, of a node with the model workflow.approval."`
}

type workflowInput struct {
	IdempotencyHeader
	Body workflowRequest
}

type workflowOutput struct {
	Location string `header:"Location"`
	Body     workflowView
}

type workflowID struct {
	ID models.WorkflowID `path:"id" doc:"Id of the workflow: wfl_…"`
}

type workflowCancel struct {
	ID     models.WorkflowID `path:"id" doc:"Id of the workflow: wfl_…"`
	Reason string            `query:"reason" maxLength:"200" doc:"Reason, shown to the owner, operators and workers. Up to 200 characters."`
}

type workflowRetry struct {
	ID          models.WorkflowID `path:"id" doc:"Id of the workflow: wfl_…"`
	FromScratch bool              `query:"from_scratch" doc:"Do not start from checkpoints."`
}

type workflowNodeID struct {
	ID  models.WorkflowID `path:"id" doc:"Id of the workflow: wfl_…"`
	Key string            `path:"key" doc:"Key of the node." example:"shots.s1"`
}

type workflowApprove struct {
	ID   models.WorkflowID `path:"id" doc:"Id of the workflow: wfl_…"`
	Key  string            `path:"key" doc:"Key of the node." example:"shots.s1"`
	Pick string            `query:"pick" doc:"The candidate: its key, or the id of its job. It can be left out if only one is complete."`
	Note string            `query:"note" maxLength:"200" doc:"Why, for the owner and operators. Up to 200 characters."`
}

type workflowReject struct {
	ID   models.WorkflowID `path:"id" doc:"Id of the workflow: wfl_…"`
	Key  string            `path:"key" doc:"Key of the node." example:"shots.s1"`
	Note string            `query:"note" maxLength:"200" doc:"Why, for the owner and operators. Up to 200 characters."`
}

type workflowOverride struct {
	ID     models.WorkflowID `path:"id" doc:"Id of the workflow: wfl_…"`
	Key    string            `path:"key" doc:"Key of the node." example:"shots.s1"`
	Parent string            `query:"parent" required:"true" doc:"Key of the parent that the node no longer waits for."`
}

type workflowPage struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Maximum number of workflows on a page."`
	Cursor string `query:"cursor" doc:"Cursor: the next_cursor of the previous page."`
	Name   string `query:"name" doc:"Filter by exact name."`
	Status string `query:"status" doc:"Filter by status (comma-separated): running, completed, failed, cancelled."`
}

type workflowList struct {
	Body struct {
		Workflows  []workflowView `json:"workflows" nullable:"false"`
		NextCursor string         `json:"next_cursor,omitempty" doc:"Cursor of the next page. Absent on the last page."`
	}
}

func (s *service) registerWorkflows(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "createWorkflow", Method: http.MethodPost, Path: workflowsPath, DefaultStatus: http.StatusCreated,
		Summary:      "Submit jobs that depend on each other",
		Description:  "Accepts all of them, or none. The body may have 8 MiB with a `Content-Length`, and 1 MiB without.",
		MaxBodyBytes: httpguard.LargeBody,
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
			http.StatusTooManyRequests},
		RequestBody: example("A shot that continues another, and both as one film", map[string]any{
			"name": "film", "output": "film", "jobs": []map[string]any{
				{"key": "s1", "job": map[string]any{"model": "testcard", "payload": map[string]any{"prompt": "A harbour at dawn",
					"durationSeconds": 2}}},
				{"key": "s2", "job": map[string]any{"model": "testcard", "payload": map[string]any{"prompt": "A ship leaves", "durationSeconds": 2,
					"referenceImage": "{{s1.lastFrame}}"}}},
				{"key": "film", "job": map[string]any{"model": "video.stitch",
					"payload": map[string]any{"clips": []string{"{{s1.video}}", "{{s2.video}}"}}}},
			},
		}),
	}, s.createWorkflow)
	serve(api, huma.Operation{
		OperationID: "listWorkflows", Method: http.MethodGet, Path: workflowsPath, Summary: "List workflows", Description: "The newest first.",
	}, s.listWorkflows)
	serve(api, huma.Operation{
		OperationID: "getWorkflow", Method: http.MethodGet, Path: workflowsPath + "/{id}", Summary: "Read a workflow with its nodes",
		Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *workflowID) (*workflowOutput, error) {
		found, err := s.Workflows.Get(ctx, callerOf(ctx).Principal, in.ID)
		return s.workflowView(ctx, found, err)
	})
	serve(api, huma.Operation{
		OperationID: "cancelWorkflow", Method: http.MethodDelete, Path: workflowsPath + "/{id}", DefaultStatus: http.StatusOK,
		Summary:     "Cancel all jobs of a workflow",
		Description: "The workflow is cancelled when the last job that runs has stopped.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *workflowCancel) (*workflowOutput, error) {
		now, err := s.Workflows.Cancel(ctx, callerOf(ctx).Principal, in.ID, in.Reason)
		return s.workflowView(ctx, now, err)
	})
	serve(api, huma.Operation{
		OperationID: "retryWorkflow", Method: http.MethodPost, Path: workflowsPath + "/{id}/retry", DefaultStatus: http.StatusOK,
		Summary: "Retry what failed of a workflow",
		Errors:  []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *workflowRetry) (*workflowOutput, error) {
		now, err := s.Workflows.Retry(ctx, callerOf(ctx).Principal, in.ID, in.FromScratch)
		return s.workflowView(ctx, now, err)
	})
	serve(api, huma.Operation{
		OperationID: "skipWorkflowJob", Method: http.MethodPost, Path: workflowsPath + "/{id}/nodes/{key}/skip", DefaultStatus: http.StatusOK,
		Summary:     "Treat a node as completed",
		Description: "The nodes after it run as if it were completed. If it waits, it is cancelled. It is a CONFLICT if it runs, is completed, or its result is used. Skips are in the audit log.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *workflowNodeID) (*workflowOutput, error) {
		now, err := s.Workflows.Skip(ctx, callerOf(ctx).Principal, in.ID, in.Key)
		return s.workflowView(ctx, now, err)
	})
	serve(api, huma.Operation{
		OperationID: "approveWorkflowJob", Method: http.MethodPost, Path: workflowsPath + "/{id}/nodes/{key}/approve",
		DefaultStatus: http.StatusOK, Summary: "Pick a candidate of a node that waits for an answer",
		Description: "The node then has the result of the candidate. The same answer again changes nothing. It is a CONFLICT if the node does not wait for an answer, or has another one. Answers are in the audit log.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *workflowApprove) (*workflowOutput, error) {
		now, err := s.Workflows.Answer(ctx, callerOf(ctx).Principal, in.ID, in.Key,
			operate.Answer{Decision: models.Approved, Pick: in.Pick, Note: in.Note})
		return s.workflowView(ctx, now, err)
	})
	serve(api, huma.Operation{
		OperationID: "rejectWorkflowJob", Method: http.MethodPost, Path: workflowsPath + "/{id}/nodes/{key}/reject",
		DefaultStatus: http.StatusOK, Summary: "Reject the candidates of a node that waits for an answer",
		Description: "The node fails. The same answer again changes nothing. It is a CONFLICT if the node does not wait for an answer, or was approved. Answers are in the audit log.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *workflowReject) (*workflowOutput, error) {
		now, err := s.Workflows.Answer(ctx, callerOf(ctx).Principal, in.ID, in.Key, operate.Answer{Decision: models.Rejected, Note: in.Note})
		return s.workflowView(ctx, now, err)
	})
	serve(api, huma.Operation{
		OperationID: "overrideDependency", Method: http.MethodPost, Path: workflowsPath + "/{id}/nodes/{key}/override",
		DefaultStatus: http.StatusOK, Summary: "Stop a node from waiting for a parent",
		Description: "It is a CONFLICT if the node does not wait for it, or uses its result. Overrides are in the audit log.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *workflowOverride) (*workflowOutput, error) {
		now, err := s.Workflows.Override(ctx, callerOf(ctx).Principal, in.ID, in.Key, in.Parent)
		return s.workflowView(ctx, now, err)
	})
}

func (s *service) createWorkflow(ctx context.Context, in *workflowInput) (*workflowOutput, error) {
	asked, p := in.Body, callerOf(ctx).Principal
	key, err := in.with(asked.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	graph, err := s.workflowGraph(p, &asked)
	if err != nil {
		return nil, err
	}
	graph.IdempotencyKey = key
	made, _, err := s.Workflows.Submit(ctx, p, *graph)
	return s.workflowView(ctx, made, workflowWords(err))
}

// workflowGraph reads a workflow. Its idempotency key is left to the caller.
func (s *service) workflowGraph(p jobs.Principal, asked *workflowRequest) (*workflow.Input, error) {
	if err := notEmpty(given{"output", asked.Output}, given{"reuse", (*string)(asked.Reuse)}); err != nil {
		return nil, err
	}
	callback, err := readCallback(asked.CallbackURL)
	if err != nil {
		return nil, err
	}
	graph := &workflow.Input{Name: asked.Name, CallbackURL: callback, Output: value(asked.Output), Reuse: lo.FromPtr(asked.Reuse)}
	for _, one := range asked.Jobs {
		job, err := s.jobSubmission(p, &submitInput{Body: one.Job})
		if err != nil {
			return nil, inNode(one.Key, jobWords(err))
		}
		graph.Jobs = append(graph.Jobs, workflow.Node{
			Key: one.Key, After: one.After, OnParentFailure: models.FailurePolicy(strings.ToUpper(value(one.OnParentFailure))), Job: job,
			Continues: value(one.Continues),
		})
	}
	return graph, nil
}

func (s *service) listWorkflows(ctx context.Context, in *workflowPage) (*workflowList, error) {
	status, err := readNames("status", in.Status, models.WorkflowStatuses)
	if err != nil {
		return nil, err
	}
	page, err := s.Workflows.List(ctx, callerOf(ctx).Principal, models.WorkflowFilter{Name: in.Name, Status: status},
		paging.Request{First: in.Limit, After: in.Cursor})
	if err != nil {
		return nil, err
	}
	summaries, err := s.Summaries.OfWorkflows(ctx, callerOf(ctx).Principal, page.Items, callerOf(ctx).base, linkTTL)
	if err != nil {
		return nil, err
	}
	out := &workflowList{}
	out.Body.Workflows = lo.Map(summaries, func(one *wire.WorkflowSummary, _ int) workflowView { return workflowView{WorkflowSummary: one} })
	if page.More {
		out.Body.NextCursor = page.End
	}
	return out, nil
}

// workflowView answers with a workflow and its nodes, or with err.
func (s *service) workflowView(ctx context.Context, w *models.Workflow, err error) (*workflowOutput, error) {
	if err != nil {
		return nil, err
	}
	summaries, err := s.Summaries.OfWorkflows(ctx, callerOf(ctx).Principal, []*models.Workflow{w}, callerOf(ctx).base, linkTTL)
	if err != nil {
		return nil, err
	}
	p := callerOf(ctx).Principal
	edges, err := s.Reads.Workflows.Of(p, w)
	if err != nil {
		return nil, err
	}
	nodes, err := edges.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	ids := lo.Map(nodes, func(n *models.WorkflowNode, _ int) models.JobID { return n.JobID })
	rows, err := s.Reads.Jobs.ByID(ctx, p, ids)
	if err != nil {
		return nil, err
	}
	waiting, err := s.Reads.Jobs.Of(p, rows...)
	if err != nil {
		return nil, err
	}
	reasons, err := s.Reads.Jobs.WaitingFor(ctx, waiting)
	if err != nil {
		return nil, err
	}
	approvals, err := edges.Approvals(ctx)
	if err != nil {
		return nil, err
	}
	jobs := lo.KeyBy(rows, func(j *models.Job) models.JobID { return j.ID })
	out := &workflowOutput{Location: callerOf(ctx).base + workflowsPath + "/" + string(w.ID),
		Body: workflowView{WorkflowSummary: summaries[0]}}
	for _, n := range nodes {
		view := workflowNodeView{
			Key: n.Key, After: n.After, OnParentFailure: strings.ToLower(string(n.OnParentFailure)), JobID: n.JobID,
			Reused: n.Reused, Skipped: !n.SkippedAt.IsZero(), Overridden: n.Overridden,
			Approval:   wire.OfApproval(approvals[w.ID][n.JobID], callerOf(ctx).base),
			WaitingFor: lo.Map(reasons[n.JobID], func(r query.WaitingReason, _ int) string { return r.For(p) }),
		}
		if job := jobs[n.JobID]; job != nil {
			view.Status, view.ProgressPct, view.FailureReason = strings.ToLower(string(job.Status)), job.Progress.Percent, job.FailureReason
		}
		out.Body.Nodes = append(out.Body.Nodes, view)
	}
	return out, nil
}

// inNode says in which node a field is.
func inNode(key string, err error) error {
	var e *apierror.Error
	if !errors.As(err, &e) {
		return err
	}
	shown := *e
	return shown.In(strings.TrimSuffix("jobs."+key+".job."+e.Field, "."))
}

// workflowWords names the fields of an error as requests do.
func workflowWords(err error) error {
	var e *apierror.Error
	if !errors.As(err, &e) {
		return err
	}
	if i := strings.LastIndex(e.Field, ".job."); i > 0 {
		inner := *e
		return inNode(strings.TrimPrefix(e.Field[:i], "jobs."), jobWords(inner.In(e.Field[i+len(".job."):])))
	}
	return renamed(err, map[string]string{"callbackUrl": "callback_url", "idempotencyKey": "idempotency_key"})
}
