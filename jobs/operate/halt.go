package operate

import (
	"context"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// MaxHaltReasonRunes bounds the reason of a halt, in characters.
const MaxHaltReasonRunes = 200

// Halt stops all schedules, all leases, or both, in all processes, and returns what is halted
// then. No slot of a schedule fires, or no worker gets a job; what runs continues, and new jobs
// are accepted. What is halted already keeps who halted it, when and why. The reason has 1 to 200
// characters; owners of waiting jobs see it, too.
func (o *QueueOperator) Halt(ctx context.Context, p jobs.Principal, what []models.HaltTarget, reason string) ([]models.Halt, error) {
	if reason = strings.TrimSpace(reason); !text.Valid(reason, 1, MaxHaltReasonRunes) {
		return nil, apierror.Invalid("reason", "Say why, in 1 to %d printable characters: the owners of waiting jobs see it.", MaxHaltReasonRunes)
	}
	return o.setHalts(ctx, p, "halt", what, jobs.Payload{"reason": reason}, func(ctx context.Context, tx bun.Tx) error {
		return models.InsertHalts(ctx, tx, what, p.Actor(), reason)
	})
}

// Resume lifts halts, and returns what is still halted. Waiting workers get jobs within a second.
// Each schedule treats the slots of the halt by its rule for slots that no process could fire.
func (o *QueueOperator) Resume(ctx context.Context, p jobs.Principal, what []models.HaltTarget) ([]models.Halt, error) {
	left, err := o.setHalts(ctx, p, "resume", what, jobs.Payload{}, func(ctx context.Context, tx bun.Tx) error {
		return models.DeleteHalts(ctx, tx, what)
	})
	if err == nil {
		o.Notifier.Waiters.Look() // other processes look by themselves
	}
	return left, err
}

func (o *QueueOperator) setHalts(
	ctx context.Context, p jobs.Principal, action string, what []models.HaltTarget, more jobs.Payload, set func(context.Context, bun.Tx) error,
) (left []models.Halt, err error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	if len(what) == 0 || len(what) > len(models.HaltTargets) {
		return nil, apierror.Invalid("what", "Name SCHEDULES, LEASES, or both.")
	}
	names := make([]string, len(what))
	for i, target := range what {
		if names[i] = string(target); !slices.Contains(models.HaltTargets, target) {
			return nil, apierror.Invalid("what", "Only SCHEDULES and LEASES can be halted.")
		}
	}
	err = jobs.InTx(ctx, o.DB, func(ctx context.Context, tx bun.Tx) error {
		if err := set(ctx, tx); err != nil {
			return err
		}
		if err := p.Audit(ctx, tx, action, strings.Join(names, ", "), more); err != nil {
			return err
		}
		left, err = models.ListHalts(ctx, tx)
		return err
	})
	return left, apierror.Wrap(err, "%s %s", action, strings.Join(names, " and "))
}
