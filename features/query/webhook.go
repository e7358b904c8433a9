package query

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// Webhooks reads the endpoints of accounts and the deliveries to them.
type Webhooks struct {
	db *bun.DB
}

// VisibleEndpoint returns an endpoint that the caller may see, or NOT_FOUND.
func VisibleEndpoint(ctx context.Context, db bun.IDB, p jobs.Principal, id models.WebhookEndpointID) (*webhooks.Endpoint, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("webhook endpoint")
	}
	endpoint, err := webhooks.GetEndpoint(ctx, db, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "webhook endpoint"), "read webhook endpoint %s", id)
	}
	if !p.Sees(endpoint.AccountID) || !endpoint.DeletedAt.IsZero() || endpoint.URL == "" {
		return nil, apierror.NotFound("webhook endpoint")
	}
	return endpoint, nil
}

// VisibleDelivery returns a delivery that the caller may see, or NOT_FOUND.
func VisibleDelivery(ctx context.Context, db bun.IDB, p jobs.Principal, id models.WebhookDeliveryID) (*webhooks.Delivery, error) {
	if !id.Valid() {
		return nil, apierror.NotFound("webhook delivery")
	}
	delivery, err := webhooks.GetDelivery(ctx, db, id)
	if err != nil {
		return nil, apierror.Wrap(apierror.OrNotFound(err, "webhook delivery"), "read webhook delivery %s", id)
	}
	if !p.Sees(delivery.AccountID) {
		return nil, apierror.NotFound("webhook delivery")
	}
	return delivery, nil
}

// Endpoint returns an endpoint that the caller may see, or NOT_FOUND.
func (r *Webhooks) Endpoint(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID) (*webhooks.Endpoint, error) {
	return VisibleEndpoint(ctx, r.db, p, id)
}

// Endpoints lists an account's endpoints, oldest first: the caller's own,
// or those of an account that an operator names.
func (r *Webhooks) Endpoints(ctx context.Context, p jobs.Principal, account models.AccountID) ([]*webhooks.Endpoint, error) {
	if account == "" {
		account = p.AccountID
	}
	if !account.Valid() || !p.Sees(account) {
		return nil, apierror.NotFound("account")
	}
	found, err := webhooks.ListEndpoints(ctx, r.db, account)
	return found, apierror.Wrap(err, "list webhook endpoints")
}

// AllEndpoints lists endpoints, newest first, at most limit of those older than after: all
// for operators and viewers, and otherwise the caller's own.
func (r *Webhooks) AllEndpoints(ctx context.Context, p jobs.Principal, after models.WebhookEndpointID,
	limit int) ([]*webhooks.Endpoint, error) {
	if after != "" && !after.Valid() {
		return nil, paging.ErrCursor
	}
	found, err := webhooks.ListAllEndpoints(ctx, r.db, p.Scope(), after, limit)
	return found, apierror.Wrap(err, "list webhook endpoints")
}

// Delivery returns a delivery that the caller may see, or NOT_FOUND.
func (r *Webhooks) Delivery(ctx context.Context, p jobs.Principal, id models.WebhookDeliveryID) (*webhooks.Delivery, error) {
	return VisibleDelivery(ctx, r.db, p, id)
}

// Deliveries lists deliveries, newest first. A client sees its own, an operator sees
// all.
func (r *Webhooks) Deliveries(ctx context.Context, p jobs.Principal, f webhooks.DeliveryFilter,
	of paging.Request) (*paging.Page[*webhooks.Delivery], error) {
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
	if !p.May(access.RoleViewer) {
		f.AccountID = p.AccountID
	}
	found, err := webhooks.ListDeliveries(ctx, r.db, f, models.WebhookDeliveryID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list webhook deliveries: %w", err)
	}
	return paging.NewPage(all, found, of.First, func(d *webhooks.Delivery) string { return string(d.ID) }), nil
}

// Tries returns the tries of deliveries, oldest first, or NOT_FOUND if the caller may not see one of them.
func (r *Webhooks) Tries(ctx context.Context, p jobs.Principal, of ...*webhooks.Delivery) ([]*webhooks.Try, error) {
	if len(of) == 0 {
		return nil, nil
	}
	ids := make([]models.WebhookDeliveryID, len(of))
	for i, d := range of {
		if !p.Sees(d.AccountID) {
			return nil, apierror.NotFound("webhook delivery")
		}
		ids[i] = d.ID
	}
	found, err := webhooks.ListTries(ctx, r.db, ids)
	return found, apierror.Wrap(err, "list webhook tries")
}

// Failing returns the endpoints of all accounts that have failed at least that often in a row and for
// that long, at most most. It is for operators.
func (r *Webhooks) Failing(ctx context.Context, leastTime time.Duration, leastTries int, most int64) ([]*webhooks.Endpoint, error) {
	found, err := alerts.ListFailingEndpoints(ctx, r.db, leastTime, leastTries, most)
	return found, apierror.Wrap(err, "read the endpoints that fail")
}
