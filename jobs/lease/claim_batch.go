package lease

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// claimBatch is what one transaction gives: attempts, jobs, workers, counters and
// events.
type claimBatch struct {
	*Leaser
	catalogue *catalogue.Snapshot

	lane     models.LaneState
	patience time.Duration // how long it waits for a lock, or 0 if as long as need be
	claims   []*claim      // of one line
	hinted   bool          // the heads come from the index

	now     time.Time
	room    map[models.AccountID]int // how many more each account may run
	workers map[models.WorkerID]*models.Worker
	jobs    map[models.JobID]*models.Job
}

// claim pairs a search with the job that it may get.
type claim struct {
	search  *search
	head    jobs.ReadyJob
	verdict verdict
	// answered means that the request of the search already had a lease.
	answered bool
	made     *assignment
	wait     estimate.WarmWait // of a job that is spared
	resumes  bool              // the job has a slot at the worker's hosted provider
}

// verdict is the outcome of a claim after its rows were locked.
type verdict int

const (
	given    verdict = iota
	stale            // the job has left that queue, or another worker has it
	capped           // its account is at its running limit
	notIdle          // the worker is not idle or in quarantine, or its pool has changed what it takes
	answered         // the worker's request already had a lease, which is over
	notForIt         // the worker may not take the job now
	noSlot           // the worker's hosted provider has no room for the job
	spared           // the job waits for a worker that has its model in memory
)

// find chooses for each search the job that it would get if all searches ran one after the other,
// as far as that order is known. The last ones may have to search again. It makes no claims if
// there are no jobs.
func (b *claimBatch) find(ctx context.Context, all []*search, postgres bool) error {
	lanes, err := models.ReadLanes(ctx, b.DB)
	if err != nil {
		return fmt.Errorf("read the lanes: %w", err)
	}
	if all, err = b.providerRoom(ctx, all, lanes); err != nil || len(all) == 0 {
		return err
	}
	next, err := b.next(ctx, all, all[0].reach.Queues(lanes), postgres)
	if err != nil || len(next) == 0 {
		return err
	}
	b.lane = lanes[slices.IndexFunc(lanes, func(s models.LaneState) bool { return s.Lane == next[0].Lane })]
	taken := map[models.JobID]bool{}
	for _, s := range all[:min(len(all), b.most(next[0].Line))] {
		heads := prefer(headsOf(next, taken), s.worker)
		if len(heads) == 0 {
			break
		}
		taken[heads[0].ID] = true
		b.claims = append(b.claims, &claim{search: s, head: heads[0]})
	}
	return nil
}

// next returns the first jobs of the first line that has any. For a single search, it asks the ready
// index before PostgreSQL.
func (b *claimBatch) next(ctx context.Context, all []*search, queues []models.Queue, postgres bool) ([]jobs.ReadyJob, error) {
	s := all[0]
	accounts := s.reach.Accounts()
	if len(all) > 1 {
		next, err := backlog.NextInOrder(ctx, b.DB, queues, accounts, s.passed, len(all))
		return jobs.ReadyHints(next), err
	}
	if !s.alone && !postgres {
		heads, lost := b.Notifier.Index.First(ctx, queues, accounts, fairqueue.Window)
		if lost == nil && (len(heads) > 0 || s.stays) {
			b.hinted = true
			return heads, nil
		}
		s.alone = true
	}
	next, err := backlog.NextJobs(ctx, b.DB, queues, accounts, s.passed, fairqueue.Window)
	return jobs.ReadyHints(next), err
}

// most returns how many jobs of a line may start before the other line has its turn.
func (b *claimBatch) most(line models.Line) int {
	if n := fairqueue.TurnsOf(b.lane).Left(line); n > 0 {
		return n
	}
	return math.MaxInt // the other line has the turn, but no job
}

// headsOf returns each account's first job in next that is not taken, up to the number that a
// claim considers.
func headsOf(next []jobs.ReadyJob, taken map[models.JobID]bool) []jobs.ReadyJob {
	var heads []jobs.ReadyJob
	seen := map[models.AccountID]bool{}
	for _, head := range next {
		if taken[head.ID] || seen[head.Account] {
			continue
		}
		seen[head.Account] = true
		if heads = append(heads, head); len(heads) == fairqueue.Window {
			break
		}
	}
	return heads
}

