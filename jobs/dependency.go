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

// maxParentRetries bounds how often a job is retried because dependents demand it.
const maxParentRetries = 2

// settleAll changes the dependents of the jobs that end by changes. The rows of the ended jobs
// are locked, and written later.
//
// The dependents of a COMPLETED job wait for one job less. Those of any other fail or run
// anyway, as their policies say, unless one of them demands that the job is retried. There may
// be thousands, so they are read and written together. The caller updates counters and lanes.
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
	if len(awaited) == 0 {
		return nil
	}
	return (&settlement{over: over}).run(ctx, tx, awaited)
}

// settlement is what the ends of jobs mean for the jobs that wait for them.
type settlement struct {
	over map[models.JobID]*Change
	// final means that none of them is retried for its dependents.
	final    bool
	waiting  map[models.JobID]*Change
	children map[models.JobID][]models.JobDependency
	changed  []*Change
}

func (s *settlement) run(ctx context.Context, tx bun.Tx, awaited []models.JobID) error {
	s.waiting, s.children = map[models.JobID]*Change{}, map[models.JobID][]models.JobDependency{}
	if err := s.read(ctx, tx, awaited); err != nil {
		return err
	}
	if err := s.settle(ctx, tx, awaited); err != nil {
		return err
	}
	if len(s.changed) == 0 {
		return nil
	}
	first := s.over[awaited[0]]
	first.others = append(first.others, s.changed...)
	return apierror.Wrap(writeOthers(ctx, tx, s.changed), "update the jobs that wait for others")
}

func (s *settlement) read(ctx context.Context, tx bun.Tx, awaited []models.JobID) error {
	failed := lo.Filter(awaited, func(id models.JobID, _ int) bool { return s.over[id].job.Status != models.JobCompleted })
	waiting, edges, err := models.LockWaiting(ctx, tx, awaited, failed)
	if err != nil {
		return fmt.Errorf("find the jobs that wait for others: %w", err)
	}
	if err := s.wait(ctx, tx, waiting); err != nil {
		return err
	}
	for _, edge := range edges {
		if s.waiting[edge.JobID] != nil {
			s.children[edge.DependsOn] = append(s.children[edge.DependsOn], edge)
		}
	}
	return nil
}

// wait adds jobs that wait for others. Their time is read under their locks: it is not before the
// ends of parents for which these locks waited.
func (s *settlement) wait(ctx context.Context, tx bun.Tx, locked []*models.Job) error {
	added := lo.Filter(locked, func(j *models.Job, _ int) bool {
		return s.over[j.ID] == nil && s.waiting[j.ID] == nil // else it ends with its parent, or is known
	})
	if len(added) == 0 {
		return nil
	}
	now, err := models.Now(ctx, tx)
	for _, job := range added {
		s.waiting[job.ID] = changeAt(tx, now, job)
	}
	return err
}

// settle fails what fails with its parents first, since a job may have other parents on which it
// would run anyway.
func (s *settlement) settle(ctx context.Context, tx bun.Tx, awaited []models.JobID) error {
	var ended []*Change
	for _, id := range awaited {
		c := s.over[id]
		if s.retries(c) {
			if err := models.InsertParentRetry(ctx, tx, models.ParentRetry{JobID: id, Run: c.job.Run}); err != nil {
				return fmt.Errorf("have job %s retried for its dependents: %w", id, err)
			}
			continue
		}
		ended = append(ended, c)
	}
	failing := lo.Filter(ended, func(c *Change, _ int) bool { return c.job.Status != models.JobCompleted })
	for unchecked := ended; len(unchecked) > 0; {
		failed, err := s.cascade(failing)
		if err != nil {
			return err
		}
		ended, unchecked = append(ended, failed...), append(unchecked, failed...)
		if failing, err = s.failUnfit(ctx, tx, unchecked); err != nil {
			return err
		}
		ended, unchecked = append(ended, failing...), failing
	}
	var released []*Change
	for _, parent := range ended {
		for _, edge := range s.children[parent.job.ID] {
			child := s.waiting[edge.JobID]
			if child.ended() {
				continue
			}
			if child.job.BlockedBy == child.before.BlockedBy {
				released = append(released, child)
			}
			child.job.BlockedBy--
		}
	}
	slices.SortFunc(released, func(a, b *Change) int { return cmp.Compare(a.job.ID, b.job.ID) })
	for _, child := range released {
		if err := child.unblock(); err != nil {
			return err
		}
	}
	s.changed = append(s.changed, released...)
	return nil
}

