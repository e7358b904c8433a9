package webhook

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/seal"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/uptrace/bun"
)

// Endpoints manages the URLs to which an account's webhooks go. query.Webhooks reads the
// deliveries.
type Endpoints struct {
	DB     *bun.DB
	Sealer *seal.Sealer
	// Outbound decides which URLs may be called.
	Outbound outbound.Policy
	// Buckets opens buckets of accounts.
	Buckets Buckets
}

const (
	// webhookOverlap is how long a replaced secret still signs.
	webhookOverlap = 24 * time.Hour
	// maxWebhookEndpoints bounds what each end of a job has to write.
	maxWebhookEndpoints = 20
)

// CreateEndpoint makes an endpoint that receives the ends of the account's jobs, and returns
// it with its secret, which is shown only now. Without events the endpoint receives all events
// of its format. It returns INVALID_INPUT (url, events), or CONFLICT if the account has as
// many endpoints as it may have.
func (w *Endpoints) CreateEndpoint(ctx context.Context, p jobs.Principal, url string, format webhooks.Format,
	events []string) (*webhooks.Endpoint, string, error) {
	return w.CreateEndpointOnce(ctx, p, models.NewWebhookEndpointID(), url, format, events)
}

// CreateEndpointOnce is CreateEndpoint with an id for the endpoint. It returns CONFLICT if the id is
// taken, as when a form is sent twice.
func (w *Endpoints) CreateEndpointOnce(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID, url string,
	format webhooks.Format, events []string) (*webhooks.Endpoint, string, error) {
	if err := p.RequireChange(); err != nil {
		return nil, "", err
	}
	if !id.Valid() {
		return nil, "", apierror.Invalid("id", "This is no id of an endpoint.")
	}
	if err := change.ValidCallback(w.Outbound, "url", url); err != nil {
		return nil, "", err
	}
	if format == webhooks.FormatBucket {
		return nil, "", apierror.Invalid("format", "A bucket needs keys: use createBucketEndpoint.")
	}
	events, err := validEvents(format, events)
	if err != nil {
		return nil, "", err
	}
	endpoint, secret, err := change.NewEndpoint(w.Sealer, id, p.AccountID, url, format, events)
	if err != nil {
		return nil, "", err
	}
	if err := w.insert(ctx, p, endpoint); err != nil {
		return nil, "", apierror.Wrap(err, "create a webhook endpoint")
	}
	return endpoint, secret, nil
}

// insert writes a new endpoint, unless its account has as many as it may have.
func (w *Endpoints) insert(ctx context.Context, p jobs.Principal, endpoint *webhooks.Endpoint) error {
	return jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		if _, err := models.LockAccount(ctx, tx, p.AccountID); err != nil {
			return err
		}
		taken, err := webhooks.HasEndpoint(ctx, tx, endpoint.ID)
		if err != nil {
			return err
		}
		if taken {
			return apierror.Conflict("This form was sent before, and its endpoint was created. Its secret is not shown again: rotate it if you missed it.")
		}
		n, err := webhooks.CountEndpoints(ctx, tx, p.AccountID)
		if err != nil {
			return err
		}
		if n >= maxWebhookEndpoints {
			return apierror.Conflict("This account has %d webhook endpoints, which is the limit: delete one first.", n)
		}
		return webhooks.InsertEndpoint(ctx, tx, endpoint)
	})
}

func validEvents(format webhooks.Format, events []string) ([]string, error) {
	all := change.WebhookEvents[format]
	if len(events) == 0 {
		return all, nil
	}
	for _, event := range events {
		if !slices.Contains(all, event) {
			return nil, apierror.Invalid("events", "events of the format %s are %s; there is no %q.", format, strings.Join(all, ", "),
				text.Clip(event, 64))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(events))), nil
}

// openSecrets returns the secrets that sign for an endpoint now, newest first.
func openSecrets(sealer *seal.Sealer, e *webhooks.Endpoint, now time.Time) ([][]byte, error) {
	secret, err := sealer.Open(seal.Sealed{Ciphertext: e.Secret, WrappedKey: e.SecretKey}, []byte(e.ID))
	if err != nil {
		return nil, err
	}
	if !e.OldSecretUntil.After(now) {
		return [][]byte{secret}, nil
	}
	old, err := sealer.Open(seal.Sealed{Ciphertext: e.OldSecret, WrappedKey: e.OldSecretKey}, []byte(e.ID))
	return [][]byte{secret, old}, err
}

