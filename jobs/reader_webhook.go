package jobs

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

func visibleEndpoint(ctx context.Context, db bun.IDB, p Principal, id models.WebhookEndpointID) (*models.WebhookEndpoint, error) {
	if !id.Valid() {
		return nil, notFound("webhook endpoint")
	}
	endpoint, err := models.GetWebhookEndpoint(ctx, db, id)
	if err != nil {
		return nil, wrap(orNotFound(err, "webhook endpoint"), "read webhook endpoint %s", id)
	}
	if !p.sees(endpoint.AccountID) || !endpoint.DeletedAt.IsZero() || endpoint.URL == "" {
		return nil, notFound("webhook endpoint")
	}
	return endpoint, nil
}

func visibleDelivery(ctx context.Context, db bun.IDB, p Principal, id models.WebhookDeliveryID) (*models.WebhookDelivery, error) {
	if !id.Valid() {
		return nil, notFound("webhook delivery")
	}
	delivery, err := models.GetWebhookDelivery(ctx, db, id)
	if err != nil {
		return nil, wrap(orNotFound(err, "webhook delivery"), "read webhook delivery %s", id)
	}
	if !p.sees(delivery.AccountID) {
		return nil, notFound("webhook delivery")
	}
	return delivery, nil
}

// WebhookEndpoint returns an endpoint that the caller may see, or NOT_FOUND.
func (r *Reader) WebhookEndpoint(ctx context.Context, p Principal, id models.WebhookEndpointID) (*models.WebhookEndpoint, error) {
	return visibleEndpoint(ctx, r.DB, p, id)
}

// WebhookEndpoints lists an account's endpoints, oldest first: the caller's own,
// or those of an account that an operator names.
func (r *Reader) WebhookEndpoints(ctx context.Context, p Principal, account models.AccountID) ([]*models.WebhookEndpoint, error) {
	if account == "" {
		account = p.AccountID
	}
	if !account.Valid() || !p.sees(account) {
		return nil, notFound("account")
	}
	found, err := models.ListWebhookEndpoints(ctx, r.DB, account)
	return found, wrap(err, "list webhook endpoints")
}

// WebhookDelivery returns a delivery that the caller may see, or NOT_FOUND.
func (r *Reader) WebhookDelivery(ctx context.Context, p Principal, id models.WebhookDeliveryID) (*models.WebhookDelivery, error) {
	return visibleDelivery(ctx, r.DB, p, id)
}

// WebhookDeliveries lists deliveries, newest first; a client sees its own, an
// operator all.
func (r *Reader) WebhookDeliveries(ctx context.Context, p Principal, f models.WebhookDeliveryFilter, of PageOf) (*Page[*models.WebhookDelivery], error) {
	all := listOf("whd", p.scope(), f)
	mark, err := all.begin(of)
	if err != nil {
		return nil, err
	}
	if f.JobID != "" && !f.JobID.Valid() {
		return nil, notFound("job")
	}
	if f.EndpointID != "" && !f.EndpointID.Valid() {
		return nil, notFound("webhook endpoint")
	}
	if !p.May(models.RoleOperator) {
		f.AccountID = p.AccountID
	}
	found, err := models.ListWebhookDeliveries(ctx, r.DB, f, models.WebhookDeliveryID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list webhook deliveries: %w", err)
	}
	return page(all, found, of.First, func(d *models.WebhookDelivery) string { return string(d.ID) }), nil
}

// WebhookTries returns the tries of deliveries that the caller was shown before,
// oldest first.
func (r *Reader) WebhookTries(ctx context.Context, ids []models.WebhookDeliveryID) ([]*models.WebhookTry, error) {
	found, err := models.ListWebhookTries(ctx, r.DB, ids)
	return found, wrap(err, "list webhook tries")
}
