package fleet

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// WorkerOperator performs an operator's actions on workers.
type WorkerOperator struct {
	DB        *bun.DB
	Notifier  *change.Notifier
	Providers map[string]Provider
}

// savesWithin is how long a drained worker has after its deadline to save a checkpoint and release
// its job: the notice of a preemption that agents expect by default.
const savesWithin = 30 * time.Second

var errTerminated = apierror.Conflict("The worker is already terminated.")

// DrainWorker asks a worker to take no more jobs. Its job may run until the deadline; then the
// worker has half a minute to save a checkpoint and release it. DrainWorker returns CONFLICT for a
// terminated worker.
func (o *WorkerOperator) DrainWorker(ctx context.Context, p jobs.Principal, id models.WorkerID, deadline time.Duration) (*models.Worker,
	error) {
	if err := operates(p, id); err != nil {
		return nil, err
	}
	if deadline < 0 || deadline > maxDrain {
		return nil, apierror.Invalid("deadlineSeconds", "deadlineSeconds must be from 0 to %.0f.", maxDrain.Seconds())
	}
	w, err := drain(ctx, o.DB, id, models.LeavesDrained, func(now time.Time) time.Time { return now.Add(deadline + savesWithin) },
		func(tx bun.Tx, w *models.Worker) error {
			if w.Status == models.WorkerTerminated {
				return errTerminated
			}
			return p.Audit(ctx, tx, "drainWorker", string(id), jobs.Payload{"deadlineSeconds": deadline.Seconds()})
		})
	if err == nil {
		o.Notifier.Worker(ctx, id)
	}
	return w, err
}

// Hosts reports whether TerminateWorker also ends the worker's machine.
func (o *WorkerOperator) Hosts(w *models.Worker) bool {
	return o.Providers[w.Provider] != nil && w.PoolID != ""
}

// Preempts reports whether PreemptWorker can preempt the worker's machine from this process. Only
// spot machines are preempted.
func (o *WorkerOperator) Preempts(w *models.Worker) bool {
	_, can := o.Providers[w.Provider].(Preemptor)
	return can && w.PoolID != "" && w.CapacityClass == models.CapacitySpot
}

// machine returns a worker's machine and its pool.
func (o *WorkerOperator) machine(ctx context.Context, w *models.Worker) (Instance, *capacity.Pool, error) {
	pools, err := capacity.GetPools(ctx, o.DB, []models.PoolID{w.PoolID})
	if err != nil || len(pools) == 0 {
		return Instance{}, nil, apierror.Wrap(cmp.Or(err, sql.ErrNoRows), "read the pool of worker %s", w.ID)
	}
	return Instance{ID: w.ProviderInstanceID, Zone: w.Zone, State: InstanceRunning}, pools[0], nil
}

// TerminateWorker ends a worker without notice. It also ends its machine if this process has its
// provider and no other worker is on the machine. The worker's job is queued again.
func (o *WorkerOperator) TerminateWorker(ctx context.Context, p jobs.Principal, id models.WorkerID) (*models.Worker, error) {
	if err := operates(p, id); err != nil {
		return nil, err
	}
	w, err := jobs.GetWorker(ctx, o.DB, id)
	if err != nil {
		return nil, err
	}
	if err := p.Audit(ctx, o.DB, "terminateWorker", string(id), jobs.Payload{"status": w.Status}); err != nil {
		return nil, err
	}
	if provider := o.Providers[w.Provider]; o.Hosts(w) && w.Status != models.WorkerTerminated {
		machine, pool, err := o.machine(ctx, w)
		if err != nil {
			return nil, err
		}
		all, err := models.ListMachineWorkers(ctx, o.DB, w.Provider, w.ProviderInstanceID)
		if err != nil {
			return nil, apierror.Wrap(err, "list the workers on the machine of %s", id)
		}
		if len(all) <= 1 {
			if err := provider.Delete(ctx, pool, []Instance{machine})[machine.ID]; err != nil {
				return nil, apierror.Conflict("The worker was not terminated: its provider %s could not end its machine: %s. Fix that, then terminate the worker again.",
					w.Provider, text.Clip(text.Printable(err.Error()), lease.MaxMessageBytes))
			}
		}
	}
	return terminateWorker(ctx, o.DB, o.Notifier, id, lease.Loss{Reason: models.LeavesTerminated, Blameless: true})
}

// maxNotice is the longest notice of a preemption.
const maxNotice = 120 * time.Second

// PreemptWorker does what a cloud does to a spot machine: it gives notice, and then ends the
// machine. It returns CONFLICT if the worker is terminated, or if this process does not have its
// provider.
func (o *WorkerOperator) PreemptWorker(ctx context.Context, p jobs.Principal, id models.WorkerID, notice time.Duration) (*models.Worker,
	error) {
	if err := operates(p, id); err != nil {
		return nil, err
	}
	if notice < 0 || notice > maxNotice {
		return nil, apierror.Invalid("noticeSeconds", "noticeSeconds must be from 0 to %.0f.", maxNotice.Seconds())
	}
	w, err := jobs.GetWorker(ctx, o.DB, id)
	if err != nil {
		return nil, err
	}
	if !o.Preempts(w) {
		return nil, apierror.Conflict("Only spot machines of providers that can preempt them are preempted; this one is %s, of the provider %s.",
			w.CapacityClass, text.Clip(w.Provider, 64))
	}
	// The signal contains no time: the worker learns its deadline from the drain.
	w, err = drain(ctx, o.DB, id, models.LeavesPreempted, func(now time.Time) time.Time { return now.Add(notice) },
		func(tx bun.Tx, w *models.Worker) error {
			if w.Status == models.WorkerTerminated {
				return errTerminated
			}
			return p.Audit(ctx, tx, "preemptWorker", string(id), jobs.Payload{"noticeSeconds": notice.Seconds()})
		})
	if err != nil {
		return nil, err
	}
	o.Notifier.Worker(ctx, id)
	if err := o.drainOthers(ctx, w); err != nil {
		return nil, err
	}
	machine, pool, err := o.machine(ctx, w)
	if err != nil {
		return nil, err
	}
	err = o.Providers[w.Provider].(Preemptor).Preempt(ctx, pool, machine, notice)
	if errors.Is(err, ErrNoInstance) {
		return w, nil // its agent has already left after the drain
	}
	if errors.Is(err, ErrProviderGone) {
		return nil, apierror.Conflict("The worker drains; its provider is shutting down, and ends its machine.")
	}
	if err != nil {
		return nil, apierror.Conflict("The worker drains, but its provider %s could not preempt its machine: %s.", w.Provider,
			text.Clip(text.Printable(err.Error()), lease.MaxMessageBytes))
	}
	return w, nil
}

// drainOthers drains the other workers on a worker's machine, with the same deadline.
func (o *WorkerOperator) drainOthers(ctx context.Context, w *models.Worker) error {
	all, err := models.ListMachineWorkers(ctx, o.DB, w.Provider, w.ProviderInstanceID)
	if err != nil {
		return apierror.Wrap(err, "list the workers on the machine of %s", w.ID)
	}
	for _, other := range all {
		if other.ID == w.ID {
			continue
		}
		if _, err := drain(ctx, o.DB, other.ID, w.DrainReason, func(time.Time) time.Time { return w.DrainDeadline }, nil); err != nil {
			return err
		}
		o.Notifier.Worker(ctx, other.ID)
	}
	return nil
}

func operates(p jobs.Principal, id models.WorkerID) error {
	if err := p.RequireOperator(); err != nil {
		return err
	}
	if !id.Valid() {
		return apierror.NotFound("worker")
	}
	return nil
}
