package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/budgets"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
	"github.com/samber/lo"
	"github.com/uptrace/bun"
)

// countAhead is up to how many jobs ahead of one are counted.
const countAhead = 100

// situation holds everything that is needed to say why jobs wait.
type situation struct {
	catalogue *catalogue.Snapshot
	estimates *estimate.Estimator
	now       time.Time
	jobs      []*models.Job
	blocking  map[models.JobID]backlog.Blocking
	fetches   map[models.JobID]*models.InputFetch
	approvals map[models.JobID]*models.Approval
	lanes     map[models.Tier]models.LaneState
	halts     []models.Halt
	pauses    []models.Pause
	capacity  []capacity.Capacity
	accounts  map[models.AccountID]*models.Account
	avoided   map[models.WorkerID]*models.Worker
	gaveWay   map[models.JobID]models.Tier // to which lane, if its last attempt did
	ahead     map[models.JobID]int
	above     map[models.JobID]int
	paused    map[models.JobID]backlog.Paused // for how long their queues were closed
	deadlines map[models.JobID]*estimate.Deadline
	providers []*capacity.ProviderUse
	holds     budgets.Holds
}

// WaitingFor returns the reasons why each of the jobs waits, the most informative first. It
// omits jobs that no longer wait or that nothing holds back. It takes the same few statements
// for one job as for many, also of several callers.
func (r *Jobs) WaitingFor(ctx context.Context, of ...Edges) (map[models.JobID][]WaitingReason, error) {
	ids := lo.Uniq(lo.FlatMap(of, func(e Edges, _ int) []models.JobID { return e.ids() }))
	if len(ids) == 0 {
		return nil, nil
	}
	var s *situation
	// In one snapshot: a worker may take a job at any moment, and then the job is in no queue.
	err := jobs.InSnapshot(ctx, r.db, func(ctx context.Context, tx bun.Tx) error {
		s = &situation{catalogue: r.catalogue.Current(), estimates: r.estimates}
		return s.read(ctx, tx, ids)
	})
	if err != nil {
		return nil, fmt.Errorf("read what jobs wait for: %w", err)
	}
	if s.paused, err = r.paused(ctx, s.jobs, s.now); err != nil {
		return nil, err
	}
	if s.deadlines, err = r.deadlines(ctx, s.jobs); err != nil {
		return nil, err
	}
	reasons := map[models.JobID][]WaitingReason{}
	for _, job := range s.jobs {
		if why := s.why(job); len(why) > 0 {
			reasons[job.ID] = why
		}
	}
	return reasons, nil
}

// deadlines returns what is expected of the deadlines of jobs, as far as they have any.
func (r *Jobs) deadlines(ctx context.Context, waiting []*models.Job) (map[models.JobID]*estimate.Deadline, error) {
	pressed := lo.Filter(waiting, func(job *models.Job, _ int) bool { return !job.FinishBy.IsZero() })
	if len(pressed) == 0 {
		return nil, nil
	}
	found, err := Edges{jobs: r, rows: pressed}.Estimates(ctx)
	return lo.MapValues(found, func(e estimate.JobEstimate, _ models.JobID) *estimate.Deadline { return e.Deadline }), err
}

func (s *situation) read(ctx context.Context, db bun.IDB, ids []models.JobID) error {
	var err error
	if s.jobs, err = backlog.ListWaitingJobs(ctx, db, ids); err != nil || len(s.jobs) == 0 {
		return err
	}
	if s.now, err = postgres.Now(ctx, db); err != nil {
		return err
	}
	blocking, err := backlog.CountBlocking(ctx, db, ids)
	if err != nil {
		return err
	}
	s.blocking = lo.KeyBy(blocking, func(b backlog.Blocking) models.JobID { return b.JobID })
	fetches, err := models.ListInputFetches(ctx, db, ids)
	if err != nil {
		return err
	}
	s.fetches = lo.KeyBy(fetches, func(f *models.InputFetch) models.JobID { return f.JobID })
	approvals, err := models.ListApprovals(ctx, db, ids)
	if err != nil {
		return err
	}
	s.approvals = lo.KeyBy(approvals, func(a *models.Approval) models.JobID { return a.JobID })
	lanes, err := models.ReadLanes(ctx, db)
	if err != nil {
		return err
	}
	s.lanes = lo.KeyBy(lanes, func(l models.LaneState) models.Tier { return l.Lane })
	if s.halts, err = models.ListHalts(ctx, db); err != nil {
		return err
	}
	if s.pauses, err = models.ListPauses(ctx, db); err != nil {
		return err
	}
	if s.gaveWay, err = backlog.ListYielded(ctx, db, s.requeued()); err != nil {
		return err
	}
	accountIDs, names := map[models.AccountID]bool{}, map[string]bool{}
	var avoided []models.WorkerID
	for _, job := range s.jobs {
		accountIDs[job.AccountID], names[job.Model] = true, true
		if job.AvoidUntil.After(s.now) {
			avoided = append(avoided, job.AvoidWorkerID)
		}
	}
	if len(avoided) > 0 {
		workers, err := models.GetWorkers(ctx, db, avoided)
		if err != nil {
			return err
		}
		s.avoided = lo.KeyBy(workers, func(w *models.Worker) models.WorkerID { return w.ID })
	}
	accounts, err := models.GetAccounts(ctx, db, slices.Collect(maps.Keys(accountIDs)))
	if err != nil {
		return err
	}
	s.accounts = lo.KeyBy(accounts, func(a *models.Account) models.AccountID { return a.ID })
	if s.holds, err = budgets.ListHolds(ctx, db, slices.Collect(maps.Keys(accountIDs))); err != nil {
		return err
	}
	if s.capacity, err = capacity.ListCapacity(ctx, db, slices.Collect(maps.Keys(names))); err != nil {
		return err
	}
	if s.providers, err = capacity.ListProviderUse(ctx, db, nil); err != nil {
		return err
	}
	return s.readAhead(ctx, db)
}

