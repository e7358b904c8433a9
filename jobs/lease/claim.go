package lease

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
)

const (
	// claimRounds bounds how many rounds in a row may find no job. Such a round sees only stale
	// heads, which other claims took or which were just removed. The next round sees the jobs
	// behind them.
	claimRounds = 16
	// claimSize is how many searches share a transaction. More would hold the accounts' locks
	// for longer.
	claimSize = 50
	// warmGrace is how long after its expected end a job is given to the worker on which it runs,
	// before another one looks again for the job that waits for it.
	warmGrace = time.Second
)

// search is one worker's search for a job.
type search struct {
	worker    *models.Worker
	reach     catalogue.Capability
	requestID string
	kind      string // workers of one kind can run the same jobs
	// stays means that the worker keeps waiting, so that a job that is not in the index yet will
	// wake it.
	stays bool

	// alone means that only PostgreSQL is asked, which has the same order. The index is lost, or
	// contains a job that only PostgreSQL can judge.
	alone bool
	// passed are jobs that the worker may not take now. All searches of a batch have the same.
	passed []models.JobID
	// apart means that the search continues outside its batch, because its worker must skip a job
	// that the others may take, or because the batch failed.
	apart bool
	// promised are the busy workers for which jobs of passed wait, one job each, since their model
	// is loaded there. again is the shortest time until such a job may go to another worker.
	promised []models.WorkerID
	again    time.Duration

	found found
}

// spare skips a job that waits for a worker that has its model in memory.
func (s *search) spare(wait estimate.WarmWait) {
	again := min(wait.Free+warmGrace, wait.Left)
	if len(s.promised) > 0 {
		again = min(again, s.again)
	}
	s.again, s.promised = again, append(slices.Clone(s.promised), wait.WorkerID)
}

// later returns a channel that receives when a spared job becomes available, or nil if there is
// none.
func (s *search) later() <-chan time.Time {
	if len(s.promised) == 0 {
		return nil
	}
	return time.After(s.again)
}

// found is the outcome of a search. At most one field is set.
type found struct {
	lease *Lease
	// passed means that a job was skipped that other workers may take.
	passed bool
	err    error
}

// look searches for a job in a batch with concurrent searches, so that they do not compete for the
// same job. The lease is nil if there is no job, or if the worker can take none now. passed reports
// whether a job was skipped that other workers may take.
func (l *Leaser) look(ctx context.Context, s *search) (lease *Lease, passed bool, err error) {
	err = l.looks.Do(ctx, s.kind, s, func(ctx context.Context, all []*search) error {
		l.claimAll(ctx, all, jobs.TurnLimit)
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	if s.apart {
		l.claimAll(ctx, []*search{s}, 0)
	}
	return s.found.lease, s.found.passed, s.found.err
}

// claimAll gives jobs to workers of one kind, in the order in which they asked. Searches that it
// sets apart have no outcome yet: among them all that waited for a lock longer than patience, if that
// is not 0.
func (l *Leaser) claimAll(ctx context.Context, all []*search, patience time.Duration) {
	for rounds := 0; len(all) > 0 && rounds < 2*claimRounds; rounds++ {
		rest, err := l.claimSome(ctx, all, rounds >= claimRounds, patience)
		switch {
		case err == nil:
			if len(rest) < len(all) {
				all, rounds = rest, 0
			}
		case errors.Is(err, models.ErrTurn) || errors.Is(err, models.ErrNoRoom) || errors.Is(err, models.ErrAnswered):
			// the rows have changed: look again
		case patience > 0 && postgres.IsLockTimeout(err):
			for _, s := range all {
				s.apart = true
			}
			return
		case len(all) == 1 || postgres.IsOutage(err) || ctx.Err() != nil:
			for _, s := range all {
				s.found = found{err: err}
			}
			return
		default:
			slog.WarnContext(ctx, "jobs could not be given together", "error", err)
			for _, s := range all {
				s.apart = true
			}
			return
		}
	}
	for _, s := range all {
		s.found = found{passed: true}
	}
}

// claimSome gives out jobs in one transaction. It returns the searches that have no outcome
// yet.
func (l *Leaser) claimSome(ctx context.Context, all []*search, asked bool, patience time.Duration) (rest []*search, err error) {
	b := &claimBatch{Leaser: l, catalogue: l.Catalogue.Current(), patience: patience}
	if err := b.find(ctx, all, asked); err != nil {
		return nil, err
	}
	if len(b.claims) == 0 {
		for _, s := range all {
			s.found = found{passed: len(s.passed) > len(s.promised)}
		}
		return nil, nil
	}
	if err := jobs.InTx(ctx, l.DB, b.run); err != nil {
		return nil, err
	}
	var changes []*change.Change
	over := map[*search]bool{}
	for _, c := range b.claims {
		switch c.verdict {
		case given:
			c.search.found = found{lease: l.paced(c.made.lease, c.search.worker)}
			changes = append(changes, c.made.change)
			over[c.search] = true
		case notIdle, noSlot:
			c.search.found = found{}
			over[c.search] = true
		case answered:
			c.search.found = found{err: models.ErrAnswered}
			over[c.search] = true
		case notForIt, spared:
			if c.verdict == spared {
				c.search.spare(c.wait)
			}
			// The job behind it in its account's queue may be next.
			c.search.alone, c.search.passed = true, append(slices.Clone(c.search.passed), c.head.ID)
			if len(all) > 1 {
				c.search.apart, over[c.search] = true, true
			}
		case capped:
			c.search.alone = true // the index does not know yet
		case stale:
			l.passStale(ctx, all, c.head, b.hinted)
		}
	}
	l.Notifier.After(ctx, changes...)
	return slices.DeleteFunc(slices.Clone(all), func(s *search) bool { return over[s] }), nil
}

// passStale makes the searches skip a job that is not available. Its hint is removed from the
// index, unless another transaction merely has the job locked.
func (l *Leaser) passStale(ctx context.Context, all []*search, head jobs.ReadyJob, hint bool) {
	if hint {
		job, err := models.GetJob(ctx, l.DB, head.ID)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return
		}
		if err != nil || job.Status != models.JobQueued || job.Queue() != head.Queue || job.AccountID != head.Account {
			head.VirtualTime = -1
			l.Notifier.Log(ctx, l.Notifier.Index.Remove(ctx, head))
			return
		}
	}
	for _, s := range all {
		s.alone, s.passed = true, append(slices.Clone(s.passed), head.ID)
	}
}

// prefer sorts the heads of a line within the window of the fair order: first jobs whose model is
// loaded on the worker and that prefer its region, then jobs whose model is loaded, then jobs that
// prefer its region.
func prefer(heads []jobs.ReadyJob, worker *models.Worker) []jobs.ReadyJob {
	fairqueue.Choose(heads, func(h jobs.ReadyJob) float64 { return h.VirtualTime }, func(h jobs.ReadyJob) int {
		return 2*lo.Ternary(!slices.Contains(worker.WarmModels, h.Model), 1, 0) +
			lo.Ternary(h.PreferredRegion == "" || h.PreferredRegion != worker.Region, 1, 0)
	})
	return heads
}
