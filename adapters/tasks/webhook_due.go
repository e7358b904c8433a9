package tasks

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/models"
)

func (p *Publisher) publishWebhookDue(ctx context.Context, m *models.OutboxMessage) error {
	var due change.WebhookDue
	if err := json.Unmarshal(m.Payload, &due); err != nil {
		return fmt.Errorf("%w: read a webhook.due message: %w", pass.ErrUnpublishable, err)
	}
	// No retry: every process looks sooner by itself.
	err := p.sender.send(ctx, asynq.NewTask(string(m.Kind), m.Payload), asynq.Queue(webhookQueue),
		asynq.TaskID(string(due.EventID)), asynq.MaxRetry(0), asynq.Timeout(readyTimeout))
	if err != nil {
		return fmt.Errorf("publish that webhook %s is due: %w", due.EventID, err)
	}
	return nil
}

// webhookDue handles the message that a webhook is due: the process that receives it looks for
// due deliveries at once.
func webhookDue(deliver func()) asynq.HandlerFunc {
	return func(context.Context, *asynq.Task) error {
		deliver()
		return nil
	}
}
