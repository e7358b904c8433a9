package tasks_test

import (
	"testing"

	"github.com/reelay/reelay/adapters/tasks"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestWebhookDue(t *testing.T) {
	t.Parallel()

	t.Run("WakesTheDeliverer", func(t *testing.T) {
		t.Parallel()

		redis := database(t, 11)
		woken := make(chan struct{}, 1)
		run(t, tasks.Config{Redis: redis, Claim: never, Ready: nothing, Deliver: func() { woken <- struct{}{} }})

		require.NoError(t, newPublisher(t, redis).Publish(t.Context(), &models.OutboxMessage{
			Kind: models.OutboxWebhookDue, Payload: []byte(`{"eventId": "evt_1"}`),
		}))

		receive(t, woken)
	})

	t.Run("RefusesMalformedInput", func(t *testing.T) {
		t.Parallel()

		redis := database(t, 12)

		err := newPublisher(t, redis).Publish(t.Context(), &models.OutboxMessage{Kind: models.OutboxWebhookDue, Payload: []byte(`[]`)})

		require.ErrorIs(t, err, pass.ErrUnpublishable)
	})
}
