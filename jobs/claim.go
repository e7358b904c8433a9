package jobs

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

const (
	// claimRounds bounds how often a look for work starts over that came to
	// nothing. Such a round finds only stale heads: other claims won those, or they
	// were just dropped, and what is behind them shows in the next.
	claimRounds = 16
	// claimSize is how many searches share a transaction: more of them would hold the
	// accounts of all for longer.
	claimSize = 50
)

// search is one look for work of one worker.
type search struct {
	worker    *models.Worker
	reach     catalogue.Capability
	requestID string
	kind      string // of worker: those of one kind can run the same jobs
	// stays tells that it will hear of a job that the index does not know yet.
	stays bool

	// alone is set when the index is lost, or shows what only PostgreSQL can
	// tell apart: PostgreSQL alone answers then, in the same order.
	alone bool
	// passed are jobs that the worker may not have now. Searches that go together
	// passed the same.
	passed []models.JobID
	// apart tells that the search has to go on without the others of its batch: its
	// worker may not have a job that theirs may, or they failed together.
	apart bool

	found found
}

// found is what a search came to: at most one of them.
type found struct {
	lease *Lease
	// passed tells that there was a job that only this worker may not have.
	passed bool
	err    error
}

// look looks for work, together with others that do: of two that come at once
// neither wins a job over which the other has stumbled. The lease is nil if there
// is none, or the worker can take none now; passed tells whether there was a job
// that only this worker may not have.
func (l *Leaser) look(ctx context.Context, s *search) (lease *Lease, passed bool, err error) {
	err = l.looks.Do(ctx, s.kind, s, func(ctx context.Context, all []*search) error {
		l.claimAll(ctx, all)
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	if s.apart {
		l.claimAll(ctx, []*search{s})
	}
	return s.found.lease, s.found.passed, s.found.err
}

// claimAll gives jobs to workers of one kind in the order in which they asked. Those
// that it sets apart have no answer yet.
func (l *Leaser) claimAll(ctx context.Context, all []*search) {
	for rounds := 0; len(all) > 0 && rounds < 2*claimRounds; rounds++ {
		rest, err := l.claimSome(ctx, all, rounds >= claimRounds)
		switch {
		case err == nil:
			if len(rest) < len(all) {
				all, rounds = rest, 0
			}
		case errors.Is(err, models.ErrTurn) || errors.Is(err, models.ErrNoRoom): // it is otherwise by now: look again
		case len(all) == 1 || models.IsOutage(err) || ctx.Err() != nil:
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

// claimSome gives what can be given in one transaction. It returns the searches that
// found nothing yet.
func (l *Leaser) claimSome(ctx context.Context, all []*search, asked bool) (rest []*search, err error) {
	b := &claimBatch{Leaser: l}
	if err := b.find(ctx, all, asked); err != nil {
		return nil, err
	}
	if len(b.claims) == 0 {
		for _, s := range all {
			s.found = found{passed: len(s.passed) > 0}
		}
		return nil, nil
	}
	if err := InTx(ctx, l.DB, b.run); err != nil {
		return nil, err
	}
	var changes []*Change
	over := map[*search]bool{}
	for _, c := range b.claims {
		switch c.verdict {
		case given:
			c.search.found = found{lease: c.made.lease}
			changes = append(changes, c.made.change)
			l.compare(c.made.job)
			over[c.search] = true
		case notIdle:
			c.search.found = found{}
			over[c.search] = true
		case notForIt:
			// What is behind the job in its account's queue may be next.
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

// passStale has the searches go past a job that is not to be had. A hint is taken
// out of the index, unless another transaction but holds the job.
func (l *Leaser) passStale(ctx context.Context, all []*search, head ReadyJob, hint bool) {
	if hint {
		job, err := models.GetJob(ctx, l.DB, head.ID)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return
		}
		if err != nil || job.Status != models.JobQueued || job.Queue() != head.Queue || job.AccountID != head.Account {
			head.VirtualTime = -1
			l.Notifier.log(ctx, l.Notifier.Index.Remove(ctx, head))
			return
		}
	}
	for _, s := range all {
		s.alone, s.passed = true, append(slices.Clone(s.passed), head.ID)
	}
}

// prefer puts those of a line's heads first that are warm on the worker and wish for its
// region, then those that are warm, then those that wish for its region, within the
// window of the fair order.
func prefer(heads []ReadyJob, worker *models.Worker) []ReadyJob {
	fairqueue.Choose(heads, func(h ReadyJob) float64 { return h.VirtualTime }, func(h ReadyJob) int {
		return 2*lo.Ternary(!slices.Contains(worker.WarmModels, h.Model), 1, 0) + lo.Ternary(h.Wish == "" || h.Wish != worker.Region, 1, 0)
	})
	return heads
}

// compare tells how long a job waited that was just given out for the first time,
// if it was predicted.
func (l *Leaser) compare(job *models.Job) {
	if l.Meter != nil && job.AttemptNo == 1 && job.PredictedWaitSeconds != nil && job.WaitedSeconds != nil {
		l.Meter.Waited(job.Tier, *job.PredictedWaitSeconds, *job.WaitedSeconds)
	}
}