// RotateSecret gives an endpoint a new secret, which is shown only now. The old secret also
// signs for 24 hours. Only the endpoint's own account may rotate it.
func (w *Endpoints) RotateSecret(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID) (*webhooks.Endpoint, string,
	error) {
	if err := p.RequireChange(); err != nil {
		return nil, "", err
	}
	endpoint, err := query.VisibleEndpoint(ctx, w.DB, p, id)
	if err != nil {
		return nil, "", err
	}
	if endpoint.AccountID != p.AccountID {
		return nil, "", apierror.Forbidden("This endpoint belongs to another account: only a key of that account can rotate its secret.")
	}
	if endpoint.Format == webhooks.FormatBucket {
		return nil, "", apierror.Conflict("This endpoint is a bucket: replace its keys with setBucketKeys.")
	}
	secret, sealed, err := change.NewWebhookSecret(w.Sealer, id)
	if err != nil {
		return nil, "", err
	}
	err = jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		return apierror.OrNotFound(webhooks.RotateSecret(ctx, tx, id, sealed.Ciphertext, sealed.WrappedKey, webhookOverlap),
			"webhook endpoint")
	})
	return endpoint, secret, apierror.Wrap(err, "rotate the secret of %s", id)
}

// RotateAccountSecret replaces the secret that signs the callbacks of the account's jobs, and
// returns the new one. The old secret also signs for 24 hours.
func (w *Endpoints) RotateAccountSecret(ctx context.Context, p jobs.Principal) (secret string, err error) {
	if err := p.RequireChange(); err != nil {
		return "", err
	}
	err = jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		// A submit that takes long may make the endpoint of callbacks: the account's row, for which
		// workers wait, must not be held until it is done.
		if err := models.LockSubmits(ctx, tx, p.AccountID); err != nil {
			return err
		}
		if _, err := models.LockAccount(ctx, tx, p.AccountID); err != nil {
			return err
		}
		endpoint, err := webhooks.LockCallbackEndpoint(ctx, tx, p.AccountID)
		if errors.Is(err, sql.ErrNoRows) {
			endpoint, secret, err = change.NewEndpoint(w.Sealer, models.NewWebhookEndpointID(), p.AccountID, "", webhooks.FormatStandard,
				change.WebhookEvents[webhooks.FormatStandard])
			if err != nil {
				return err
			}
			return webhooks.InsertEndpoint(ctx, tx, endpoint)
		}
		if err != nil {
			return err
		}
		made, sealed, err := change.NewWebhookSecret(w.Sealer, endpoint.ID)
		if err != nil {
			return err
		}
		secret = made
		return webhooks.RotateSecret(ctx, tx, endpoint.ID, sealed.Ciphertext, sealed.WrappedKey, webhookOverlap)
	})
	return secret, apierror.Wrap(err, "rotate the secret of callbacks")
}

// DeleteEndpoint deletes an endpoint and its secrets. Its open deliveries are given up.
func (w *Endpoints) DeleteEndpoint(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID) error {
	if err := p.RequireChange(); err != nil {
		return err
	}
	seen, err := query.VisibleEndpoint(ctx, w.DB, p, id)
	if err != nil {
		return err
	}
	err = jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := webhooks.DeleteEndpoint(ctx, tx, id); err != nil {
			return apierror.OrNotFound(err, "webhook endpoint")
		}
		if err := p.AuditOf(ctx, tx, "deleteWebhookEndpoint", seen.AccountID, string(id), jobs.Payload{}); err != nil {
			return err
		}
		_, err := webhooks.GiveUpDeliveries(ctx, tx, id, reasonDeleted, webhookGiveUpMost)
		return err
	})
	return apierror.Wrap(err, "delete webhook endpoint %s", id)
}

// manually is why an endpoint is disabled that an account or an operator disabled.
const manually = "It was disabled by hand."

