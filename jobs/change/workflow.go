package change

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// countWorkflows counts the runs that begin or end by changes on their workflows, and announces
// the workflows that end with them.
func countWorkflows(ctx context.Context, tx bun.Tx, changes []*Change) error {
	var nodes []models.NodeChange
	for _, c := range changes {
		for _, one := range append([]*Change{c}, c.others...) {
			if n := one.ofNode(); n != (models.NodeChange{}) {
				nodes = append(nodes, n)
			}
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	counted, err := models.CountNodes(ctx, tx, nodes)
	if err != nil {
		return fmt.Errorf("count the nodes of workflows: %w", err)
	}
	ended := slices.DeleteFunc(counted, func(w *models.Workflow) bool { return w.Open > 0 })
	changes[0].Due = changes[0].Due || len(ended) > 0
	return AnnounceWorkflows(ctx, tx, ended)
}

// ofNode returns what the change means for the workflow of its job; zero if it has none, or its
// run neither begins nor ends.
func (c *Change) ofNode() (n models.NodeChange) {
	if c.Job.WorkflowID == "" {
		return n
	}
	is, was := c.Job.Status, c.From
	switch {
	case is.Terminal() && !was.Terminal():
		n = models.NodeChange{JobID: c.Job.ID, Open: -1}
		if is != models.JobCompleted {
			n.Failed = 1
		}
	case was.Terminal() && !is.Terminal():
		n = models.NodeChange{JobID: c.Job.ID, Open: 1}
		if was != models.JobCompleted {
			n.Failed = -1
		}
	}
	return n
}

// AnnounceWorkflows writes the webhook events and deliveries in the transaction that ends the
// workflows.
func AnnounceWorkflows(ctx context.Context, tx bun.Tx, ended []*models.Workflow) error {
	for _, w := range ended {
		if err := announceWorkflow(ctx, tx, w, &webhooks.Event{
			Run: w.Run, Type: "workflow." + strings.ToLower(string(w.Status)), CreatedAt: w.CompletedAt,
		}); err != nil {
			return err
		}
	}
	return nil
}

// AnnounceApproval is AnnounceWorkflows for a node that begins to wait for an answer.
func AnnounceApproval(ctx context.Context, tx bun.Tx, w *models.Workflow, asked *models.Approval) error {
	return announceWorkflow(ctx, tx, w, &webhooks.Event{
		Run: asked.Run, Type: webhooks.EventApproval, ApprovalID: asked.JobID, CreatedAt: asked.AskedAt,
	})
}

func announceWorkflow(ctx context.Context, tx bun.Tx, w *models.Workflow, event *webhooks.Event) error {
	event.ID, event.AccountID, event.WorkflowID = models.NewWebhookEventID(), w.AccountID, w.ID
	wanting, err := webhooks.ListWantingEndpoints(ctx, tx, []models.AccountID{w.AccountID}, []string{event.Type})
	if err != nil {
		return fmt.Errorf("find the endpoints of the event: %w", err)
	}
	var deliveries []*webhooks.Delivery
	for _, e := range wanting {
		url := e.URL
		if url == "" {
			url = w.CallbackURL
		} else if !slices.Contains(e.Events, event.Type) {
			continue
		}
		if url == "" {
			continue
		}
		deliveries = append(deliveries, &webhooks.Delivery{
			ID: models.NewWebhookDeliveryID(), EventID: event.ID, EndpointID: e.ID, AccountID: w.AccountID,
			// Runs of one workflow are delivered in their order, as those of one job are.
			JobID: w.ID.AsJob(), Run: w.Run, Event: event.Type, URL: url,
		})
	}
	if len(deliveries) == 0 {
		return nil
	}
	if err := webhooks.InsertEvents(ctx, tx, []*webhooks.Event{event}); err != nil {
		return fmt.Errorf("write the webhook event: %w", err)
	}
	return apierror.Wrap(webhooks.InsertDeliveries(ctx, tx, deliveries), "write the webhook deliveries")
}
