package change

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/tracing"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// Save writes the job, and what its end means for the jobs that depend on it.
func (c *Change) Save(ctx context.Context) error {
	return SaveAll(ctx, c.Tx, []*Change{c}, models.Writes{})
}

// SaveAll is save for many changes of one transaction, together with the writes in w.
func SaveAll(ctx context.Context, tx bun.Tx, changes []*Change, w models.Writes) error {
	if err := settlePauses(ctx, tx, changes); err != nil {
		return err
	}
	if err := Reuse(ctx, tx, lo.Filter(changes, func(c *Change, _ int) bool { return c.From != models.JobQueued })); err != nil {
		return err
	}
	if err := PlaceAll(ctx, tx, changes); err != nil {
		return err
	}
	if err := settleAll(ctx, tx, changes); err != nil {
		return err
	}
	return WriteAll(ctx, tx, changes, w, nil)
}

const (
	// countedAtOnce is how many jobs one statement may write and count. A longer one would hold the
	// accounts for as long as it writes.
	countedAtOnce = 50
	// announcedLast is how many ends may be announced while their accounts are held. Each of them is
	// announced to the endpoints that were made by then.
	announcedLast = 10
)

// WriteAll writes changes, together with the writes in w. The dependents are written. It runs the
// same few statements for one change as for fifty, and a few more for each job that enters a lane or
// fails for good.
//
// The rows for which the leases and ends of other jobs wait come last, however many jobs there are:
// the workflows, the accounts, and their places in the lines. Before these it calls last, if that is
// not nil, which locks other jobs.
func WriteAll(ctx context.Context, tx bun.Tx, changes []*Change, w models.Writes, last func() error) error {
	w = RowsOf(changes, w)
	over := EndedBy(changes)
	if len(changes) > countedAtOnce || len(over) > announcedLast ||
		slices.ContainsFunc(changes, func(c *Change) bool { return c.dead != nil }) {
		if err := WriteRows(ctx, tx, changes, w); err != nil {
			return err
		}
		w = models.Writes{Starts: w.Starts}
	}
	if len(over) > announcedLast {
		if err := Announce(ctx, tx, changes); err != nil {
			return err
		}
	}
	if err := sayReady(ctx, tx, changes); err != nil {
		return err
	}
	if last != nil {
		if err := last(); err != nil {
			return err
		}
	}
	if err := countWorkflows(ctx, tx, changes); err != nil {
		return err
	}
	w.Count = countersOf(changes)
	if counts := len(w.Count.Accounts)+len(w.Count.Left) > 0 || w.Starts.Counted(); counts || len(w.Jobs) > 0 {
		if err := w.Write(ctx, tx); err != nil {
			return fmt.Errorf("write the jobs, their events and the counters: %w", err)
		}
	}
	counted(changes, w.Count)
	if err := enterLanes(ctx, tx, changes); err != nil {
		return err
	}
	if len(over) > announcedLast {
		return nil
	}
	return Announce(ctx, tx, changes)
}

// RowsOf adds the rows of changes to w.
func RowsOf(changes []*Change, w models.Writes) models.Writes {
	for _, c := range changes {
		w.Jobs, w.Events = append(w.Jobs, models.Changed[models.Job]{Was: &c.Before, Is: c.Job}), append(w.Events, c.Events...)
	}
	return w
}

// WriteRows writes the jobs, the dead letters and all else that is not counted.
func WriteRows(ctx context.Context, tx bun.Tx, changes []*Change, w models.Writes) error {
	w.Starts = models.Starts{}
	jobs, events := w.Jobs, w.Events
	for len(jobs) > 0 {
		n := min(len(jobs), postgres.BatchRows)
		w.Jobs, jobs = jobs[:n], jobs[n:]
		n = min(len(events), 2*postgres.BatchRows)
		if len(jobs) == 0 {
			n = len(events)
		}
		w.Events, events = events[:n], events[n:]
		if err := w.Write(ctx, tx); err != nil {
			return fmt.Errorf("write the jobs and their events: %w", err)
		}
		w = models.Writes{}
	}
	var untried []*models.DeadLetter
	for _, c := range changes {
		if c.dead == nil {
			continue
		}
		if c.From == models.JobBlocked {
			untried = append(untried, c.dead)
		} else if err := models.InsertDeadLetter(ctx, tx, c.dead); err != nil {
			return fmt.Errorf("write the dead letter: %w", err)
		}
	}
	err := postgres.InBatches(untried, func(some []*models.DeadLetter) error { return models.InsertUntriedDeadLetters(ctx, tx, some) })
	return apierror.Wrap(err, "write the dead letters")
}

// EndedBy returns the jobs that end by changes, and the dependents that fail with them.
func EndedBy(changes []*Change) (over []*models.Job) {
	for _, c := range changes {
		for _, one := range append([]*Change{c}, c.others...) {
			if one.ended() {
				over = append(over, one.Job)
			}
		}
	}
	return over
}

// trace records the spans that a committed change ends: the wait in the queue, and the attempt.
// An attempt's span links to that of the attempt before it.
func (c *Change) trace() {
	job := c.Job
	if job.Traceparent == "" || !tracing.Enabled() {
		return
	}
	id, run := tracing.String("reelay.job", job.ID), tracing.Int("reelay.run", job.Run)
	if c.From == models.JobQueued && job.Status == models.JobAssigned {
		tracing.Record(tracing.Span{
			Parent: job.Traceparent, Name: "queue", From: job.QueuedAt, To: job.LeasedAt,
			Attrs: []tracing.Attr{id, run, tracing.String("reelay.lane", job.Lane), tracing.String("reelay.model", job.Model)},
		})
	}
	if c.Ending == nil {
		return
	}
	attempt := c.Ending.Attempt
	span := tracing.Span{
		Parent: job.Traceparent, Name: "attempt", From: attempt.LeasedAt, To: attempt.EndedAt,
		ID: tracing.AttemptID(string(job.ID), attempt.AttemptNo), Failed: attempt.Status == models.AttemptFailed ||
			attempt.Status == models.AttemptLost,
		Attrs: []tracing.Attr{
			id, run, tracing.String("reelay.attempt", attempt.ID), tracing.Int("reelay.attempt_no", attempt.AttemptNo),
			tracing.String("reelay.worker", attempt.WorkerID),
			tracing.String("reelay.attempt_status", attempt.Status), tracing.String("reelay.failure_class", attempt.FailureClass),
		},
	}
	if attempt.AttemptNo > 1 {
		span.Link = tracing.AttemptID(string(job.ID), attempt.AttemptNo-1)
	}
	tracing.Record(span)
}
