package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

const (
	// window is how many heads of a line a claim looks at: enough for the races
	// of a few claims at once, and to choose among by what is warm.
	window = 8
	// windowTime is how far, in virtual time, the choice may go behind the first
	// head: so much may an account get ahead by for the sake of a warm model.
	windowTime = 300
	// claimRounds bounds how often one look for work starts over. A round that
	// finds only stale heads means that other claims won those, or that they were
	// just dropped: what is behind them shows in the next.
	claimRounds = 16
)

// search is one look for work of one worker.
type search struct {
	*Leaser
	worker    *models.Worker
	reach     reach
	requestID string

	// alone is set when the index is lost, or shows what only PostgreSQL can
	// tell apart: PostgreSQL alone answers then, in the same order.
	alone bool
	// passed are jobs that the worker may not have now.
	passed []models.JobID

	// patience bounds its waits for locks, if it is not 0.
	patience time.Duration
	kind     string // of worker: those of one kind can run the same jobs
	found    found
}

// found is what a search came to: at most one of them.
type found struct {
	lease *Lease
	// passed tells that there was a job that only this worker may not have.
	passed bool
	err    error
}

var (
	errStale   = errors.New("the job is not in that queue any more")
	errPassed  = errors.New("the worker may not have the job now")
	errCapped  = errors.New("the account runs as many jobs as it may")
	errTurn    = errors.New("it is another job's turn now")
	errNotIdle = errors.New("the worker is not idle")
)

// run claims the first job that is due for the worker. The lease is nil if there
// is none, or the worker can take none now; passed tells whether there was one
// that only this worker may not have.
func (s *search) run(ctx context.Context) (lease *Lease, passed bool, err error) {
	for round := range 2 * claimRounds {
		s.alone = s.alone || round >= claimRounds
		lanes, err := models.ReadLanes(ctx, s.DB)
		if err != nil {
			return nil, false, fmt.Errorf("read the lanes: %w", err)
		}
		heads, err := s.heads(ctx, s.reach.queues(lanes))
		if err != nil || len(heads) == 0 {
			return nil, len(s.passed) > 0, err
		}
		turn := slices.ContainsFunc(lanes, func(l models.LaneState) bool { return l.Lane == heads[0].Lane && l.Turn() })
		lease, err := s.claimFirst(ctx, prefer(heads, s.worker), turn)
		if errors.Is(err, errNotIdle) {
			return nil, false, nil
		}
		if lease != nil || err != nil {
			return lease, false, err
		}
	}
	return nil, true, nil
}

// heads are the first jobs of the first line that has any for the worker.
func (s *search) heads(ctx context.Context, queues []models.Queue) ([]ReadyJob, error) {
	if !s.alone {
		heads, lost := s.Notifier.Index.First(ctx, queues, window)
		if lost == nil {
			return heads, nil
		}
		s.alone = true
	}
	next, err := models.NextJobs(ctx, s.DB, queues, s.passed, window)
	return readyHints(next), err
}

// prefer puts those of a line's heads first that are warm on the worker and
// wish for its region, then those that are warm, then those that wish for its
// region, within a small window: beyond it each account has its turn first.
func prefer(heads []ReadyJob, worker *models.Worker) []ReadyJob {
	within := slices.IndexFunc(heads, func(h ReadyJob) bool { return h.VirtualTime > heads[0].VirtualTime+windowTime })
	if within < 0 {
		within = len(heads)
	}
	cost := func(h ReadyJob) int {
		return 2*b2i(!slices.Contains(worker.WarmModels, h.Model)) + b2i(h.Wish == "" || h.Wish != worker.Region)
	}
	slices.SortStableFunc(heads[:within], func(a, b ReadyJob) int { return cost(a) - cost(b) })
	return heads
}

