package client

import (
	"context"

	"github.com/google/uuid"
)

// Terminal reports whether a workflow with this status has ended.
func (s WorkflowStatus) Terminal() bool { return s != WorkflowStatusRunning }

// SubmitWorkflow submits jobs as one graph, all or none. Its idempotency key, a new one if in has
// none, ensures that repetitions do not create a second workflow.
func (c *Client) SubmitWorkflow(ctx context.Context, in SubmitWorkflowInput) (*Workflow, error) {
	if in.IdempotencyKey == nil {
		in.IdempotencyKey = new("go-" + uuid.NewString())
	}
	data, err := submitWorkflow(ctx, repeater{c}, in)
	if err != nil {
		return nil, err
	}
	return &data.SubmitWorkflow, nil
}

// Workflows returns a page of the workflows that the caller sees, newest first. Zero values of name
// and status select all.
func (c *Client) Workflows(ctx context.Context, name string, status []WorkflowStatus, first int, after string) (*WorkflowPage, error) {
	data, err := workflows(ctx, repeater{c}, Optional(name), status, Optional(first), Optional(after))
	if err != nil {
		return nil, err
	}
	return &data.Workflows, nil
}

// Workflow returns a workflow without its nodes, or a NOT_FOUND error.
func (c *Client) Workflow(ctx context.Context, id string) (*Workflow, error) {
	data, err := workflow(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return found(data.Workflow, "workflow", id)
}

// WorkflowDetail returns a workflow with its nodes, parents first, or a NOT_FOUND error.
func (c *Client) WorkflowDetail(ctx context.Context, id string) (*WorkflowDetail, error) {
	data, err := workflowDetail(ctx, repeater{c}, id)
	if err != nil {
		return nil, err
	}
	return found(data.Workflow, "workflow", id)
}

// CancelWorkflow cancels all jobs of a workflow that have not ended. If the workflow is COMPLETED or
// FAILED, it returns a CONFLICT error. The reason may be empty.
func (c *Client) CancelWorkflow(ctx context.Context, id, reason string) (*Workflow, error) {
	data, err := cancelWorkflow(ctx, repeater{c}, id, Optional(reason))
	if err != nil {
		return nil, err
	}
	return &data.CancelWorkflow, nil
}

// RetryWorkflow opens new runs of the nodes of a workflow that failed or were cancelled, from their
// newest checkpoints or from scratch. If there are none, it returns a CONFLICT error.
func (c *Client) RetryWorkflow(ctx context.Context, id string, fromScratch bool) (*Workflow, error) {
	data, err := retryWorkflow(ctx, caller{c}, id, &fromScratch)
	if err != nil {
		return nil, err
	}
	return &data.RetryWorkflow, nil
}

// SkipWorkflowJob lets the nodes that come after a node of a workflow run as if it were COMPLETED. If
// the node runs or is COMPLETED, or its result is used, it returns a CONFLICT error. Skipping a node
// again changes nothing.
func (c *Client) SkipWorkflowJob(ctx context.Context, id, key string) (*Workflow, error) {
	data, err := skipWorkflowJob(ctx, repeater{c}, id, key)
	if err != nil {
		return nil, err
	}
	return &data.SkipWorkflowJob, nil
}

// ApproveWorkflowJob picks a candidate of a node that waits for an answer: by its key or the id of its
// job, or "" if only one is complete. If the node does not wait or has another answer, it returns a
// CONFLICT error. The same answer again changes nothing. The note may be empty.
func (c *Client) ApproveWorkflowJob(ctx context.Context, id, key, pick, note string) (*Workflow, error) {
	data, err := approveWorkflowJob(ctx, repeater{c}, id, key, Optional(pick), Optional(note))
	if err != nil {
		return nil, err
	}
	return &data.ApproveWorkflowJob, nil
}

// RejectWorkflowJob rejects the candidates of a node that waits for an answer, which then fails. If the
// node does not wait or was approved, it returns a CONFLICT error. The note may be empty.
func (c *Client) RejectWorkflowJob(ctx context.Context, id, key, note string) (*Workflow, error) {
	data, err := rejectWorkflowJob(ctx, repeater{c}, id, key, Optional(note))
	if err != nil {
		return nil, err
	}
	return &data.RejectWorkflowJob, nil
}

// OverrideDependency lets a node of a workflow not wait for one of its parents any more. If the node
// does not wait for it, or uses its result, it returns a CONFLICT error. Overriding a dependency
// again changes nothing.
func (c *Client) OverrideDependency(ctx context.Context, id, key, parent string) (*Workflow, error) {
	data, err := overrideDependency(ctx, repeater{c}, id, key, parent)
	if err != nil {
		return nil, err
	}
	return &data.OverrideDependency, nil
}
