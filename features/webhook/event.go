package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/samber/lo"
)

// resultLinkTTL is how long the links in a webhook's body are valid.
const resultLinkTTL = 24 * time.Hour

// webhookBody returns the body of a delivery. It is the same at each try, except for the
// signatures of its links, which are valid from then on.
func (d *Deliverer) webhookBody(ctx context.Context, delivery *webhooks.Delivery, format webhooks.Format,
	event *webhooks.Event, job *models.Job) ([]byte, error) {
	if event.Type == webhooks.EventTest {
		return json.Marshal(testEvent{Type: delivery.Event, Timestamp: event.CreatedAt.UTC(),
			Data: testedEndpoint{delivery.EndpointID, delivery.AccountID}})
	}
	if event.Type == webhooks.EventBudget {
		return json.Marshal(budgetEvent{Type: delivery.Event, Timestamp: event.CreatedAt.UTC(), Data: event.Budget})
	}
	if event.WorkflowID != "" {
		return d.workflowBody(ctx, delivery, event)
	}
	if format == webhooks.FormatOpenAI {
		return json.Marshal(openAIEvent{
			ID: event.ID, Object: "event", CreatedAt: event.CreatedAt.Unix(), Type: delivery.Event, Data: openAIVideo{models.VideoID(event.JobID)},
		})
	}
	ended, err := d.endedJob(ctx, event, job)
	if err != nil {
		return nil, err
	}
	return json.Marshal(standardEvent{Type: delivery.Event, Timestamp: event.CreatedAt.UTC(), Data: ended})
}

// endedJob describes the job of an event.
func (d *Deliverer) endedJob(ctx context.Context, event *webhooks.Event, job *models.Job) (endedJob, error) {
	summaries, err := d.Summaries.OfJobs(ctx, jobs.Host, []*models.Job{job}, d.PublicURL, resultLinkTTL)
	if err != nil {
		return endedJob{}, err
	}
	origin, err := webhooks.GetOrigin(ctx, d.DB, job.ID, job.WorkflowID)
	if err != nil {
		return endedJob{}, fmt.Errorf("read the origin of job %s: %w", job.ID, err)
	}
	return endedJob{
		Summary: summaries[0], Account: event.AccountID, Run: event.Run,
		ScheduleID: lo.EmptyableToPtr(origin.ScheduleID), WorkflowID: lo.EmptyableToPtr(job.WorkflowID),
		NodeKey: lo.EmptyableToPtr(origin.NodeKey),
	}, nil
}

// workflowBody is webhookBody for the end of a workflow, and for a node that waits for an answer.
func (d *Deliverer) workflowBody(ctx context.Context, delivery *webhooks.Delivery, event *webhooks.Event) ([]byte, error) {
	w, err := webhooks.GetEventWorkflow(ctx, d.DB, event.ID)
	if err != nil {
		return nil, err
	}
	summaries, err := d.Summaries.OfWorkflows(ctx, jobs.Host, []*models.Workflow{w}, d.PublicURL, resultLinkTTL)
	if err != nil {
		return nil, err
	}
	origin, err := webhooks.GetOrigin(ctx, d.DB, "", w.ID)
	if err != nil {
		return nil, fmt.Errorf("read the origin of workflow %s: %w", w.ID, err)
	}
	data := endedWorkflow{WorkflowSummary: summaries[0], Account: event.AccountID, ScheduleID: lo.EmptyableToPtr(origin.ScheduleID)}
	if event.ApprovalID != "" {
		node, approval, err := d.Summaries.Approval(ctx, w, event.ApprovalID, d.PublicURL)
		if err != nil {
			return nil, err
		}
		data.NodeKey, data.Approval = &node, approval
	}
	return json.Marshal(workflowEvent{Type: delivery.Event, Timestamp: event.CreatedAt.UTC(), Data: data})
}

// workflowEvent is the body of a Standard Webhook about a workflow.
type workflowEvent struct {
	Type      string        `json:"type"`
	Timestamp time.Time     `json:"timestamp"`
	Data      endedWorkflow `json:"data"`
}

type endedWorkflow struct {
	*wire.WorkflowSummary
	Account    models.AccountID   `json:"account"`
	ScheduleID *models.ScheduleID `json:"schedule_id"`
	// NodeKey and Approval are of the node that waits for an answer, if the event is that.
	NodeKey  *string        `json:"node_key,omitempty"`
	Approval *wire.Approval `json:"approval,omitempty"`
}

// standardEvent is the body of a Standard Webhook.
type standardEvent struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      endedJob  `json:"data"`
}

// budgetEvent is the body of a Standard Webhook about a budget: see budgets.Notice.
type budgetEvent struct {
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// testEvent is the body of a test in either format.
type testEvent struct {
	Type      string         `json:"type"`
	Timestamp time.Time      `json:"timestamp"`
	Data      testedEndpoint `json:"data"`
}

type testedEndpoint struct {
	ID      models.WebhookEndpointID `json:"id"`
	Account models.AccountID         `json:"account"`
}

// endedJob is a job as REST shows it, with the account that it belongs to, and with what its
// receiver needs to know which of its own orders it is. Metadata has at most 16 KiB.
type endedJob struct {
	*wire.Summary
	Account    models.AccountID   `json:"account"`
	Run        int                `json:"run"`
	ScheduleID *models.ScheduleID `json:"schedule_id"`
	WorkflowID *models.WorkflowID `json:"workflow_id"`
	NodeKey    *string            `json:"node_key"`
}

// openAIEvent is the body of a webhook in OpenAI's format.
type openAIEvent struct {
	ID        models.WebhookEventID `json:"id"`
	Object    string                `json:"object"`
	CreatedAt int64                 `json:"created_at"`
	Type      string                `json:"type"`
	Data      openAIVideo           `json:"data"`
}

type openAIVideo struct {
	ID string `json:"id"`
}
