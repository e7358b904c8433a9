package jobs

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/jobs/seal"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

const (
	webhookSecretPrefix = "whsec_"
	webhookSecretBytes  = 32
)

// validCallback refuses a URL that is not to be called.
func validCallback(policy outbound.Policy, field, url string) error {
	if _, err := policy.CheckURL(url); err != nil {
		return invalid(field, "%s", err)
	}
	return nil
}

// newEndpoint makes a row with a new secret; url is empty for the account's
// callbacks.
func newEndpoint(sealer *seal.Sealer, account models.AccountID, url string, format models.WebhookFormat, events []string) (*models.WebhookEndpoint, string, error) {
	endpoint := &models.WebhookEndpoint{ID: models.NewWebhookEndpointID(), AccountID: account, URL: url, Format: format, Events: events}
	secret, sealed, err := newWebhookSecret(sealer, endpoint.ID)
	endpoint.Secret, endpoint.SecretKey = sealed.Ciphertext, sealed.WrappedKey
	return endpoint, secret, err
}

// newWebhookSecret makes a secret, as its owner reads it, and as it is kept.
func newWebhookSecret(sealer *seal.Sealer, id models.WebhookEndpointID) (string, seal.Sealed, error) {
	raw := make([]byte, webhookSecretBytes)
	rand.Read(raw)
	sealed, err := sealer.Seal(raw, []byte(id))
	return webhookSecretPrefix + base64.StdEncoding.EncodeToString(raw), sealed, wrap(err, "seal a webhook secret")
}

// ensureCallbackEndpoints gives accounts a secret for the callbacks of their jobs,
// unless they have one.
func ensureCallbackEndpoints(ctx context.Context, tx bun.Tx, sealer *seal.Sealer, accounts []models.AccountID) error {
	if len(accounts) == 0 {
		return nil
	}
	have, err := models.ListCallbackAccounts(ctx, tx, accounts)
	if err != nil {
		return wrap(err, "look for the secret of callbacks")
	}
	for _, account := range accounts {
		if slices.Contains(have, account) {
			continue
		}
		endpoint, _, err := newEndpoint(sealer, account, "", models.FormatStandard, webhookEvents[models.FormatStandard])
		if err != nil {
			return err
		}
		if err := models.InsertWebhookEndpoint(ctx, tx, endpoint); err != nil {
			return wrap(err, "make the secret of callbacks")
		}
	}
	return nil
}
