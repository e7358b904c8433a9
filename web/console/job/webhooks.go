package job

import (
	"context"
	"slices"

	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/webhooks"
	webhookpages "github.com/reelay/reelay/web/console/webhooks"
)

// webhooksShown is the number of a job's webhooks on its page.
const webhooksShown = 20

func (c *controller) readWebhooks(ctx context.Context, p jobs.Principal, v *jobView) error {
	page, err := c.Reads.Webhooks.Deliveries(ctx, p, webhooks.DeliveryFilter{JobID: v.ID}, paging.Request{First: webhooksShown})
	if err != nil || len(page.Items) == 0 {
		return err
	}
	v.Webhooks = page.Items
	v.Tries, err = webhookpages.ReadTries(ctx, c.Reads, p, page.Items)
	return err
}

// delivering reports whether a webhook is pending.
func (v *jobView) delivering() bool {
	return slices.ContainsFunc(v.Webhooks, func(d *webhooks.Delivery) bool { return d.State == webhooks.DeliveryPending })
}
