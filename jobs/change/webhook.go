package change

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// WebhookEvents are the events that endpoints of each format can subscribe to.
var WebhookEvents = map[webhooks.Format][]string{
	webhooks.FormatStandard: {"job.completed", "job.failed", "job.cancelled", "workflow.completed", "workflow.failed", "workflow.cancelled",
		webhooks.EventApproval, webhooks.EventBudget},
	webhooks.FormatOpenAI: {"video.completed", "video.failed"},
	webhooks.FormatBucket: {"job.completed"},
}

// webhookEvent returns a format's name for the end of a run. OpenAI's format has none for a
// cancel.
func webhookEvent(format webhooks.Format, end models.JobStatus) string {
	if format == webhooks.FormatOpenAI {
		if end == models.JobCompleted {
			return "video.completed"
		}
		return "video.failed"
	}
	return "job." + strings.ToLower(string(end))
}

// Announce writes the webhook events and deliveries in the transaction in which changes end runs.
func Announce(ctx context.Context, tx bun.Tx, changes []*Change) error {
	ended := EndedBy(changes)
	if len(ended) == 0 {
		return nil
	}
	var accounts []models.AccountID
	for _, job := range ended {
		if !slices.Contains(accounts, job.AccountID) {
			accounts = append(accounts, job.AccountID)
		}
	}
	wanting, err := webhooks.ListWantingEndpoints(ctx, tx, accounts, eventsOf(ended))
	if err != nil {
		return fmt.Errorf("find the endpoints of the event: %w", err)
	}
	endpoints := map[models.AccountID][]*webhooks.Endpoint{}
	for _, e := range wanting {
		endpoints[e.AccountID] = append(endpoints[e.AccountID], e)
	}
	var events []*webhooks.Event
	var deliveries []*webhooks.Delivery
	for _, job := range ended {
		event := &webhooks.Event{
			ID: models.NewWebhookEventID(), AccountID: job.AccountID, JobID: job.ID, Run: job.Run,
			Type: webhookEvent(webhooks.FormatStandard, job.Status), CreatedAt: changes[0].Now,
		}
		if to := address(event, job, endpoints[job.AccountID]); len(to) > 0 {
			events, deliveries = append(events, event), append(deliveries, to...)
		}
	}
	if len(events) == 0 {
		return nil
	}
	if err := postgres.InBatches(events, func(some []*webhooks.Event) error { return webhooks.InsertEvents(ctx, tx, some) }); err != nil {
		return fmt.Errorf("write the webhook events: %w", err)
	}
	if err := postgres.InBatches(deliveries, func(some []*webhooks.Delivery) error {
		return webhooks.InsertDeliveries(ctx, tx,
			some)
	}); err != nil {
		return fmt.Errorf("write the webhook deliveries: %w", err)
	}
	changes[0].Due = true
	return nil
}

// eventsOf returns the events' names, in all formats, for the ends of these jobs.
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
func address(event *webhooks.Event, job *models.Job, endpoints []*webhooks.Endpoint) []*webhooks.Delivery {
	var deliveries []*webhooks.Delivery
	for _, e := range endpoints {
		if e.Format == webhooks.FormatOpenAI && !job.InVideosAPI() {
			continue
		}
		name, url := webhookEvent(e.Format, job.Status), e.URL
		if url == "" {
			url = job.CallbackURL
		} else if !slices.Contains(e.Events, name) {
			continue
		}
		if url == "" {
			continue
		}
		deliveries = append(deliveries, &webhooks.Delivery{
			ID: models.NewWebhookDeliveryID(), EventID: event.ID, EndpointID: e.ID, AccountID: event.AccountID,
			JobID: event.JobID, Run: event.Run, Event: name, URL: url,
		})
	}
	return deliveries
}

const (
	webhookSecretPrefix = "whsec_"
	webhookSecretBytes  = 32
)

// ValidCallback returns INVALID_INPUT for a URL that must not be called.
func ValidCallback(policy outbound.Policy, field, url string) error {
	if _, err := policy.CheckURL(url); err != nil {
		return apierror.Invalid(field, "%s", err)
	}
	return nil
}

// NewEndpoint makes a row with a new secret; url is empty for the account's
// callbacks.
func NewEndpoint(sealer *seal.Sealer, id models.WebhookEndpointID, account models.AccountID, url string, format webhooks.Format,
	events []string) (*webhooks.Endpoint, string, error) {
	endpoint := &webhooks.Endpoint{ID: id, AccountID: account, URL: url, Format: format, Events: events}
	secret, sealed, err := NewWebhookSecret(sealer, endpoint.ID)
	endpoint.Secret, endpoint.SecretKey = sealed.Ciphertext, sealed.WrappedKey
	return endpoint, secret, err
}

// NewWebhookSecret makes a secret, and returns it in its owner's form and sealed.
func NewWebhookSecret(sealer *seal.Sealer, id models.WebhookEndpointID) (string, seal.Sealed, error) {
	raw := make([]byte, webhookSecretBytes)
	rand.Read(raw)
	sealed, err := sealer.Seal(raw, []byte(id))
	return webhookSecretPrefix + base64.StdEncoding.EncodeToString(raw), sealed, apierror.Wrap(err, "seal a webhook secret")
}

// EnsureCallbackEndpoints makes a secret for the callbacks of each account that has none.
func EnsureCallbackEndpoints(ctx context.Context, tx bun.Tx, sealer *seal.Sealer, accounts []models.AccountID) error {
	if len(accounts) == 0 {
		return nil
	}
	have, err := webhooks.ListCallbackAccounts(ctx, tx, accounts)
	if err != nil {
		return apierror.Wrap(err, "look for the secret of callbacks")
	}
	for _, account := range accounts {
		if slices.Contains(have, account) {
			continue
		}
		endpoint, _, err := NewEndpoint(sealer, models.NewWebhookEndpointID(), account, "", webhooks.FormatStandard,
			WebhookEvents[webhooks.FormatStandard])
		if err != nil {
			return err
		}
		if err := webhooks.InsertEndpoint(ctx, tx, endpoint); err != nil {
			return apierror.Wrap(err, "make the secret of callbacks")
		}
	}
	return nil
}
