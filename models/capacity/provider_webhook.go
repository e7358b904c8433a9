package capacity

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// CountWebhook counts a webhook about a job that the provider of a pool has, up to a number. It reports whether
// the webhook was counted. It returns sql.ErrNoRows if the job has no slot there.
func CountWebhook(ctx context.Context, db bun.IDB, pool models.PoolID, job models.JobID, most int) (counted bool, err error) {
	err = db.NewRaw(`
		WITH slot AS (SELECT s.webhooks FROM provider_slots s WHERE s.job_id = ?0 AND s.pool_id = ?1 AND `+slotHeldSQL+`),
		counted AS (
			UPDATE provider_slots s SET webhooks = s.webhooks + 1
			WHERE s.job_id = ?0 AND s.pool_id = ?1 AND s.webhooks < ?2 AND `+slotHeldSQL+`
			RETURNING s.job_id)
		SELECT EXISTS (SELECT FROM counted) FROM slot`, job, pool, most).Scan(ctx, &counted)
	return counted, err
}

// WebhookState is what is known of the webhooks about a job.
type WebhookState struct {
	PoolID models.PoolID `bun:"pool_id"`
	// Webhooks is how many came since a worker last took the job.
	Webhooks int `bun:"webhooks"`
}

// GetWebhookState returns what is known of the webhooks about a job at a hosted provider. It returns sql.ErrNoRows
// if no worker has the job there.
func GetWebhookState(ctx context.Context, db bun.IDB, job models.JobID) (s WebhookState, err error) {
	err = db.NewRaw("SELECT pool_id, webhooks FROM provider_slots WHERE job_id = ? AND expires_at IS NULL", job).Scan(ctx, &s)
	return s, err
}
