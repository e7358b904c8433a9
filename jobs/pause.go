package jobs

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// PauseQueue has no worker be given jobs of a lane, or of one model in it, from
// now on. Those that run go on, and jobs are accepted as before.
func (o *Operator) PauseQueue(ctx context.Context, p Principal, lane models.Tier, model string) (*models.QueueCount, error) {
	return o.setPause(ctx, p, lane, model, true)
}

// ResumeQueue ends a pause of just that lane, or of one model in it. A model
// whose lane is paused whole is a CONFLICT; what was paused by itself in a lane
// stays so when the lane is resumed.
func (o *Operator) ResumeQueue(ctx context.Context, p Principal, lane models.Tier, model string) (*models.QueueCount, error) {
	return o.setPause(ctx, p, lane, model, false)
}

func (o *Operator) setPause(ctx context.Context, p Principal, lane models.Tier, model string, paused bool) (*models.QueueCount, error) {
	if err := p.isOperator(); err != nil {
		return nil, err
	}
	if _, known := Policies[lane]; !known {
		return nil, invalid("tier", "There is no such tier.")
	}
	if model != "" {
		if _, err := o.Catalogue.Model(model); err != nil {
			return nil, err
		}
	}
	action := map[bool]string{true: "pauseQueue", false: "resumeQueue"}[paused]
	err := inTx(ctx, o.DB, func(ctx context.Context, tx bun.Tx) error {
		err := models.SetQueuePause(ctx, tx, &models.QueuePause{Lane: lane, Model: model, Paused: paused, ChangedBy: string(p.KeyID)})
		if err != nil {
			return err
		}
		return p.audit(ctx, tx, action, string(lane), payload{"model": model})
	})
	if err != nil {
		return nil, wrap(err, "pause or resume the queue %s %s", lane, model)
	}
	count, err := models.CountQueue(ctx, o.DB, lane, model)
	if err != nil {
		return nil, wrap(err, "count the queue %s %s", lane, model)
	}
	if !paused && count.Paused {
		return nil, conflict("The whole lane is paused: resume it without naming a model.")
	}
	o.Notifier.Waiters.Look()
	return count, nil
}
