package fleet

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// settled is how long a worker without a job must live after its registration before its machine
// counts as started, if the pool's last machine ended sooner.
const settled = time.Minute

// endedWhy returns why a machine has ended, as far as its provider knows.
func endedWhy(i Instance, when string) string {
	return cmp.Or(i.Cause, "its machine ended "+when)
}

// endBoot ends a worker whose machine did not start.
func (s *Scaler) endBoot(ctx context.Context, w *models.Worker, cause string) error {
	ended, err := lease.EndBoot(ctx, s.DB, w, cause)
	if ended {
		s.Notifier.Worker(ctx, w.ID)
	}
	return err
}

// endedEarly reports whether the machine of an idle worker ended by itself soon after its agent
// registered, before it completed a job. If it had a job, its end counts for its host instead.
func endedEarly(w *models.Worker, i Instance, now time.Time) bool {
	return w.Status == models.WorkerIdle && i.State == InstanceEnded && !i.Reclaimed && i.Err == nil &&
		w.JobsCompleted == 0 && now.Sub(w.RegisteredAt) < settled
}

// endEarly ends a worker whose machine ended soon after its agent registered, and counts the
// machine as not started.
func (s *Scaler) endEarly(ctx context.Context, pool *capacity.Pool, w *models.Worker, cause string) error {
	var done *change.Change
	err := jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		locked, err := capacity.LockAnyPool(ctx, tx, pool.ID, capacity.PoolsToWrite)
		if err != nil {
			return err
		}
		now, err := models.LockWorker(ctx, tx, w.ID)
		if err != nil {
			return err
		}
		if done, err = terminate(ctx, tx, w.ID, lease.Loss{Reason: "its machine is gone"}); err != nil || now.Status != models.WorkerIdle {
			return err
		}
		return lease.CountExit(ctx, tx, locked, w.ID, cause)
	})
	if err != nil {
		return fmt.Errorf("end worker %s: %w", w.ID, err)
	}
	s.Notifier.After(ctx, done)
	s.Notifier.Worker(ctx, w.ID)
	return nil
}

// settleBoots clears the boot failures of pools once one of their machines has lived for a while
// after its registration. The pools must be locked.
func settleBoots(ctx context.Context, tx bun.Tx, s snapshot) error {
	for _, p := range s.pools {
		if !p.pool.BootExits || p.pool.BootFailures == 0 {
			continue
		}
		for _, w := range p.workers {
			lives := w.Status == models.WorkerBusy || w.Status == models.WorkerIdle && (w.JobsCompleted > 0 || s.now.Sub(w.RegisteredAt) >= settled)
			if lives && w.RegisteredAt.After(p.pool.BootFailedAt) {
				p.pool.PoolBoots = capacity.PoolBoots{}
				if err := capacity.SetPoolBoots(ctx, tx, p.pool); err != nil {
					return fmt.Errorf("clear the failed boots of pool %s: %w", p.pool.Name, err)
				}
				break
			}
		}
	}
	return nil
}
