package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
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
	reasons := map[models.JobID][]WaitingReason{}
	for _, job := range s.jobs {
		if why := s.why(job); len(why) > 0 {
			reasons[job.ID] = why
		}
	}
	return reasons, nil
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
	if s.capacity, err = capacity.ListCapacity(ctx, db, slices.Collect(maps.Keys(names))); err != nil {
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
		up := backlog.LineUp{Lane: job.Lane, Models: s.rivals(job)}
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

// rivals returns the models whose jobs the same workers would run, in order.
func (s *situation) rivals(job *models.Job) []string {
	names := []string{job.Model}
	for _, c := range s.capacityFor(job) {
		names = append(names, c.Models...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *situation) capped(job *models.Job) bool {
	account := s.accounts[job.AccountID]
	return account.Running >= account.MaxRunning
}

// why lists the reasons why a job waits.
func (s *situation) why(job *models.Job) []WaitingReason {
	var reasons []WaitingReason
	add := func(code WaitingCode, until time.Time, format string, args ...any) {
		reasons = append(reasons, WaitingReason{Code: code, Message: fmt.Sprintf(format, args...), Until: until})
	}
	if b, blocked := s.blocking[job.ID]; blocked && job.Status == models.JobBlocked {
		add(WaitDependency, time.Time{}, "%s must complete first: %s%s.", text.Count(b.Count, "job"), strings.Join(b.Jobs, ", "),
			more(b.Count-len(b.Jobs)))
	}
	if fetch, waits := s.fetches[job.ID]; waits && job.Status == models.JobBlocked {
		message := "An image of the params is being fetched"
		if fetch.Problem != "" {
			message += fmt.Sprintf("; attempt %d of %d failed: %s", min(fetch.Tries, inputs.MaxFetchTries), inputs.MaxFetchTries, fetch.Problem)
		}
		add(WaitInput, time.Time{}, "%s.", message)
	}
	if job.RunAt.After(s.now) && job.Failures > 0 && job.Status == models.JobScheduled {
		add(WaitNotBefore, job.RunAt, "Attempt %d of %d starts in %s, at %s. Last failure: %s", job.Failures+1, job.MaxAttempts,
			text.Duration(job.RunAt.Sub(s.now).Round(time.Second)), text.MomentToSecond(job.RunAt.UTC(), s.now), job.FailureReason)
	} else if job.RunAt.After(s.now) {
		add(WaitNotBefore, job.RunAt, "Due at %s.", text.MomentToSecond(job.RunAt.UTC(), s.now))
	}
	if job.Status != models.JobQueued {
		return reasons
	}
	lane := strings.ToLower(string(job.Lane))
	if halt, halted := s.halted(); halted {
		add(WaitHalted, time.Time{}, "An operator has halted the starts of all jobs since %s: %s.", text.Moment(halt.Since.UTC(), s.now),
			strings.TrimSuffix(halt.Reason, "."))
		reasons[len(reasons)-1].Stop = &Stop{What: "The starts of all jobs are halted", By: halt.By, At: halt.Since, Reason: halt.Reason}
	}
	if pause := s.pauseOf(job); pause != nil {
		what := fmt.Sprintf("The %s lane is paused", lane)
		if pause.Model != "" {
			what += " for " + job.Model
		}
		add(WaitQueuePaused, time.Time{}, "%s.", what)
		reasons[len(reasons)-1].Stop = &Stop{What: what, Lane: job.Lane, By: pause.By, At: pause.At, Reason: pause.Reason}
	}
	if s.capped(job) {
		most := s.accounts[job.AccountID].MaxRunning
		add(WaitAccountRunningCap, time.Time{}, "The account is at its limit of %d running jobs.", most)
	}
	for _, reason := range s.whyNoCapacity(job) {
		if reason.Message += restrictions(job, s.now); job.RequireRegion && reason.Code != WaitNoPool { // else it says so
			reason.Message += " It runs only in the region " + job.Region + "."
		}
		reasons = append(reasons, reason)
	}
	ahead, above := s.ahead[job.ID], s.above[job.ID]
	switch {
	case ahead+above > countAhead:
		add(WaitQueueAhead, time.Time{}, "More than %d jobs ahead%s.", countAhead, whereAhead(lane, above))
	case ahead+above > 0:
		add(WaitQueueAhead, time.Time{}, "%s ahead%s.", text.Count(ahead+above, "job"), whereAhead(lane, above))
	}
	slices.SortFunc(reasons, func(a, b WaitingReason) int {
		return slices.Index(waitingCodes, a.Code) - slices.Index(waitingCodes, b.Code)
	})
	if to := s.gaveWay[job.ID]; to != "" && len(reasons) > 0 {
		first, gave := &reasons[0], "Preempted by "+text.A(string(to))+" job. "
		if first.Message = gave + first.Message; first.Stop != nil {
			first.Stop.What = gave + first.Stop.What
		}
	}
	return reasons
}

// halted returns the halt of all leases, if there is one.
func (s *situation) halted() (models.Halt, bool) {
	return lo.Find(s.halts, func(h models.Halt) bool { return h.What == models.HaltLeases })
}

// pauseOf returns the pause of the job's queue, or nil. That of the whole lane goes first.
func (s *situation) pauseOf(job *models.Job) *models.Pause {
	for i, pause := range s.pauses {
		if pause.Lane == job.Lane && (pause.Model == "" || pause.Model == job.Model) {
			return &s.pauses[i]
		}
	}
	return nil
}

func whereAhead(lane string, above int) string {
	if above == 0 {
		return fmt.Sprintf(" in the %s lane", lane)
	}
	return fmt.Sprintf(" in the %s lane and the lanes above it", lane)
}

// avoids reports whether a worker is idle that the job avoids for now, because the worker has
// just failed it.
func (s *situation) avoids(job *models.Job) bool {
	w := s.avoided[job.AvoidWorkerID]
	return w != nil && w.Status == models.WorkerIdle && job.AvoidUntil.After(s.now) &&
		s.catalogue.CapabilityOf(w.Offer).Serves(job.Queue(), job.AccountID)
}

// whyNoCapacity returns the reason why no worker is free for the job, if none is.
func (s *situation) whyNoCapacity(job *models.Job) []WaitingReason {
	var total capacity.Capacity
	var ready time.Time
	for _, c := range s.capacityFor(job) {
		total.Idle, total.Busy, total.Booting, total.Most = total.Idle+c.Idle, total.Busy+c.Busy, total.Booting+c.Booting, total.Most+c.Most
		total.Quarantined += c.Quarantined
		total.Paused, total.Dear, total.BatchWaits = total.Paused || c.Paused, total.Dear || c.Dear, total.BatchWaits || c.BatchWaits
		total.Opens, total.Unmanaged, total.Pools = total.Opens+c.Opens, total.Unmanaged+c.Unmanaged, total.Pools+c.Pools
		total.Closed, total.Refused, total.Failing = total.Closed+c.Closed, total.Refused+c.Refused, total.Failing+c.Failing
		total.OpensAt, total.RefusedUntil = sooner(total.OpensAt, c.OpensAt), sooner(total.RefusedUntil, c.RefusedUntil)
		total.Refusal = cmp.Or(total.Refusal, c.Refusal)
		if c.NotBooting {
			if !total.NotBooting || c.BootRetryAt.Before(total.BootRetryAt) {
				total.BootRetryAt, total.BootFailure = c.BootRetryAt, c.BootFailure
			}
			total.NotBooting, total.BootFailures = true, max(total.BootFailures, c.BootFailures)
		}
		if c.Booting > 0 && c.BootSeconds != nil {
			at := c.BootingSince.Add(time.Duration(*c.BootSeconds * float64(time.Second)))
			if at.After(s.now) && (ready.IsZero() || at.Before(ready)) {
				ready = at
			}
		}
	}
	spared := s.avoids(job) && total.Idle == 1 && total.Busy > 0
	switch {
	case total.Idle > 0 && !spared:
		return s.whyWarm(job)
	case total.NotBooting && total.Opens == 0 && total.Most > 0 && !spared:
		return []WaitingReason{s.whyNotBooting(total)}
	case total.Booting+total.Opens+total.Unmanaged == 0 && total.Closed+total.Refused+total.Failing > 0 && !spared:
		return []WaitingReason{s.whyNoMachines(total)}
	case total.Booting > 0:
		message := text.Count(total.Booting, "suitable worker") + " " + verb(total.Booting, "is", "are") + " starting"
		if !ready.IsZero() {
			message += fmt.Sprintf(", ready in about %s", text.Duration(ready.Sub(s.now).Round(time.Second)))
		}
		return []WaitingReason{{Code: WaitCapacityBooting, Message: message + ".", Until: ready}}
	case spared:
		message := fmt.Sprintf("%s that can run it %s busy; the idle one has just failed it and may retry it from %s.",
			text.Count(total.Busy, "worker"), verb(total.Busy, "is", "are"), text.MomentToSecond(job.AvoidUntil.UTC(), s.now))
		return []WaitingReason{{Code: WaitCapacityExhausted, Message: message, Until: job.AvoidUntil}}
	case job.Lane == models.TierBatch && total.BatchWaits:
		until := job.QueuedAt.Add(time.Duration(s.paused[job.ID].Seconds*float64(time.Second)) + jobs.Policies[models.TierBatch].Patience)
		return []WaitingReason{{Code: WaitPrice, Message: "Waiting for cheaper machines, until " + text.Moment(until.UTC(), s.now) +
			" at the latest.", Until: until}}
	case total.Busy == 0 && total.Most == 0 && total.Dear:
		return []WaitingReason{{Code: WaitPrice, Message: "Suitable machines cost more than the price limits of their pools."}}
	case total.Busy == 0 && total.Most == 0 && total.Paused:
		return []WaitingReason{{Code: WaitPoolPaused, Message: "The pools that can run it are paused."}}
	case total.Busy == 0 && total.Most == 0 && total.Quarantined > 0:
		message := text.Count(total.Quarantined, "worker") + " that can run it " + verb(total.Quarantined, "is", "are") +
			" quarantined after failures, and no pool can start more."
		return []WaitingReason{{Code: WaitCapacityExhausted, Message: message}}
	case total.Busy == 0 && total.Most == 0:
		if s.tooDear(job) {
			return []WaitingReason{{Code: WaitPrice, Message: "No suitable worker is that cheap now."}}
		}
		if s.catalogue.Removed(job.Model) {
			return []WaitingReason{{Code: WaitNoPool, Message: "The model " + job.Model +
				" was removed from the catalogue. An admin can restore it."}}
		}
		if total.Pools > 0 {
			return []WaitingReason{{Code: WaitCapacityExhausted, Message: "The pools that can run it may have no workers: their maximum is 0."}}
		}
		return []WaitingReason{{Code: WaitNoPool, Message: "No pool and no worker can run it" + needs(job) + s.forOthers(job) + "."}}
	}
	if total.Unmanaged > 0 && total.Unmanaged == total.Most && total.Busy+total.Quarantined == 0 {
		return []WaitingReason{{Code: WaitCapacityExhausted,
			Message: "No suitable worker has registered. Reelay does not start the machines of these pools; it waits for their agents."}}
	}
	message := "No suitable worker is available"
	if total.Busy > 0 {
		message = text.Count(total.Busy, "worker") + " that can run it " + verb(total.Busy, "is", "are") + " busy"
	}
	if total.Most > 0 {
		message += fmt.Sprintf("; pool maximum is %d.", total.Most)
	} else {
		message += ", and no pool can start more."
	}
	return []WaitingReason{{Code: WaitCapacityExhausted, Message: message}}
}

// whyNotBooting is the reason for jobs whose only pools have machines that do not start.
func (s *situation) whyNotBooting(c capacity.Capacity) WaitingReason {
	message := fmt.Sprintf("No suitable worker starts: %s in a row failed to", text.Count(c.BootFailures, "machine"))
	if c.Busy > 0 {
		message = fmt.Sprintf("%s that can run it %s busy, and no more start: %s in a row failed to",
			text.Count(c.Busy, "worker"), verb(c.Busy, "is", "are"), text.Count(c.BootFailures, "machine"))
	}
	if c.BootRetryAt.After(s.now) {
		return WaitingReason{Code: WaitNotBooting, Message: message + ". The next attempt is at " + text.MomentToSecond(c.BootRetryAt.UTC(),
			s.now) + ".", Until: c.BootRetryAt, Cause: c.BootFailure}
	}
	return WaitingReason{Code: WaitNotBooting, Message: message + ". One is starting now.", Cause: c.BootFailure}
}

// whyNoMachines is the reason for jobs of whose pools none gets machines now.
func (s *situation) whyNoMachines(c capacity.Capacity) WaitingReason {
	message := "No suitable worker is available"
	if c.Busy > 0 {
		message = text.Count(c.Busy, "worker") + " that can run it " + verb(c.Busy, "is", "are") + " busy"
	}
	why := WaitingReason{Code: WaitCapacityExhausted, Cause: c.Refusal}
	switch {
	case c.Refused > 0 && c.Closed < c.Most:
		message += ": a provider has just refused machines. It is asked again at " + text.MomentToSecond(c.RefusedUntil.UTC(), s.now)
		why.Until = c.RefusedUntil
	case c.Failing > 0 && c.Closed < c.Most:
		message += ": the provider of the machines does not answer as it should"
	default:
		message += ": its pools have workers at certain hours only, again from " + text.Moment(c.OpensAt.UTC(), s.now)
		why.Until = c.OpensAt
	}
	why.Message = message + "."
	return why
}

// sooner returns the earlier of two times, or the one that is not zero.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// whyWarm returns the reason why a job does not start on an idle worker: a busy one that has its model
// in memory is expected to be free before the idle one would have loaded it.
func (s *situation) whyWarm(job *models.Job) []WaitingReason {
	wait, ok := s.estimates.WarmFor(job, nil, s.now.Sub(job.QueuedAt), jobs.Policies[job.Lane].WaitTarget)
	if !ok {
		return nil
	}
	message := fmt.Sprintf("A busy worker that has the model loaded is expected to be free in %s; loading it on another takes about %s. The job waits for it, at most %s.",
		whole(wait.Free), whole(wait.Load), whole(wait.Left))
	return []WaitingReason{{Code: WaitCapacityExhausted, Message: message, Until: s.now.Add(wait.Left)}}
}

func whole(d time.Duration) string { return text.Duration(d.Round(time.Second)) }

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
