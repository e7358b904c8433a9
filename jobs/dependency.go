package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// settleBatch is how many rows one statement writes.
const settleBatch = 500

// settleAll settles the dependents of the jobs that end by changes. The rows of the ended jobs
// are locked, and written later.
func settleAll(ctx context.Context, tx bun.Tx, changes []*Change) error {
	over := map[models.JobID]*Change{}
	for _, c := range changes {
		if c.ended() {
			over[c.job.ID] = c
		}
	}
	if len(over) == 0 {
		return nil
	}
	awaited, err := models.ListAwaited(ctx, tx, slices.Collect(maps.Keys(over)))
	if err != nil {
		return fmt.Errorf("find the parents of jobs: %w", err)
	}
	for _, id := range awaited {
		if err := over[id].settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle changes the dependents of a job in the transaction that ends it. If the job is
// COMPLETED, it releases those that wait for nothing else; otherwise all its descendants fail.
// There may be thousands, so they are written together. The caller updates counters and lanes.
func (c *Change) settle(ctx context.Context) error {
	lock := models.LockDescendants
	if c.job.Status == models.JobCompleted {
		lock = models.LockDependents
	}
	waiting, err := lock(ctx, c.tx, c.job.ID)
	if err != nil {
		return fmt.Errorf("find the jobs that wait for job %s: %w", c.job.ID, err)
	}
	for _, dependent := range waiting {
		child := changeAt(c.tx, c.now, &dependent.Job)
		if err := child.parentOver(c.job, dependent.Parent); err != nil {
			return err
		}
		c.others = append(c.others, child)
	}
	return apierror.Wrap(c.writeOthers(ctx), "update the jobs that wait for job %s", c.job.ID)
}

// writeOthers writes the dependents with their events and dead letters.
func (c *Change) writeOthers(ctx context.Context) error {
	var dead []*models.DeadLetter
	for _, child := range c.others {
		if child.dead != nil {
			dead = append(dead, child.dead)
		}
	}
	if err := placeAll(ctx, c.tx, c.others); err != nil {
		return err
	}
	if err := inBatches(c.others, func(some []*Change) error {
		var w models.Writes
		for _, child := range some {
			w.Jobs = append(w.Jobs, models.Changed[models.Job]{Was: &child.before, Is: child.job})
			w.Events = append(w.Events, child.events...)
		}
		return w.Write(ctx, c.tx)
	}); err != nil {
		return fmt.Errorf("write the jobs: %w", err)
	}
	if err := inBatches(dead, func(some []*models.DeadLetter) error { return models.InsertUntriedDeadLetters(ctx, c.tx, some) }); err != nil {
		return fmt.Errorf("write the dead letters: %w", err)
	}
	return nil
}

// place is an account's place in a line.
type place struct {
	account models.AccountID
	line    models.Line
}

// before compares places in the order in which transactions lock them: by account, then from
// the lowest lane up, the direction in which jobs are promoted.
func (p place) before(other place) int {
	return cmp.Or(
		cmp.Compare(p.account, other.account),
		cmp.Compare(slices.Index(models.Tiers, other.line.Lane), slices.Index(models.Tiers, p.line.Lane)),
		cmp.Compare(lo.Ternary(p.line.Promoted, 1, 0), lo.Ternary(other.line.Promoted, 1, 0)))
}

// enterLanes counts the jobs that are newly queued by these changes and their dependents, and
// writes their outbox messages.
func enterLanes(ctx context.Context, tx bun.Tx, changes []*Change) error {
	var ready []*models.Job
	places := map[place][]*Change{}
	for _, c := range changes {
		for _, one := range append([]*Change{c}, c.others...) {
			if one.enters() {
				at := place{one.job.AccountID, one.job.Line()}
				places[at] = append(places[at], one)
				ready = append(ready, one.job)
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(places), place.before) {
		queued := places[p]
		at, err := models.EnterLane(ctx, tx, p.account, p.line, len(queued))
		if err != nil {
			return fmt.Errorf("enter the lane: %w", err)
		}
		for _, c := range queued {
			c.ready = readyJob(c.job, at)
		}
	}
	if err := inBatches(readyMessages(ready), func(some []*models.OutboxMessage) error { return models.InsertOutbox(ctx, tx, some...) }); err != nil {
		return fmt.Errorf("write the outbox: %w", err)
	}
	return nil
}

func inBatches[T any](rows []T, write func([]T) error) error {
	for some := range slices.Chunk(rows, settleBatch) {
		if err := write(some); err != nil {
			return err
		}
	}
	return nil
}

// parentOver applies the end of a parent to a blocked job. If over is COMPLETED, the job is
// released unless it waits for another. Otherwise it fails with its parent, which is over
// itself or one that fails with it.
func (c *Change) parentOver(over *models.Job, parent models.JobID) error {
	if over.Status != models.JobCompleted {
		status := over.Status
		if parent != over.ID {
			status = models.JobFailed
		}
		return c.failed(models.FailDependency, fmt.Sprintf("it depends on job %s, which is %s", parent, status))
	}
	c.job.BlockedBy--
	return c.unblock()
}

// unblock queues a blocked job unless it waits for another job or for its start time.
func (c *Change) unblock() error {
	if c.job.BlockedBy > 0 || c.job.RunAt.After(c.now) {
		return nil
	}
	if err := c.queued(false); err != nil {
		return err
	}
	c.note(models.EventQueued, Payload{"lane": c.job.Lane})
	return nil
}

// dependencies are what a new run waits for: the number of its parents that are not COMPLETED,
// one that never will be, and whether images must be fetched.
type dependencies struct {
	open   int
	failed *models.Job
	fetch  bool
}

// count returns the value for blocked_by.
func (d dependencies) count() int { return d.open + lo.Ternary(d.fetch, 1, 0) }

func reckonDependencies(parents []*models.Job) (d dependencies) {
	for _, parent := range parents {
		switch parent.Status {
		case models.JobCompleted:
		case models.JobFailed, models.JobCancelled:
			d.failed = parent
			d.open++
		default:
			d.open++
		}
	}
	return d
}
