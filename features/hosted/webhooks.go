package hosted

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// Webhooks takes the webhooks of hosted providers. A webhook is a hint to ask the provider now: nothing that it
// says is read. A forged, late or repeated webhook can only cause a few polls earlier.
type Webhooks struct {
	DB            *bun.DB
	Notifications jobs.Notifications
	// Keys returns the keys that sign addresses: the first one signs, all of them verify.
	Keys func() [][]byte
	// URL is the address of this API, to which WebhookPath is added.
	URL string
	// Observe is called with the result of each webhook. It may be nil.
	Observe func(WebhookResult)
}

// WebhookPath is where providers send webhooks; a token follows.
const WebhookPath = "/hooks/providers/"

// WebhookResult is what came of a webhook.
type WebhookResult string

const (
	// WebhookTaken brings the next poll forward.
	WebhookTaken WebhookResult = "taken"
	// WebhookSurplus is one more than a job may have.
	WebhookSurplus WebhookResult = "surplus"
	// WebhookLate is about a job that the provider no longer has for Reelay.
	WebhookLate WebhookResult = "late"
	// WebhookUnknown has a token that Reelay did not make.
	WebhookUnknown WebhookResult = "unknown"
)

// mostWebhooks is how many webhooks about a job bring a poll forward. Providers send up to three, and repeat them
// when they are not answered.
const mostWebhooks = 10

// Address returns where the provider of a job sends webhooks about it. It returns NOT_FOUND if no worker has the
// job for a hosted provider. The caller needs an enrolment key.
func (w *Webhooks) Address(ctx context.Context, p jobs.Principal, job models.JobID) (string, error) {
	state, err := WebhookState(ctx, w.DB, p, job)
	if err != nil {
		return "", err
	}
	terms := fmt.Sprintf("%s.%s", job, state.PoolID)
	return w.URL + WebhookPath + terms + "." + base64.RawURLEncoding.EncodeToString(webhookMAC(w.Keys()[0], terms)), nil
}

// WebhookState returns what is known of the webhooks about a job. It returns NOT_FOUND if no worker has the job for
// a hosted provider. The caller needs an enrolment key.
func WebhookState(ctx context.Context, db *bun.DB, p jobs.Principal, job models.JobID) (state capacity.WebhookState, err error) {
	if err := p.RequireEnrolmentKey(); err != nil {
		return state, err
	}
	if !job.Valid() {
		return state, apierror.NotFound("job")
	}
	state, err = capacity.GetWebhookState(ctx, db, job)
	if err != nil {
		return state, apierror.Wrap(apierror.OrNotFound(err, "job at a hosted provider"), "read the webhooks of the job %s", job)
	}
	return state, nil
}

func webhookMAC(key []byte, terms string) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "reelay webhook of a provider:%s", terms)
	return mac.Sum(nil)
}

// Take takes a webhook that came to the address with a token.
func (w *Webhooks) Take(ctx context.Context, token string) (result WebhookResult, err error) {
	defer func() {
		if err == nil && w.Observe != nil {
			w.Observe(result)
		}
	}()
	job, pool, ok := w.read(token)
	if !ok {
		return WebhookUnknown, nil
	}
	counted, err := capacity.CountWebhook(ctx, w.DB, pool, job, mostWebhooks)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return WebhookLate, nil
	case err != nil:
		return "", fmt.Errorf("count a webhook about the job %s: %w", job, err)
	case !counted:
		return WebhookSurplus, nil
	}
	w.Notifications.Publish(ctx, string(job))
	return WebhookTaken, nil
}

// read returns what a token was made for. It reports false for one that this installation did not make.
func (w *Webhooks) read(token string) (job models.JobID, pool models.PoolID, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", "", false
	}
	mac, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	terms := parts[0] + "." + parts[1]
	if err != nil || !slices.ContainsFunc(w.Keys(), func(key []byte) bool { return hmac.Equal(mac, webhookMAC(key, terms)) }) {
		return "", "", false
	}
	return models.JobID(parts[0]), models.PoolID(parts[1]), true
}
