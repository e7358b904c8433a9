package watch

import (
	"context"
	"time"

	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// minWebhooksEvery is the shortest time between two hints about a job: each is a call at its provider.
const minWebhooksEvery = time.Second

// Webhooks calls send with how many webhooks a hosted provider has sent about a job, unless it is none, and then
// with each new number, at most once a second. It returns nil once no worker has the job there, NOT_FOUND if none
// had it at first, and send's error if it fails. The caller needs an enrolment key.
func (w *Watcher) Webhooks(ctx context.Context, p jobs.Principal, id models.JobID, send func(int) error) error {
	news, stop := subscribe(ctx, w.Notifications, string(id))
	defer stop()
	for sent, first := 0, true; ; first = false {
		state, err := hosted.WebhookState(ctx, w.DB, p, id)
		if !first && apierror.HasCode(err, apierror.CodeNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if state.Webhooks > sent {
			if err := send(state.Webhooks); err != nil {
				return err
			}
			sent = state.Webhooks
		}
		if err := pause(ctx, minWebhooksEvery, news); err != nil {
			return err
		}
	}
}
