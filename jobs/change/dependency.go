package change

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

const (
	// settleMost bounds the waiting jobs that one transaction changes because of the ends of
	// others. Their rows are locked meanwhile, and other ends may wait for them. The Settler takes
	// the rest.
	settleMost = 100
	// maxParentRetries bounds how often a job is retried because dependents demand it.
	maxParentRetries = 2
)

// settleAll changes the dependents of the jobs that end by changes. The rows of the ended jobs
// are locked, and written later.
//
// The dependents of a COMPLETED job wait for one job less. Those of any other fail or run
// anyway, as their policies say, unless one of them demands that the job is retried. They are
// read and written together. Of thousands, the most are left to the Settler. The caller updates
// counters and lanes.
func settleAll(ctx context.Context, tx bun.Tx, changes []*Change) error {
	over := map[models.JobID]*Change{}
	for _, c := range changes {
		if c.ended() {
			over[c.Job.ID] = c
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
	return (&Settlement{Over: over}).Run(ctx, tx, awaited)
}

// Settlement is what the ends of jobs mean for the jobs that wait for them.
type Settlement struct {
	Over map[models.JobID]*Change
	// Final means that none of them is retried for its dependents.
	Final bool
	// taken, if not nil, are the dependencies on them that are to be settled. Otherwise all are.
	taken    []models.JobDependency
	waiting  map[models.JobID]*Change
	children map[models.JobID][]models.JobDependency
	changed  []*Change
	// more means that others may wait.
	more bool
	// left is how many dependencies are left to the Settler.
	left int
}

// Run settles the ends of awaited jobs, and adds the changes to the first of these.
func (s *Settlement) Run(ctx context.Context, tx bun.Tx, awaited []models.JobID) error {
	failed := lo.Filter(awaited, func(id models.JobID, _ int) bool { return s.Over[id].Job.Status != models.JobCompleted })
	if err := s.lock(ctx, tx, nil, awaited, failed); err != nil {
		return err
	}
	if err := s.settle(ctx, tx, awaited); err != nil {
		return err
	}
	first := s.Over[awaited[0]]
	first.Due = first.Due || s.left > 0
	if len(s.changed) == 0 {
		return nil
	}
	first.others = append(first.others, s.changed...)
	return apierror.Wrap(WriteOthers(ctx, tx, s.changed), "update the jobs that wait for others")
}

// lock locks these jobs, and those that the ends of others can change, as far as they wait. Their
// time is read under their locks: it is not before the ends of parents for which these locks waited.
func (s *Settlement) lock(ctx context.Context, tx bun.Tx, ids, ended, failed []models.JobID) error {
	if s.waiting == nil {
		s.waiting = map[models.JobID]*Change{}
	}
	if len(ended)+len(failed) > 0 {
		found, err := models.FindWaiting(ctx, tx, ended, failed, settleMost)
		if err != nil {
			return fmt.Errorf("find the jobs that wait for others: %w", err)
		}
		s.more = s.more || len(found) >= settleMost
		ids = append(ids, found...)
	}
	// A job in over ends with its parent.
	ids = lo.Filter(lo.Uniq(ids), func(id models.JobID, _ int) bool { return s.Over[id] == nil && s.waiting[id] == nil })
	if len(ids) == 0 {
		return nil
	}
	locked, err := models.LockBlocked(ctx, tx, ids)
	if err != nil || len(locked) == 0 {
		return apierror.Wrap(err, "lock the jobs that wait for others")
	}
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return err
	}
	for _, job := range locked {
		if job.Reuse && s.taken == nil { // what it takes from a parent is not written yet
			s.more = true
			continue
		}
		s.waiting[job.ID] = At(tx, now, job)
	}
	return s.link(ctx, tx)
}

// link reads which of the locked jobs depend on the ended ones, and on each other.
func (s *Settlement) link(ctx context.Context, tx bun.Tx) error {
	ids := slices.Collect(maps.Keys(s.waiting))
	on := ids
	if s.taken == nil {
		on = append(slices.Clone(ids), slices.Collect(maps.Keys(s.Over))...)
	}
	edges, err := models.ListDependenciesOn(ctx, tx, ids, on)
	if err != nil {
		return fmt.Errorf("read what the jobs wait for: %w", err)
	}
	s.children = map[models.JobID][]models.JobDependency{}
	for _, edge := range slices.Concat(s.taken, edges) {
		if s.waiting[edge.JobID] != nil {
			s.children[edge.DependsOn] = append(s.children[edge.DependsOn], edge)
		}
	}
	return nil
}

// settle fails what fails with its parents first, since a job may have other parents on which it
// would run anyway.
func (s *Settlement) settle(ctx context.Context, tx bun.Tx, awaited []models.JobID) error {
	ended, err := s.withoutRetried(ctx, tx, awaited)
	if err != nil {
		return err
	}
	parents := len(ended)
	failing := lo.Filter(ended, func(c *Change, _ int) bool { return c.Job.Status != models.JobCompleted })
	for unchecked := ended; len(unchecked) > 0; {
		failed, err := s.cascade(failing)
		if err != nil {
			return err
		}
		ended, unchecked = append(ended, failed...), append(slices.Clone(unchecked), failed...)
		if failing, err = s.failUnfit(ctx, tx, unchecked); err != nil {
			return err
		}
		ended, unchecked = append(ended, failing...), failing
	}
	if err := s.release(ended); err != nil || !s.more {
		return err
	}
	if s.taken != nil { // those of the parents are recorded
		ended = ended[parents:]
	}
	id := func(c *Change, _ int) models.JobID { return c.Job.ID }
	s.left, err = models.LeaveUnsettled(ctx, tx, lo.Map(ended, id), slices.Collect(maps.Keys(s.waiting)))
	return apierror.Wrap(err, "leave the other jobs that wait for others")
}

// withoutRetried returns the changes of these jobs, without those of jobs that are retried for a
// dependent. Another run helps only against failures of its own work.
func (s *Settlement) withoutRetried(ctx context.Context, tx bun.Tx, awaited []models.JobID) (ended []*Change, err error) {
	var demanded []models.JobID
	if can := lo.Filter(awaited, func(id models.JobID, _ int) bool { return !s.Final && s.Over[id].helpsToRetry() }); len(can) > 0 {
		if demanded, err = models.ListDemanded(ctx, tx, can, maxParentRetries); err != nil {
			return nil, fmt.Errorf("find the jobs that want others retried: %w", err)
		}
	}
	for _, id := range awaited {
		c := s.Over[id]
		if !slices.Contains(demanded, id) {
			ended = append(ended, c)
			continue
		}
		if err := models.InsertParentRetry(ctx, tx, models.ParentRetry{JobID: id, Run: c.Job.Run}); err != nil {
			return nil, fmt.Errorf("have job %s retried for its dependents: %w", id, err)
		}
	}
	return ended, nil
}

// helpsToRetry reports whether another run of a job that ends can end better.
func (c *Change) helpsToRetry() bool {
	if c.Job.Status != models.JobFailed {
		return false
	}
	switch c.Job.FailureClass {
	case models.FailDependency, models.FailInvalidInput, models.FailContentPolicy, models.FailUnauthorized, models.FailBudget,
		models.FailRejected:
		return false
	}
	return true
}

// release lets the jobs that wait for ended ones wait for so many less.
func (s *Settlement) release(ended []*Change) error {
	var released []*Change
	for _, parent := range ended {
		for _, edge := range s.children[parent.Job.ID] {
			child := s.waiting[edge.JobID]
			if child.ended() {
				continue
			}
			if child.Job.BlockedBy == child.Before.BlockedBy {
				released = append(released, child)
			}
			child.Job.BlockedBy--
		}
	}
	slices.SortFunc(released, func(a, b *Change) int { return cmp.Compare(a.Job.ID, b.Job.ID) })
	for _, child := range released {
		if err := child.Unblock(); err != nil {
			return err
		}
	}
	s.changed = append(s.changed, released...)
	return nil
}

// cascade fails the jobs that fail with others, and returns them.
func (s *Settlement) cascade(failing []*Change) (failed []*Change, err error) {
	for len(failing) > 0 {
		parent := failing[0]
		failing = failing[1:]
		for _, edge := range s.children[parent.Job.ID] {
			child := s.waiting[edge.JobID]
			if edge.OnFailure == models.FailureContinue || child.ended() {
				continue
			}
			if err := child.Failed(models.FailDependency, DependencyReason(parent.Job)); err != nil {
				return nil, err
			}
			s.changed, failed, failing = append(s.changed, child), append(failed, child), append(failing, child)
		}
	}
	return failed, nil
}

// failUnfit fails the jobs that wait for parents, which have ended, and cannot take from them what
// they need. It returns them, and locks what may fail with them.
func (s *Settlement) failUnfit(ctx context.Context, tx bun.Tx, parents []*Change) (failed []*Change, err error) {
	var children []models.JobID
	for _, parent := range parents {
		for _, edge := range s.children[parent.Job.ID] {
			// An approval needs only one of its candidates.
			if child := s.waiting[edge.JobID]; !child.ended() && !child.Job.Approval() {
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
		if err := child.Failed(models.FailInvalidInput, reasons[id]); err != nil {
			return nil, err
		}
		s.changed, failed = append(s.changed, child), append(failed, child)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return failed, s.lock(ctx, tx, nil, ids, ids)
}

// DependencyReason says why a job ends with its parent: the end of a sentence.
func DependencyReason(parent *models.Job) string {
	return fmt.Sprintf("it depends on %s, which is %s", parent.ID, parent.Status)
}

// WriteOthers writes jobs that wait for others with their events and dead letters.
func WriteOthers(ctx context.Context, tx bun.Tx, others []*Change) error {
	var dead []*models.DeadLetter
	for _, child := range others {
		if child.dead != nil {
			dead = append(dead, child.dead)
		}
	}
	if err := PlaceAll(ctx, tx, others); err != nil {
		return err
	}
	if err := postgres.InBatches(others, func(some []*Change) error {
		var w models.Writes
		for _, child := range some {
			w.Jobs = append(w.Jobs, models.Changed[models.Job]{Was: &child.Before, Is: child.Job})
			w.Events = append(w.Events, child.Events...)
		}
		return w.Write(ctx, tx)
	}); err != nil {
		return fmt.Errorf("write the jobs: %w", err)
	}
	if err := postgres.InBatches(dead, func(some []*models.DeadLetter) error {
		return models.InsertUntriedDeadLetters(ctx, tx,
			some)
	}); err != nil {
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

// sayReady writes the outbox messages of the jobs that are newly queued by these changes and their
// dependents.
func sayReady(ctx context.Context, tx bun.Tx, changes []*Change) error {
	ready := lo.Map(entering(changes), func(c *Change, _ int) *models.Job { return c.Job })
	err := postgres.InBatches(ReadyMessages(ready), func(some []*models.OutboxMessage) error { return models.InsertOutbox(ctx, tx, some...) })
	return apierror.Wrap(err, "write the outbox")
}

// entering returns the changes, of these and their dependents, by which jobs are newly queued.
func entering(changes []*Change) (all []*Change) {
	for _, c := range changes {
		for _, one := range append([]*Change{c}, c.others...) {
			if one.enters() {
				all = append(all, one)
			}
		}
	}
	return all
}

// enterLanes counts the jobs that are newly queued by these changes and their dependents.
func enterLanes(ctx context.Context, tx bun.Tx, changes []*Change) error {
	places := lo.GroupBy(entering(changes), func(c *Change) place { return place{c.Job.AccountID, c.Job.Line()} })
	if len(places) > 1 {
		// Also those whose counters stay the same: a transaction that enters several lanes must hold
		// the locks of their accounts.
		accounts := lo.Uniq(lo.Map(slices.Collect(maps.Keys(places)), func(p place, _ int) models.AccountID { return p.account }))
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
			c.Ready = ReadyOf(c.Job, at)
		}
	}
	return nil
}

// Unblock queues a blocked job unless it waits for another job or for its start time.
func (c *Change) Unblock() error {
	c.Due = c.Due || c.Asks()
	if c.Job.BlockedBy > 0 || c.Job.RunAt.After(c.Now) {
		return nil
	}
	if err := c.Queued(false); err != nil {
		return err
	}
	c.Note(models.EventQueued, jobs.Payload{"lane": c.Job.Lane})
	return nil
}

// Dependencies are what a new run waits for: the number of its parents that are open, one whose
// end it cannot survive, whether images must be fetched, and whether it is an approval.
type Dependencies struct {
	Open     int
	Failed   *models.Job
	Fetch    bool
	Approval bool
}

// undecided counts what an approval waits for besides its parents: its question, and the answer.
const undecided = 2

// Count returns the value for blocked_by.
func (d Dependencies) Count() int {
	return d.Open + lo.Ternary(d.Fetch, 1, 0) + lo.Ternary(d.Approval, undecided, 0)
}

// Asks reports whether the job is an approval that waits only for its question to be asked.
func (c *Change) Asks() bool {
	return c.Job.Approval() && c.Job.Status == models.JobBlocked && c.Job.BlockedBy == undecided
}

// Parent is a job that another one depends on.
type Parent struct {
	*models.Job
	OnFailure models.FailurePolicy
}

// ReckonDependencies decides what a new run waits for, given its parents.
func ReckonDependencies(parents []Parent) (d Dependencies) {
	for _, p := range parents {
		switch {
		case p.Status == models.JobCompleted:
		case !p.Status.Terminal():
			d.Open++
		case p.OnFailure != models.FailureContinue:
			d.Failed = p.Job
			d.Open++
		}
	}
	return d
}
