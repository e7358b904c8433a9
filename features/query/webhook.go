package query

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

func VisibleEndpoint(ctx context.Context, db bun.IDB, p jobs.Principal, id models.WebhookEndpointID) (*models.WebhookEndpoint, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("webhook endpoint")
	}
	endpoint, err := models.GetWebhookEndpoint(ctx, db, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "webhook endpoint"), "read webhook endpoint %s", id)
	}
	if !p.Sees(endpoint.AccountID) || !endpoint.DeletedAt.IsZero() || endpoint.URL == "" {
		return nil, apierror.NotFound("webhook endpoint")
	}
	return endpoint, nil
}

func VisibleDelivery(ctx context.Context, db bun.IDB, p jobs.Principal, id models.WebhookDeliveryID) (*models.WebhookDelivery, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("webhook delivery")
	}
	delivery, err := models.GetWebhookDelivery(ctx, db, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "webhook delivery"), "read webhook delivery %s", id)
	}
	if !p.Sees(delivery.AccountID) {
		return nil, apierror.NotFound("webhook delivery")
	}
	return delivery, nil
}

// WebhookEndpoint returns an endpoint that the caller may see, or NOT_FOUND.
func (r *Reader) WebhookEndpoint(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID) (*models.WebhookEndpoint, error) {
	return VisibleEndpoint(ctx, r.DB, p, id)
}

// WebhookEndpoints lists an account's endpoints, oldest first: the caller's own,
// or those of an account that an operator names.
func (r *Reader) WebhookEndpoints(ctx context.Context, p jobs.Principal, account models.AccountID) ([]*models.WebhookEndpoint, error) {
	if account == "" {
		account = p.AccountID
	}
	if !account.Valid() || !p.Sees(account) {
		return nil, apierror.NotFound("account")
	}
	found, err := models.ListWebhookEndpoints(ctx, r.DB, account)
	return found, apierror.Wrap(err, "list webhook endpoints")
}

// AllWebhookEndpoints lists endpoints, newest first, at most limit of those older than after: all
// for operators and viewers, and otherwise the caller's own.
func (r *Reader) AllWebhookEndpoints(ctx context.Context, p jobs.Principal, after models.WebhookEndpointID,
	limit int) ([]*models.WebhookEndpoint, error) {
	if after != "" && !after.Valid() {
		return nil, paging.ErrCursor
	}
	found, err := models.ListAllWebhookEndpoints(ctx, r.DB, p.Scope(), after, limit)
	return found, apierror.Wrap(err, "list webhook endpoints")
}

// WebhookDelivery returns a delivery that the caller may see, or NOT_FOUND.
func (r *Reader) WebhookDelivery(ctx context.Context, p jobs.Principal, id models.WebhookDeliveryID) (*models.WebhookDelivery, error) {
	return VisibleDelivery(ctx, r.DB, p, id)
}

// WebhookDeliveries lists deliveries, newest first. A client sees its own, an operator sees
// all.
func (r *Reader) WebhookDeliveries(ctx context.Context, p jobs.Principal, f models.WebhookDeliveryFilter,
	of paging.Request) (*paging.Page[*models.WebhookDelivery], error) {
	all := paging.ListOf("whd", p.Scope(), f)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	if f.JobID != "" && !f.JobID.Valid() {
		return nil, apierror.NotFound("job")
	}
	if f.EndpointID != "" && !f.EndpointID.Valid() {
		return nil, apierror.NotFound("webhook endpoint")
	}
	if !p.May(models.RoleViewer) {
		f.AccountID = p.AccountID
	}
	found, err := models.ListWebhookDeliveries(ctx, r.DB, f, models.WebhookDeliveryID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list webhook deliveries: %w", err)
	}
	return paging.NewPage(all, found, of.First, func(d *models.WebhookDelivery) string { return string(d.ID) }), nil
}

// WebhookTries returns the tries of deliveries that the caller was shown before, oldest first.
func (r *Reader) WebhookTries(ctx context.Context, ids []models.WebhookDeliveryID) ([]*models.WebhookTry, error) {
	found, err := models.ListWebhookTries(ctx, r.DB, ids)
	return found, apierror.Wrap(err, "list webhook tries")
}
