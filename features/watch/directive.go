package watch

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
)

// Directives calls send with the current directive for the calling worker, even if it is only
// CONTINUE, and then with each new one. It returns nil after a TERMINATE, NOT_FOUND for a
// worker that is not the caller, and send's error if it fails.
//
// It only makes a directive arrive sooner: the answer to each heartbeat has the same one.
// Sending a CANCEL counts as its delivery.
func (w *Watcher) Directives(ctx context.Context, p jobs.Principal, id models.WorkerID, send func(*lease.Directive) error) error {
	if err := p.RequireWorker(id); err != nil {
		return err
	}
	// Notifications of changes after the first look must not be missed.
	news, stop := subscribe(ctx, w.Notifications, string(id))
	defer stop()
	var sent []lease.Directive
	for {
		wanted, err := w.wanted(ctx, id)
		if err != nil {
			return err
		}
		for _, d := range wanted {
			if slices.Contains(sent, d) {
				continue
			}
			if err := w.direct(ctx, d, send); err != nil || d.Action == lease.DirectTerminate {
				return err
			}
		}
		sent = wanted
		if err := pause(ctx, 0, news); err != nil {
			return err
		}
	}
}

// wanted returns the current directives, at least one.
func (w *Watcher) wanted(ctx context.Context, id models.WorkerID) ([]lease.Directive, error) {
	l := &look{id: id}
	// The batch may contain looks of others: it must not wait for one caller's read.
	err := w.looks.Do(postgres.WithoutRead(ctx), l, w.lookAll)
	if err == nil && l.row == nil {
		err = apierror.NotFound("worker")
	}
	if err != nil {
		return nil, apierror.Wrap(err, "watch worker %s", id)
	}
	row := l.row
	if row.Status == models.WorkerTerminated {
		return []lease.Directive{{Action: lease.DirectTerminate, Reason: "this worker is terminated"}}, nil
	}
	row.DrainDeadline = row.DrainDeadline.UTC()
	return lease.Directives(row), nil
}

// look is one worker whose directives are looked up, and what is asked of it.
type look struct {
	id  models.WorkerID
	row *models.Wanted // nil if there is no such worker
}

// lookAll looks up the directives of several workers. Those that were looked up together look
// again at the same time, so thousands of workers soon need few statements.
func (w *Watcher) lookAll(ctx context.Context, all []*look) error {
	ids := make([]models.WorkerID, len(all))
	for i, l := range all {
		ids[i] = l.id
	}
	rows, err := models.ListWanted(ctx, w.DB, ids, lease.YieldWithin)
	if err != nil {
		return batch.Final(err)
	}
	found := lo.KeyBy(rows, func(r *models.Wanted) models.WorkerID { return r.WorkerID })
	for _, l := range all {
		if row := found[l.id]; row != nil {
			l.row = new(*row) // a worker can listen twice
		}
	}
	return nil
}

// direct sends one directive, and records that a cancel was delivered.
func (w *Watcher) direct(ctx context.Context, d lease.Directive, send func(*lease.Directive) error) error {
	if err := send(&d); err != nil || d.Action != lease.DirectCancel {
		return err
	}
	if err := models.DeliverCancel(ctx, w.DB, d.JobID); err != nil {
		return fmt.Errorf("note the delivery of job %s's cancel: %w", d.JobID, err)
	}
	w.Notifications.Publish(ctx, string(d.JobID))
	return nil
}