func (b *claimBatch) run(ctx context.Context, tx bun.Tx) error {
	if err := b.lock(ctx, tx); err != nil {
		return err
	}
	for _, c := range b.claims {
		if err := b.judge(ctx, tx, c); err != nil {
			return err
		}
	}
	if err := b.takeSlots(ctx, tx); err != nil {
		return err
	}
	var all []*assignment
	for _, c := range b.claims {
		if c.verdict == given {
			all = append(all, c.made)
		}
	}
	if len(all) == 0 {
		return nil
	}
	starts := models.Starts{Line: b.claims[0].head.Line, Jobs: len(all), Turn: fairqueue.TurnsOf(b.lane).Promoted(b.lane.Lane)}
	return assignAll(ctx, tx, b.now, all, starts)
}

func (b *claimBatch) lock(ctx context.Context, tx bun.Tx) error {
	picks := make([]models.Pick, len(b.claims))
	for i, c := range b.claims {
		picks[i] = models.Pick{AccountID: c.head.Account, WorkerID: c.search.worker.ID, JobID: c.head.ID, RequestID: c.search.requestID}
	}
	now, all, err := models.LockPicks(ctx, tx, picks, b.patience)
	if err != nil {
		return fmt.Errorf("lock the workers and jobs: %w", err)
	}
	b.now, b.room = now, map[models.AccountID]int{}
	b.workers, b.jobs = map[models.WorkerID]*models.Worker{}, map[models.JobID]*models.Job{}
	for i, picked := range all {
		if picked.Room != nil {
			b.room[picks[i].AccountID] = *picked.Room
		}
		b.claims[i].answered = picked.Answered
		b.workers[picks[i].WorkerID], b.jobs[picks[i].JobID] = picked.Worker, picked.Job
	}
	return nil
}

// judge decides on a claim whose rows are locked.
func (b *claimBatch) judge(ctx context.Context, tx bun.Tx, c *claim) error {
	w, job := b.workers[c.search.worker.ID], b.jobs[c.head.ID]
	room, known := b.room[c.head.Account]
	switch {
	case known && room < 1:
		// A search leaves out the jobs of such an account, but not those that resume.
		c.verdict = lo.Ternary(c.resumes, notForIt, capped)
	case w == nil || w.Status != models.WorkerIdle || w.Key() != c.search.kind || w.Quarantined(b.now):
		c.verdict = notIdle
	case c.answered:
		c.verdict = answered
	case job == nil || job.AccountID != c.head.Account || job.Queue() != c.head.Queue:
		c.verdict = stale
	default:
		may, err := b.mayHave(ctx, tx, w, job)
		if err != nil {
			return err
		}
		wait, sooner := b.warmElsewhere(c, w, job)
		switch {
		case !may:
			c.verdict = notForIt
		case sooner:
			c.verdict, c.wait = spared, wait
		default:
			c.verdict, c.made = given, &assignment{worker: w, job: job, requestID: c.search.requestID, closedUntil: b.lane.ClosedUntil}
			b.room[c.head.Account]--
			// Two calls of one worker get one job.
			delete(b.workers, w.ID)
		}
	}
	return nil
}

// mayHave reports whether a worker may take a job. It may not if the job has expired, or if the
// worker failed it a moment ago and another worker could run it.
func (b *claimBatch) mayHave(ctx context.Context, tx bun.Tx, w *models.Worker, job *models.Job) (bool, error) {
	if !job.ExpiresAt.IsZero() && !job.ExpiresAt.After(b.now) && job.StartedAt.IsZero() {
		return false, nil
	}
	if job.AvoidWorkerID != w.ID || !job.AvoidUntil.After(b.now) {
		return true, nil
	}
	another, err := b.another(ctx, tx, job)
	return !another, err
}

// warmElsewhere returns the busy worker that a job should wait for: its model is loaded there, and
// that worker should be free before this one would have loaded the model.
func (b *claimBatch) warmElsewhere(c *claim, w *models.Worker, job *models.Job) (estimate.WarmWait, bool) {
	if slices.Contains(w.WarmModels, job.Model) {
		return estimate.WarmWait{}, false
	}
	return b.Estimates.WarmFor(job, w, b.now.Sub(job.QueuedAt), jobs.Policies[job.Lane].WaitTarget, c.search.promised...)
}

// another reports whether a live worker could run the job, other than the one that the job avoids.
func (b *claimBatch) another(ctx context.Context, tx bun.Tx, job *models.Job) (bool, error) {
	kinds, err := capacity.ListCapacity(ctx, tx, []string{job.Model})
	if err != nil {
		return false, fmt.Errorf("look for another worker: %w", err)
	}
	others := -1 // this one is among them
	for _, kind := range kinds {
		if b.catalogue.CapabilityOf(kind.Offer).Serves(job.Queue(), job.AccountID) {
			others += kind.Idle + kind.Busy
		}
	}
	return others > 0, nil
}
