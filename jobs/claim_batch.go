package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// claimSize is how much of a batch one search is: so many more of them would read
// jobs by the square.
const claimSize = gatherSize / 32

// look looks for work, together with others that do: of two that come at once
// neither wins a job over which the other has stumbled.
func (l *Leaser) look(ctx context.Context, s *search) (*Lease, bool, error) {
	if err := l.looks.do(ctx, s, claimSize, l.lookAll); err != nil {
		return nil, false, err
	}
	return s.found.lease, s.found.passed, s.found.err
}

// lookAll runs the searches of one kind of worker, and leaves the others. alone
// are those behind which nobody waits.
func (l *Leaser) lookAll(ctx context.Context, all []*search, alone bool) (left [][]*search) {
	kinds := map[string][]*search{}
	for _, s := range all {
		kinds[s.kind] = append(kinds[s.kind], s)
	}
	first := kinds[all[0].kind]
	delete(kinds, all[0].kind)
	left = slices.Collect(maps.Values(kinds))
	if len(first) > 1 {
		return append(left, l.claimAll(ctx, first, alone)...)
	}
	s := first[0]
	s.patience = patienceOf(alone)
	lease, passed, err := s.run(ctx)
	if models.IsLockTimeout(err) && !alone {
		return append(left, first)
	}
	s.found = found{lease, passed, err}
	return left
}

// claimAll gives jobs to workers of one kind in the order in which they asked. It
// returns those that have to look again: together, with nobody behind them, if
// somebody else held a row for long, and else the first by itself, since what it
// finds is promoted, or held by others, or not for all of them. All by themselves
// would but stand in each other's way.
func (l *Leaser) claimAll(ctx context.Context, all []*search, alone bool) (left [][]*search) {
	for len(all) > 1 {
		served, none, err := l.claimSome(ctx, all, patienceOf(alone))
		if none {
			for _, s := range all {
				s.found = found{}
			}
			return nil
		}
		if models.IsLockTimeout(err) && !alone {
			return [][]*search{all}
		}
		if err != nil && !errors.Is(err, errTurn) && !models.IsOutage(err) && ctx.Err() == nil {
			slog.WarnContext(ctx, "jobs could not be given together", "error", err)
		}
		if err != nil || len(served) == 0 {
			break
		}
		all = slices.DeleteFunc(slices.Clone(all), func(s *search) bool { return slices.Contains(served, s) })
	}
	if len(all) < 2 {
		return [][]*search{all}
	}
	return [][]*search{all[:1], all[1:]}
}

// claimSome gives what can be given in one transaction, and returns those that
// were served. none tells that there are no jobs.
func (l *Leaser) claimSome(ctx context.Context, all []*search, patience time.Duration) (served []*search, none bool, err error) {
	lanes, err := models.ReadLanes(ctx, l.DB)
	if err != nil {
		return nil, false, fmt.Errorf("read the lanes: %w", err)
	}
	next, err := models.NextInOrder(ctx, l.DB, all[0].reach.queues(lanes), len(all))
	if err != nil || len(next) == 0 {
		return nil, err == nil, err
	}
	lane := lanes[slices.IndexFunc(lanes, func(s models.LaneState) bool { return s.Lane == next[0].Lane })]
	if !lane.Turn() {
		all = all[:min(len(all), models.PromotedEvery-1-lane.SincePromoted)]
	}
	if next[0].Promoted || len(all) < 2 {
		return nil, false, nil
	}
	b := &claimBatch{Leaser: l, searches: all, next: readyHints(next), lane: lane, patience: patience}
	err = inTx(ctx, l.DB, b.run)
	if err != nil {
		return nil, false, err
	}
	var changes []*change
	for s, a := range b.made {
		s.found = found{lease: a.lease}
		served, changes = append(served, s), append(changes, a.change)
		l.compare(a.job)
	}
	l.Notifier.after(ctx, changes...)
	return served, false, nil
}

// claimBatch is what one transaction gives.
type claimBatch struct {
	*Leaser
	searches []*search
	next     []ReadyJob // in their order
	lane     models.LaneState
	patience time.Duration // 0 is any

	room    map[models.AccountID]int // how many more each account may run
	workers map[models.WorkerID]*models.Worker
	jobs    map[models.JobID]*models.Job
	made    map[*search]*assignment
}

func (b *claimBatch) run(ctx context.Context, tx bun.Tx) error {
	if err := b.lock(ctx, tx); err != nil {
		return err
	}
	b.made = map[*search]*assignment{}
	var all []*assignment
	for _, s := range b.searches {
		w := b.workers[s.worker.ID]
		if w == nil || w.Status != models.WorkerIdle {
			continue // it sees that itself
		}
		job, err := b.pick(ctx, tx, s)
		if err != nil {
			return err
		}
		if job != nil {
			b.made[s] = &assignment{worker: w, job: job, requestID: s.requestID}
			all = append(all, b.made[s])
		}
	}
	if len(all) == 0 {
		return nil
	}
	if err := assignAll(ctx, tx, all); err != nil {
		return err
	}
	err := models.CountStarts(ctx, tx, b.lane.Lane, len(all), b.lane.Turn())
	if errors.Is(err, sql.ErrNoRows) {
		return errTurn
	}
	return err
}

func (b *claimBatch) lock(ctx context.Context, tx bun.Tx) (err error) {
	if err := models.BePatient(ctx, tx, b.patience); err != nil {
		return err
	}
	accounts := map[models.AccountID]bool{}
	var workerIDs []models.WorkerID
	var jobIDs []models.JobID
	for _, job := range b.next {
		accounts[job.Account] = true
		jobIDs = append(jobIDs, job.ID)
	}
	for _, s := range b.searches {
		workerIDs = append(workerIDs, s.worker.ID)
	}
	if b.room, err = models.LockAccountsToRun(ctx, tx, slices.Collect(maps.Keys(accounts))); err != nil {
		return fmt.Errorf("lock the accounts: %w", err)
	}
	workers, err := models.LockWorkers(ctx, tx, workerIDs)
	if err != nil {
		return fmt.Errorf("lock the workers: %w", err)
	}
	jobs, err := models.LockQueuedJobs(ctx, tx, jobIDs)
	if err != nil {
		return fmt.Errorf("lock the jobs: %w", err)
	}
	b.workers = keyedBy(workers, func(w *models.Worker) models.WorkerID { return w.ID })
	b.jobs = keyedBy(jobs, func(j *models.Job) models.JobID { return j.ID })
	return nil
}

// pick takes the job that a worker gets out of those that are left, or none.
func (b *claimBatch) pick(ctx context.Context, tx bun.Tx, s *search) (*models.Job, error) {
	for _, head := range prefer(b.heads(), s.worker) {
		job := b.jobs[head.ID]
		err := s.mayHave(ctx, tx, job)
		if errors.Is(err, errPassed) {
			continue
		}
		if err != nil {
			return nil, err
		}
		delete(b.jobs, head.ID)
		b.room[head.Account]--
		return job, nil
	}
	return nil, nil
}

// heads are the first jobs that are left of each account that may run more, as
// many as a claim looks at.
func (b *claimBatch) heads() []ReadyJob {
	var heads []ReadyJob
	seen := map[models.AccountID]bool{}
	for _, head := range b.next {
		job := b.jobs[head.ID]
		if job == nil || job.AccountID != head.Account || job.Queue() != head.Queue || b.room[head.Account] < 1 || seen[head.Account] {
			continue
		}
		seen[head.Account] = true
		if heads = append(heads, head); len(heads) == window {
			break
		}
	}
	return heads
}
