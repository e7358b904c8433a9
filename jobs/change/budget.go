package change

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/budgets"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// AnnounceBudgets writes the webhook events and deliveries of parts of budgets that an account has reached.
func AnnounceBudgets(ctx context.Context, tx bun.Tx, account models.AccountID, reached []*budgets.Notice) error {
	if len(reached) == 0 {
		return nil
	}
	wanting, err := webhooks.ListWantingEndpoints(ctx, tx, []models.AccountID{account}, []string{webhooks.EventBudget})
	if err != nil {
		return fmt.Errorf("find the endpoints of the event: %w", err)
	}
	wanting = slices.DeleteFunc(wanting, func(e *webhooks.Endpoint) bool {
		return e.URL == "" || !slices.Contains(e.Events, webhooks.EventBudget)
	})
	if len(wanting) == 0 {
		return nil
	}
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return err
	}
	var events []*webhooks.Event
	var deliveries []*webhooks.Delivery
	for _, n := range reached {
		body, err := json.Marshal(n)
		if err != nil {
			return err
		}
		event := &webhooks.Event{ID: models.NewWebhookEventID(), AccountID: account, Run: 1, Type: webhooks.EventBudget, Budget: body, CreatedAt: now}
		events = append(events, event)
		for _, e := range wanting {
			deliveries = append(deliveries, &webhooks.Delivery{
				ID: models.NewWebhookDeliveryID(), EventID: event.ID, EndpointID: e.ID, AccountID: account, JobID: models.NewJobID(), Run: 1,
				Event: event.Type, URL: e.URL,
			})
		}
	}
	if err := webhooks.InsertEvents(ctx, tx, events); err != nil {
		return fmt.Errorf("write the webhook events: %w", err)
	}
	return apierror.Wrap(webhooks.InsertDeliveries(ctx, tx, deliveries), "write the webhook deliveries")
}
