package webhook

import (
	"context"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// Test sends a signed webhook.test to an endpoint, like any other webhook but with only one
// try. It returns CONFLICT if the endpoint is disabled, or while another test of it is in
// progress.
func (w *Endpoints) Test(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID) (*webhooks.Delivery, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	if _, err := query.VisibleEndpoint(ctx, w.DB, p, id); err != nil {
		return nil, err
	}
	var delivery *webhooks.Delivery
	err := jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		endpoint, err := webhooks.LockEndpoint(ctx, tx, id)
		if err != nil {
			return err
		}
		switch pending, err := webhooks.HasPendingTest(ctx, tx, id); {
		case err != nil:
			return err
		case !endpoint.DeletedAt.IsZero():
			return apierror.NotFound("webhook endpoint")
		case endpoint.Disabled():
			return apierror.Conflict("This endpoint is disabled: enable it first (enableWebhookEndpoint).")
		case pending:
			return apierror.Conflict("A test of this endpoint is in progress: webhookDeliveries shows its result.")
		}
		if delivery, err = writeTest(ctx, tx, endpoint); err != nil {
			return err
		}
		return p.AuditOf(ctx, tx, "sendTestWebhook", endpoint.AccountID, string(id), jobs.Payload{})
	})
	if err != nil {
		return nil, apierror.Wrap(err, "test webhook endpoint %s", id)
	}
	return delivery, nil
}

// writeTest inserts the event and the delivery of a test.
func writeTest(ctx context.Context, tx bun.Tx, endpoint *webhooks.Endpoint) (*webhooks.Delivery, error) {
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return nil, err
	}
	event := &webhooks.Event{ID: models.NewWebhookEventID(), AccountID: endpoint.AccountID, Type: webhooks.EventTest, CreatedAt: now}
	if err := webhooks.InsertEvents(ctx, tx, []*webhooks.Event{event}); err != nil {
		return nil, err
	}
	delivery := &webhooks.Delivery{
		ID: models.NewWebhookDeliveryID(), EventID: event.ID, EndpointID: endpoint.ID, AccountID: endpoint.AccountID,
		JobID: models.NewJobID(), Event: webhooks.EventTest, URL: endpoint.URL, Once: true,
	}
	if err := webhooks.InsertDeliveries(ctx, tx, []*webhooks.Delivery{delivery}); err != nil {
		return nil, err
	}
	return webhooks.GetDelivery(ctx, tx, delivery.ID)
}