// DisableEndpoint disables an endpoint until EnableEndpoint, as its failures would: its pending
// deliveries are given up, and the events in the meantime are not sent. A disabled endpoint
// stays as it is.
func (w *Endpoints) DisableEndpoint(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID) (*webhooks.Endpoint, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	if _, err := query.VisibleEndpoint(ctx, w.DB, p, id); err != nil {
		return nil, err
	}
	var endpoint *webhooks.Endpoint
	err := jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		var err error
		if endpoint, err = webhooks.LockEndpoint(ctx, tx, id); err != nil || endpoint.Disabled() {
			return err
		}
		if !endpoint.DeletedAt.IsZero() {
			return apierror.NotFound("webhook endpoint")
		}
		if err := webhooks.DisableEndpoint(ctx, tx, id, manually); err != nil {
			return err
		}
		if err := p.AuditOf(ctx, tx, "disableWebhookEndpoint", endpoint.AccountID, string(id), jobs.Payload{}); err != nil {
			return err
		}
		if endpoint, err = webhooks.GetEndpoint(ctx, tx, id); err != nil {
			return err
		}
		_, err = webhooks.GiveUpDeliveries(ctx, tx, id, reasonDisabled, webhookGiveUpMost)
		return err
	})
	return endpoint, apierror.Wrap(err, "disable webhook endpoint %s", id)
}

// EnableEndpoint enables a disabled endpoint again.
func (w *Endpoints) EnableEndpoint(ctx context.Context, p jobs.Principal, id models.WebhookEndpointID) (*webhooks.Endpoint, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	endpoint, err := query.VisibleEndpoint(ctx, w.DB, p, id)
	if err != nil {
		return nil, err
	}
	err = jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := webhooks.EnableEndpoint(ctx, tx, id); err != nil {
			return apierror.OrNotFound(err, "webhook endpoint")
		}
		if err := p.AuditOf(ctx, tx, "enableWebhookEndpoint", endpoint.AccountID, string(id), jobs.Payload{}); err != nil {
			return err
		}
		var err error
		endpoint, err = webhooks.GetEndpoint(ctx, tx, id)
		return err
	})
	return endpoint, apierror.Wrap(err, "enable webhook endpoint %s", id)
}

// Redeliver sends a delivery once more, whatever its status. It returns CONFLICT if its
// endpoint is deleted or disabled, or its job deleted.
func (w *Endpoints) Redeliver(ctx context.Context, p jobs.Principal, id models.WebhookDeliveryID) (*webhooks.Delivery, error) {
	if err := p.RequireChange(); err != nil {
		return nil, err
	}
	seen, err := query.VisibleDelivery(ctx, w.DB, p, id)
	if err != nil {
		return nil, err
	}
	var delivery *webhooks.Delivery
	err = jobs.InTx(ctx, w.DB, func(ctx context.Context, tx bun.Tx) error {
		endpoint, err := webhooks.LockEndpoint(ctx, tx, seen.EndpointID)
		if err != nil {
			return err
		}
		switch {
		case !endpoint.DeletedAt.IsZero():
			return apierror.Conflict("The endpoint of this delivery was deleted.")
		case endpoint.Disabled():
			return apierror.Conflict("The endpoint of this delivery is disabled: enable it first (enableWebhookEndpoint).")
		}
		if _, _, err := webhooks.GetEventJob(ctx, tx, seen.EventID); errors.Is(err, sql.ErrNoRows) {
			return apierror.Conflict("The job of this delivery was deleted.")
		} else if err != nil {
			return err
		}
		if delivery, err = webhooks.LockDelivery(ctx, tx, id); err != nil {
			return apierror.OrNotFound(err, "webhook delivery")
		}
		if delivery.State != webhooks.DeliveryPending {
			delivery.State, delivery.Once = webhooks.DeliveryPending, true
		}
		if err := webhooks.UpdateDelivery(ctx, tx, delivery, 0); err != nil {
			return err
		}
		return p.AuditOf(ctx, tx, "redeliverWebhook", endpoint.AccountID, string(id), jobs.Payload{"endpoint": endpoint.ID})
	})
	if err != nil {
		return nil, apierror.Wrap(err, "redeliver %s", id)
	}
	return delivery, nil
}