// requeued returns the jobs that wait for another attempt in their old place.
func (s *situation) requeued() (ids []models.JobID) {
	for _, job := range s.jobs {
		if job.Status == models.JobQueued && job.Requeued {
			ids = append(ids, job.ID)
		}
	}
	return ids
}

// readAhead counts the jobs ahead of each queued one that the same workers would run.
// countAhead+1 means more than countAhead.
func (s *situation) readAhead(ctx context.Context, db bun.IDB) error {
	s.ahead, s.above = map[models.JobID]int{}, map[models.JobID]int{}
	numbers, asked := map[string]int{}, []backlog.LineUp(nil)
	line := map[models.JobID]string{}
	for _, job := range s.jobs {
		if job.Status != models.JobQueued {
			continue
		}
		up := backlog.LineUp{Lane: job.Lane}
		up.Queues, up.Accounts = s.rivals(job)
		if s.capped(job) {
			up.AccountID = job.AccountID // other accounts' jobs do not delay it
		} else {
			up.Above = s.before(job.Lane)
		}
		key := fmt.Sprint(up)
		if line[job.ID] = key; numbers[key] == 0 {
			asked = append(asked, up)
			numbers[key] = len(asked)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	found, err := backlog.ListLinedUp(ctx, db, asked, countAhead+1)
	if err != nil {
		return err
	}
	above, err := backlog.CountAbove(ctx, db, asked, countAhead+1)
	if err != nil {
		return err
	}
	for id, key := range line {
		s.above[id] = above[numbers[key]-1]
	}
	own, promoted := make([][]models.JobID, len(asked)), make([][]models.JobID, len(asked))
	for _, up := range found {
		if up.Promoted {
			promoted[up.Number] = append(promoted[up.Number], up.ID)
		} else {
			own[up.Number] = append(own[up.Number], up.ID)
		}
	}
	beyond := make([]int, len(asked)) // the number of jobs ahead of a job that is not among the first
	for i, up := range asked {
		order := fairqueue.Merge(own[i], promoted[i], s.lanes[up.Lane].SincePromoted)
		beyond[i] = min(len(order), countAhead+1)
		for ahead, id := range order {
			s.ahead[id] = ahead
		}
	}
	for id, key := range line {
		if _, first := s.ahead[id]; !first {
			s.ahead[id] = beyond[numbers[key]-1]
		}
	}
	return nil
}

// before returns the lanes whose jobs start before a lane's.
func (s *situation) before(lane models.Tier) []models.Tier {
	first := models.Tiers[:slices.Index(models.Tiers, lane)]
	return slices.DeleteFunc(slices.Clone(first), func(t models.Tier) bool { return s.lanes[t].Paused })
}

// capacityFor returns the capacity that can run the job.
func (s *situation) capacityFor(job *models.Job) []capacity.Capacity {
	return slices.DeleteFunc(slices.Clone(s.capacity), func(c capacity.Capacity) bool {
		return !s.catalogue.CapabilityOf(c.Offer).Serves(job.Queue(), job.AccountID)
	})
}

// rivals returns the queues whose jobs compete for the workers that can run the job, also if they are paused
// in its own lane, and the accounts to which all these workers are dedicated, or none. If nothing can run it,
// the jobs of its own queue compete.
func (s *situation) rivals(job *models.Job) (queues []models.Queue, accounts []models.AccountID) {
	lanes := lo.Map(slices.Collect(maps.Values(s.lanes)), func(l models.LaneState, _ int) models.LaneState {
		if l.Lane == job.Lane {
			l.Paused, l.PausedModels = false, nil
		}
		return l
	})
	able := s.capacityFor(job)
	for _, c := range able {
		queues = append(queues, s.catalogue.CapabilityOf(c.Offer).Queues(lanes)...)
		accounts = append(accounts, c.Accounts...)
	}
	if slices.ContainsFunc(able, func(c capacity.Capacity) bool { return len(c.Accounts) == 0 }) {
		accounts = nil
	}
	if len(able) == 0 {
		own := job.Queue()
		for _, own.Lane = range models.Tiers {
			queues = append(queues, own)
		}
	}
	for i := range queues {
		queues[i].Promoted = false
	}
	slices.SortFunc(queues, func(a, b models.Queue) int { // equal for jobs of one queue
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Model, b.Model), cmp.Compare(a.GPURank, b.GPURank),
			cmp.Compare(a.Region, b.Region), cmp.Compare(a.Needs, b.Needs))
	})
	return slices.Compact(queues), lo.Uniq(accounts)
}

func (s *situation) capped(job *models.Job) bool {
	account := s.accounts[job.AccountID]
	return account.Running >= account.MaxRunning
}
