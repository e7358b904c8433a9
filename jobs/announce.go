package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// What endpoints of each format may hear of.
var WebhookEvents = map[models.WebhookFormat][]string{
	models.FormatStandard: {"job.completed", "job.failed", "job.cancelled"},
	models.FormatOpenAI:   {"video.completed", "video.failed"},
}

// webhookEvent is what a format calls the end of a run. OpenAI's has no event of
// a cancel.
func webhookEvent(format models.WebhookFormat, end models.JobStatus) string {
	if format == models.FormatOpenAI {
		if end == models.JobCompleted {
			return "video.completed"
		}
		return "video.failed"
	}
	return "job." + strings.ToLower(string(end))
}

// WebhookDue is the outbox's message that an event is to be delivered: a hint
// only, the deliveries are rows.
type WebhookDue struct {
	EventID models.WebhookEventID `json:"eventId"`
}

// announce writes, in the transaction that ends runs of jobs, whom to tell of it.
func announce(ctx context.Context, tx bun.Tx, ended []*models.Job, at time.Time) error {
	if len(ended) == 0 {
		return nil
	}
	var accounts []models.AccountID
	for _, job := range ended {
		if !slices.Contains(accounts, job.AccountID) {
			accounts = append(accounts, job.AccountID)
		}
	}
	wanting, err := models.ListWantingEndpoints(ctx, tx, accounts, eventsOf(ended))
	if err != nil {
		return fmt.Errorf("find the webhooks that want to hear of it: %w", err)
	}
	endpoints := map[models.AccountID][]*models.WebhookEndpoint{}
	for _, e := range wanting {
		endpoints[e.AccountID] = append(endpoints[e.AccountID], e)
	}
	var events []*models.WebhookEvent
	var deliveries []*models.WebhookDelivery
	for _, job := range ended {
		event := &models.WebhookEvent{
			ID: models.NewWebhookEventID(), AccountID: job.AccountID, JobID: job.ID, Run: job.Run,
			Type: webhookEvent(models.FormatStandard, job.Status), CreatedAt: at,
		}
		if to := address(event, job, endpoints[job.AccountID]); len(to) > 0 {
			events, deliveries = append(events, event), append(deliveries, to...)
		}
	}
	if len(events) == 0 {
		return nil
	}
	if err := inBatches(events, func(some []*models.WebhookEvent) error { return models.InsertWebhookEvents(ctx, tx, some) }); err != nil {
		return fmt.Errorf("write the webhook events: %w", err)
	}
	if err := inBatches(deliveries, func(some []*models.WebhookDelivery) error { return models.InsertWebhookDeliveries(ctx, tx, some) }); err != nil {
		return fmt.Errorf("write the webhook deliveries: %w", err)
	}
	return apierror.Wrap(models.InsertOutbox(ctx, tx, WebhookDueMessage(events[0].ID)), "write the outbox")
}

// eventsOf are the names, in all formats, of how these jobs ended.
func eventsOf(ended []*models.Job) []string {
	var names []string
	for _, job := range ended {
		for format := range WebhookEvents {
			if name := webhookEvent(format, job.Status); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// address makes a delivery for each endpoint that wants the event, and one for
// the job's own callback.
func address(event *models.WebhookEvent, job *models.Job, endpoints []*models.WebhookEndpoint) []*models.WebhookDelivery {
	var deliveries []*models.WebhookDelivery
	for _, e := range endpoints {
		name, url := webhookEvent(e.Format, job.Status), e.URL
		if url == "" {
			url = job.CallbackURL
		} else if !slices.Contains(e.Events, name) {
			continue
		}
		if url == "" {
			continue
		}
		deliveries = append(deliveries, &models.WebhookDelivery{
			ID: models.NewWebhookDeliveryID(), EventID: event.ID, EndpointID: e.ID, AccountID: event.AccountID,
			JobID: event.JobID, Run: event.Run, Event: name, URL: url,
		})
	}
	return deliveries
}

func WebhookDueMessage(id models.WebhookEventID) *models.OutboxMessage {
	message, err := json.Marshal(WebhookDue{EventID: id})
	if err != nil {
		panic(fmt.Sprintf("webhook message: %v", err)) // it is made of plain values only
	}
	return &models.OutboxMessage{Kind: models.OutboxWebhookDue, Payload: message}
}
