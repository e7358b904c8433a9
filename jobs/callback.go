package jobs

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/seal"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

const (
	webhookSecretPrefix = "whsec_"
	webhookSecretBytes  = 32
)

// ValidCallback refuses a URL that is not to be called.
func ValidCallback(policy outbound.Policy, field, url string) error {
	if _, err := policy.CheckURL(url); err != nil {
		return apierror.Invalid(field, "%s", err)
	}
	return nil
}

// NewEndpoint makes a row with a new secret; url is empty for the account's
// callbacks.
func NewEndpoint(sealer *seal.Sealer, account models.AccountID, url string, format models.WebhookFormat, events []string) (*models.WebhookEndpoint, string, error) {
	endpoint := &models.WebhookEndpoint{ID: models.NewWebhookEndpointID(), AccountID: account, URL: url, Format: format, Events: events}
	secret, sealed, err := NewWebhookSecret(sealer, endpoint.ID)
	endpoint.Secret, endpoint.SecretKey = sealed.Ciphertext, sealed.WrappedKey
	return endpoint, secret, err
}

// NewWebhookSecret makes a secret, as its owner reads it, and as it is kept.
func NewWebhookSecret(sealer *seal.Sealer, id models.WebhookEndpointID) (string, seal.Sealed, error) {
	raw := make([]byte, webhookSecretBytes)
	rand.Read(raw)
	sealed, err := sealer.Seal(raw, []byte(id))
	return webhookSecretPrefix + base64.StdEncoding.EncodeToString(raw), sealed, apierror.Wrap(err, "seal a webhook secret")
}

// ensureCallbackEndpoints gives accounts a secret for the callbacks of their jobs,
// unless they have one.
func ensureCallbackEndpoints(ctx context.Context, tx bun.Tx, sealer *seal.Sealer, accounts []models.AccountID) error {
	if len(accounts) == 0 {
		return nil
	}
	have, err := models.ListCallbackAccounts(ctx, tx, accounts)
	if err != nil {
		return apierror.Wrap(err, "look for the secret of callbacks")
	}
	for _, account := range accounts {
		if slices.Contains(have, account) {
			continue
		}
		endpoint, _, err := NewEndpoint(sealer, account, "", models.FormatStandard, WebhookEvents[models.FormatStandard])
		if err != nil {
			return err
		}
		if err := models.InsertWebhookEndpoint(ctx, tx, endpoint); err != nil {
			return apierror.Wrap(err, "make the secret of callbacks")
		}
	}
	return nil
}
