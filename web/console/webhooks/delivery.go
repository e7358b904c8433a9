package webhooks

import (
	"context"
	"fmt"
	"net/http"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
)

// ReadTries reads the tries of deliveries.
func ReadTries(ctx context.Context, reads *query.Reads, p jobs.Principal, of []*webhooks.Delivery,
) (map[models.WebhookDeliveryID][]*webhooks.Try, error) {
	byDelivery := map[models.WebhookDeliveryID][]*webhooks.Try{}
	tries, err := reads.Webhooks.Tries(ctx, p, of...)
	for _, try := range tries {
		byDelivery[try.DeliveryID] = append(byDelivery[try.DeliveryID], try)
	}
	return byDelivery, err
}

// webhookState returns the state of a delivery for a badge.
func webhookState(d *webhooks.Delivery) string {
	switch {
	case d.State != webhooks.DeliveryPending:
		return string(d.State)
	case d.LastError != "":
		return "RETRYING"
	}
	return string(webhooks.DeliveryPending)
}

// webhookOutcome describes the result of a try.
func webhookOutcome(try *webhooks.Try) string {
	if try.Error == "" && try.StatusCode != nil {
		return fmt.Sprintf("The endpoint responded with status %d.", *try.StatusCode)
	}
	return try.Error
}

// sameTries are tries that follow each other with the same outcome.
type sameTries struct {
	First, Last *webhooks.Try
	Count       int
}

// foldTries makes tries one that follow each other with the same outcome. They are oldest first.
func foldTries(tries []*webhooks.Try) (folded []sameTries) {
	for _, same := range query.FoldSame(tries, webhookOutcome) {
		folded = append(folded, sameTries{First: same.Newest, Last: same.Oldest, Count: same.Count})
	}
	return folded
}

// redeliver sends an event again, and leads back to the page with the button.
func (c *controller) redeliver(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	delivery, err := c.Reads.Webhooks.Delivery(r.Context(), p, models.WebhookDeliveryID(r.PathValue("id")))
	if err != nil {
		return err
	}
	if delivery.State != webhooks.DeliveryPending { // else it is on its way
		if _, err = c.Webhooks.Redeliver(r.Context(), p, delivery.ID); err != nil {
			return err
		}
	}
	back := string(address.Job(delivery.JobID)) + "#webhooks"
	if r.PostForm.Get("back") == "endpoint" {
		back = "/webhooks/" + string(delivery.EndpointID)
	}
	return c.Done(w, r, back, "The event is sent again.")
}