// cascade fails the jobs that fail with others, and returns them.
func (s *settlement) cascade(failing []*Change) (failed []*Change, err error) {
	for len(failing) > 0 {
		parent := failing[0]
		failing = failing[1:]
		for _, edge := range s.children[parent.job.ID] {
			child := s.waiting[edge.JobID]
			if edge.OnFailure == models.FailureContinue || child.ended() {
				continue
			}
			if err := child.failed(models.FailDependency, dependencyReason(parent.job)); err != nil {
				return nil, err
			}
			s.changed, failed, failing = append(s.changed, child), append(failed, child), append(failing, child)
		}
	}
	return failed, nil
}

// failUnfit fails the jobs that wait for parents, which have ended, and cannot take from them what
// they need. It returns them, and locks what may fail with them.
func (s *settlement) failUnfit(ctx context.Context, tx bun.Tx, parents []*Change) (failed []*Change, err error) {
	var children []models.JobID
	for _, parent := range parents {
		for _, edge := range s.children[parent.job.ID] {
			if !s.waiting[edge.JobID].ended() {
				children = append(children, edge.JobID)
			}
		}
	}
	if len(children) == 0 {
		return nil, nil
	}
	reasons, err := unfit(ctx, tx, lo.Uniq(children), parents)
	if err != nil {
		return nil, err
	}
	ids := slices.Sorted(maps.Keys(reasons))
	for _, id := range ids {
		child := s.waiting[id]
		if err := child.failed(models.FailInvalidInput, reasons[id]); err != nil {
			return nil, err
		}
		s.changed, failed = append(s.changed, child), append(failed, child)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	below, edges, err := models.LockWaiting(ctx, tx, ids, ids)
	if err != nil {
		return nil, fmt.Errorf("find the jobs that wait for others: %w", err)
	}
	if err := s.wait(ctx, tx, below); err != nil {
		return nil, err
	}
	for _, edge := range edges {
		if s.waiting[edge.JobID] != nil && !slices.Contains(s.children[edge.DependsOn], edge) {
			s.children[edge.DependsOn] = append(s.children[edge.DependsOn], edge)
		}
	}
	return failed, nil
}

func dependencyReason(parent *models.Job) string {
	return fmt.Sprintf("it depends on job %s, which is %s", parent.ID, parent.Status)
}

// retries reports whether a job that ends is retried because a dependent demands it. Another run
// helps only against failures of its own work.
func (s *settlement) retries(c *Change) bool {
	if s.final || c.job.Status != models.JobFailed {
		return false
	}
	switch c.job.FailureClass {
	case models.FailDependency, models.FailInvalidInput, models.FailContentPolicy, models.FailUnauthorized, models.FailBudget:
		return false
	}
	return slices.ContainsFunc(s.children[c.job.ID], func(edge models.JobDependency) bool {
		return edge.OnFailure == models.FailureRetry && edge.ParentRetries < maxParentRetries
	})
}

// writeOthers writes jobs that wait for others with their events and dead letters.
func writeOthers(ctx context.Context, tx bun.Tx, others []*Change) error {
	var dead []*models.DeadLetter
	for _, child := range others {
		if child.dead != nil {
			dead = append(dead, child.dead)
		}
	}
	if err := placeAll(ctx, tx, others); err != nil {
		return err
	}
	if err := inBatches(others, func(some []*Change) error {
		var w models.Writes
		for _, child := range some {
			w.Jobs = append(w.Jobs, models.Changed[models.Job]{Was: &child.before, Is: child.job})
			w.Events = append(w.Events, child.events...)
		}
		return w.Write(ctx, tx)
	}); err != nil {
		return fmt.Errorf("write the jobs: %w", err)
	}
	if err := inBatches(dead, func(some []*models.DeadLetter) error { return models.InsertUntriedDeadLetters(ctx, tx, some) }); err != nil {
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
	if len(places) > 1 {
		// Also those whose counters stay the same: a transaction that enters several lanes must hold
		// the locks of their accounts.
		accounts := lo.Uniq(lo.Map(ready, func(j *models.Job, _ int) models.AccountID { return j.AccountID }))
		if _, _, err := models.LockAccounts(ctx, tx, accounts); err != nil {
			return fmt.Errorf("lock the accounts: %w", err)
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

// dependencies are what a new run waits for: the number of its parents that are open, one whose
// end it cannot survive, and whether images must be fetched.
type dependencies struct {
	open   int
	failed *models.Job
	fetch  bool
}

// count returns the value for blocked_by.
func (d dependencies) count() int { return d.open + lo.Ternary(d.fetch, 1, 0) }

// parent is a job that another one depends on.
type parent struct {
	*models.Job
	onFailure models.FailurePolicy
}

func reckonDependencies(parents []parent) (d dependencies) {
	for _, p := range parents {
		switch {
		case p.Status == models.JobCompleted:
		case !p.Status.Terminal():
			d.open++
		case p.onFailure != models.FailureContinue:
			d.failed = p.Job
			d.open++
		}
	}
	return d
}