// claimFirst claims the first of a line's heads that is still to be had. Without
// a lease and an error there was none, and another look may find more.
func (s *search) claimFirst(ctx context.Context, heads []ReadyJob, turn bool) (*Lease, error) {
	for _, head := range heads {
		lease, err := s.claim(ctx, head, turn)
		switch {
		case err == nil:
			return lease, nil
		case errors.Is(err, errTurn):
			return nil, nil
		case errors.Is(err, errPassed):
			// What is behind it in its account's queue may be next.
			s.alone, s.passed = true, append(s.passed, head.ID)
			return nil, nil
		case errors.Is(err, errCapped):
			s.alone = true // the index does not know yet
		case errors.Is(err, errStale):
			s.dropStale(ctx, head)
		default:
			return nil, err
		}
	}
	return nil, nil
}

// dropStale takes a hint out of the index, unless another transaction but holds
// the job: then it is passed over.
func (s *search) dropStale(ctx context.Context, head ReadyJob) {
	job, err := models.GetJob(ctx, s.DB, head.ID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return
	}
	if err == nil && job.Status == models.JobQueued && job.Queue() == head.Queue && job.AccountID == head.Account {
		s.alone, s.passed = true, append(s.passed, head.ID)
		return
	}
	head.VirtualTime = -1
	s.Notifier.log(ctx, s.Notifier.Index.Remove(ctx, head))
}

// claim gives one job to the worker: attempt, job, worker, counters and event in
// one transaction.
func (s *search) claim(ctx context.Context, head ReadyJob, turn bool) (*Lease, error) {
	var made *assignment
	err := inTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		if s.patience > 0 {
			if err := models.BePatient(ctx, tx, s.patience); err != nil {
				return err
			}
		}
		w, job, err := s.lock(ctx, tx, head)
		if err != nil {
			return err
		}
		made = &assignment{worker: w, job: job, requestID: s.requestID}
		if err := assignAll(ctx, tx, []*assignment{made}); err != nil {
			return err
		}
		err = models.CountStart(ctx, tx, head.Line, turn)
		if errors.Is(err, sql.ErrNoRows) {
			return errTurn
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.Notifier.after(ctx, made.change)
	s.compare(made.job)
	return made.lease, nil
}

// compare tells how long a job waited that was just given out for the first time,
// if it was predicted.
func (l *Leaser) compare(job *models.Job) {
	if l.Meter != nil && job.AttemptNo == 1 && job.PredictedWaitSeconds != nil && job.WaitedSeconds != nil {
		l.Meter.Waited(job.Tier, *job.PredictedWaitSeconds, *job.WaitedSeconds)
	}
}

// lock takes the rows of a claim, and returns why if it may not be.
func (s *search) lock(ctx context.Context, tx bun.Tx, head ReadyJob) (*models.Worker, *models.Job, error) {
	account, err := models.LockAccount(ctx, tx, head.Account)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, errStale
	}
	if err != nil {
		return nil, nil, err
	}
	if account.Running >= account.MaxRunning {
		return nil, nil, errCapped
	}
	w, err := models.LockWorker(ctx, tx, s.worker.ID)
	if err != nil {
		return nil, nil, err
	}
	if w.Status != models.WorkerIdle {
		return nil, nil, errNotIdle
	}
	job, err := models.LockQueuedJob(ctx, tx, head.ID)
	if errors.Is(err, sql.ErrNoRows) || err == nil && (job.AccountID != head.Account || job.Queue() != head.Queue) {
		return nil, nil, errStale
	}
	if err != nil {
		return nil, nil, err
	}
	return w, job, s.mayHave(ctx, tx, job)
}

// mayHave returns errPassed for a job that was to be started by now, and for one
// that the worker failed a moment ago and another could run.
func (s *search) mayHave(ctx context.Context, tx bun.Tx, job *models.Job) error {
	avoided := job.AvoidWorkerID == s.worker.ID && !job.AvoidUntil.IsZero()
	if !avoided && job.ExpiresAt.IsZero() {
		return nil
	}
	now, err := models.Now(ctx, tx)
	if err != nil {
		return err
	}
	if !job.ExpiresAt.IsZero() && !job.ExpiresAt.After(now) && job.StartedAt.IsZero() {
		return errPassed
	}
	if !avoided || !job.AvoidUntil.After(now) {
		return nil
	}
	another, err := s.another(ctx, tx, job)
	if err == nil && another {
		return errPassed
	}
	return err
}

