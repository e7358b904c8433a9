package alert

import (
	"testing"

	"github.com/reelay/reelay/models/alerts"
	"github.com/stretchr/testify/require"
)

// A dead endpoint is for its owner to mend; when those of many accounts fail, Reelay's own network
// is the likely cause.
func TestWebhookFailures(t *testing.T) {
	t.Parallel()

	share := func(h alerts.WebhookHealth) *float64 { return webhookFailures(&State{Webhooks: &h}) }

	require.Nil(t, share(alerts.WebhookHealth{Deliveries: 9, Accounts: 3, Failing: 3}), "too few say little")
	require.Zero(t, *share(alerts.WebhookHealth{Deliveries: 5000, Accounts: 1, Failing: 1}))
	require.Zero(t, *share(alerts.WebhookHealth{Deliveries: 5000, Accounts: 3, Failing: 1}))
	require.InDelta(t, 0.5, *share(alerts.WebhookHealth{Deliveries: 10, Accounts: 4, Failing: 2}), 0.001)
}