// another tells whether a live worker but this one could run the job.
func (s *search) another(ctx context.Context, tx bun.Tx, job *models.Job) (bool, error) {
	kinds, err := models.ListCapacity(ctx, tx, []string{job.Model})
	if err != nil {
		return false, fmt.Errorf("look for another worker: %w", err)
	}
	others := -1 // this one is among them
	for _, kind := range kinds {
		if s.Catalogue.reach(kind.Models, kind.GPUType, kind.Region).serves(job.Queue()) {
			others += kind.Idle + kind.Busy
		}
	}
	return others > 0, nil
}

// assignment is a locked job that a locked worker gets.
type assignment struct {
	worker    *models.Worker
	job       *models.Job
	requestID string

	lease  *Lease
	change *change
}

// assignAll makes the attempts by which workers get jobs.
func assignAll(ctx context.Context, tx bun.Tx, all []*assignment) error {
	now, err := models.Now(ctx, tx)
	if err != nil {
		return err
	}
	var attempts []*models.Attempt
	var workers []models.Changed[models.Worker]
	var changes []*change
	for _, a := range all {
		was := *a.worker
		if err := a.make(tx, now); err != nil {
			return err
		}
		attempts, changes = append(attempts, a.lease.Attempt), append(changes, a.change)
		workers = append(workers, models.Changed[models.Worker]{Was: &was, Is: a.worker})
	}
	if err := models.InsertAttempts(ctx, tx, attempts); err != nil {
		return fmt.Errorf("insert the attempts: %w", err)
	}
	if err := models.UpdateWorkers(ctx, tx, workers); err != nil {
		return fmt.Errorf("update the workers: %w", err)
	}
	if err := saveAll(ctx, tx, changes); err != nil {
		return err
	}
	for _, a := range all {
		if err := a.lease.read(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// make makes the lease, in memory.
func (a *assignment) make(tx bun.Tx, now time.Time) error {
	w, job := a.worker, a.job
	c := changeAt(tx, now, job)
	if err := c.move(models.JobAssigned); err != nil {
		return err
	}
	if job.WaitedSeconds == nil {
		job.WaitedSeconds = new(max(now.Sub(job.QueuedAt).Seconds(), 0)) // a clock may be set back
	}
	job.AttemptNo++
	attempt := &models.Attempt{
		ID: models.NewAttemptID(), JobID: job.ID, Run: job.Run, AttemptNo: job.AttemptNo, WorkerID: w.ID,
		FencingToken: models.NewFencingToken(), LeaseRequestID: a.requestID, Status: models.AttemptLeased,
		LeasedAt: now, LeaseExpiresAt: now.Add(LeaseTTL), LastHeartbeatAt: now,
	}
	job.CurrentAttemptID = attempt.ID
	job.Progress.Phase, job.Progress.UpdatedAt = models.PhaseStarting, now
	job.Progress.Message = fmt.Sprintf("given to worker %s", w.ID)
	c.note(models.EventLeased, payload{"attemptNo": job.AttemptNo, "worker": w.ID})
	w.Status, w.IdleSince = models.WorkerBusy, time.Time{}
	a.change, a.lease = c, &Lease{Attempt: attempt, Job: job}
	return nil
}

// read adds what the job begins from.
func (l *Lease) read(ctx context.Context, tx bun.Tx) (err error) {
	if l.Inputs, err = inputOf(ctx, tx, l.Job); err != nil {
		return err
	}
	if l.Job.LatestCheckpointID != "" {
		l.Checkpoints, err = models.ListCheckpoints(ctx, tx, l.Job.ID, 2)
	}
	return err
}
