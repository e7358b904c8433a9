package simulate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
)

// rounds is the state of the scaler.
type rounds struct {
	pending bool // a round is scheduled
	wakeAt  float64
	known   []*backlog.RenderTime
}

// scaleEvery is the time between two rounds of the scaler, in seconds.
const scaleEvery = 1

// dirty requests a round of the scaler at its next time. Rounds in which nothing has changed are
// skipped.
func (s *sim) dirty() {
	if !s.rounds.pending {
		s.rounds.pending = true
		s.later((math.Floor(s.now/scaleEvery)+1)*scaleEvery, s.scale)
	}
}

// scale runs one round of the scaler.
func (s *sim) scale() {
	s.rounds.pending = false
	var queues []backlog.QueueDemand
	for _, key := range s.order {
		if d := s.demand[key]; d.Depth > 0 {
			queues = append(queues, *d)
		}
	}
	now := clock(s.now)
	in := fleet.NewSnapshot(now, queues, estimate.NewRenderTimes(s.rounds.known), s.look())
	for _, p := range s.pools {
		var workers []*models.Worker
		patient, ending := 0, p.ending
		for _, w := range p.workers {
			if w.noticed || w.leaves {
				ending++
			} else {
				workers = append(workers, &w.Worker)
				if a := w.attempt; a != nil && (a.lane == models.TierBatch || a.needs == needsCheap) {
					patient++
				}
			}
		}
		in.Add(p.Pool, workers, ending, patient, p.start())
	}
	for i, d := range fleet.Plan(in) {
		p := s.pools[i]
		p.stay = d.Stay.Seconds()
		for _, id := range d.Drain {
			if w := s.byID[id]; w.attempt != nil {
				w.leaves = true
			} else {
				s.end(w)
			}
		}
		if d.Closed {
			for _, w := range slices.Clone(p.workers) {
				if w.Status == models.WorkerBooting {
					s.end(w)
				}
			}
		}
		created := 0
		for range d.Create {
			if s.create(p) {
				created++
			}
		}
		if d.Create == 0 {
			continue
		}
		fleet.Answered(p.Pool, created, d.Create, fleet.Stockout, now)
		if p.GrowBy > 0 {
			s.dirty() // other pools may have machines, or this one more
		}
	}
	s.wake()
}

// wake schedules a round for times at which the plan may change without an event: a worker has been
// idle long enough to leave, a pool opens or closes, or a provider that had no machines is asked
// again.
func (s *sim) wake() {
	next := math.Inf(1)
	if s.past.policy != (fleet.Policy{}) {
		next = (math.Floor(s.now/inputAge) + 1) * inputAge
	}
	for _, p := range s.pools {
		for _, w := range p.idle {
			if at := w.since + p.stay; at > s.now {
				next = min(next, at)
			}
		}
		if p.ActiveHours != "" {
			next = min(next, (math.Floor(s.now/60)+1)*60)
		}
		for _, until := range []time.Time{p.BackoffUntil, p.BootRetryAt} {
			if at := until.Sub(epoch).Seconds(); at > s.now {
				next = min(next, at)
			}
		}
	}
	if !math.IsInf(next, 1) && (s.rounds.wakeAt <= s.now || next < s.rounds.wakeAt) {
		s.rounds.wakeAt = next
		s.later(next, s.dirty)
	}
}

// create boots a machine. It reports false if the provider has none.
func (s *sim) create(p *pool) bool {
	if p.down > 0 || p.trace != nil && len(p.workers) >= p.trace.at(s.now) {
		s.result.Refused++
		return false
	}
	s.born++
	w := &worker{pool: p, born: s.now, bornPaid: p.paid(s.now), loaded: -1}
	w.ID, w.PoolID, w.Status = models.WorkerID(fmt.Sprint("worker-", s.born)), p.ID, models.WorkerBooting
	p.workers = append(p.workers, w)
	s.byID[w.ID] = w
	s.result.Machines++
	boot := s.Machines.Boot.draw(p.random.NormFloat64())
	life := p.random.ExpFloat64()
	limit := float64(p.BootLimitSeconds)
	s.later(s.now+min(boot, limit), func() { s.booted(w, boot <= limit) })
	if rate := s.Machines.PreemptionsPerHour; rate > 0 && p.CapacityClass == models.CapacitySpot {
		s.later(s.now+life*3600/rate, func() { s.preempt(w, s.Machines.NoticeSeconds) })
	}
	return true
}

// booted ends the boot of a machine that started, or did not start, in time.
func (s *sim) booted(w *worker, inTime bool) {
	if s.byID[w.ID] != w || w.Status != models.WorkerBooting {
		return
	}
	if !inTime {
		fleet.BootEnded(w.pool.Pool, clock(w.born), clock(s.now))
		s.end(w)
		return
	}
	fleet.BootStarted(w.pool.Pool)
	s.charge(w, classBoot, s.now-w.born)
	w.RegisteredAt = clock(s.now)
	w.pool.boots = append(w.pool.boots, s.now-w.born)
	if w.noticed {
		w.Status, w.since = models.WorkerDraining, s.now
		return
	}
	s.rest(w)
	s.dirty()
	s.dispatch()
}

// rest makes a worker idle.
func (s *sim) rest(w *worker) {
	w.Status, w.since, w.IdleSince = models.WorkerIdle, s.now, clock(s.now)
	w.pool.idle = append(w.pool.idle, w)
}

func (s *sim) unidle(w *worker) {
	p := w.pool
	i := slices.Index(p.idle, w)
	p.idle = slices.Delete(p.idle, i, i+1)
}

// end ends a worker that has no job, and then its machine, which is paid for until it is gone.
func (s *sim) end(w *worker) {
	s.retire(w)
	p, paid := w.pool, w.pool.paid(s.now)
	p.ending++
	seconds := s.Machines.ending()
	s.later(s.now+seconds, func() {
		p.ending--
		s.result.Seconds.Ending += seconds
		s.result.PaidSeconds += seconds
		s.result.CostUSD += p.paid(s.now) - paid
		s.dirty()
	})
}

// retire ends a worker that has no job.
func (s *sim) retire(w *worker) {
	switch w.Status {
	case models.WorkerBooting:
		s.charge(w, classBoot, s.now-w.born)
	case models.WorkerIdle:
		s.charge(w, classIdle, s.now-w.since)
		s.unidle(w)
	default: // it drains
		s.charge(w, classIdle, s.now-w.since)
	}
	s.bury(w)
}

// bury removes a worker from its pool and adds its cost.
func (s *sim) bury(w *worker) {
	p := w.pool
	if !w.RegisteredAt.IsZero() {
		p.lives = append(p.lives, estimate.Life{Lived: clock(s.now).Sub(w.RegisteredAt), Taken: w.taken})
		p.lives = p.lives[max(len(p.lives)-estimate.NewestLives, 0):]
	}
	i := slices.Index(p.workers, w)
	p.workers = slices.Delete(p.workers, i, i+1)
	delete(s.byID, w.ID)
	w.Status = models.WorkerTerminated
	s.result.PaidSeconds += s.now - w.born
	s.result.CostUSD += p.paid(s.now) - w.bornPaid
	s.dirty()
}

// preempt takes a machine away after a notice of so many seconds.
func (s *sim) preempt(w *worker, notice float64) {
	if s.byID[w.ID] != w || w.noticed {
		return
	}
	s.result.Preemptions++
	w.taken = true
	s.past.preempted(w.pool.Region, s.now)
	if notice == 0 {
		s.vanish(w)
		return
	}
	w.noticed = true
	s.dirty()
	s.later(s.now+notice, func() { s.vanish(w) })
	switch a := w.attempt; {
	case w.Status == models.WorkerIdle:
		s.charge(w, classIdle, s.now-w.since)
		s.unidle(w)
		w.Status, w.since = models.WorkerDraining, s.now
	case a == nil, a.end <= s.now+min(a.save, notice):
	case s.now < a.rendering:
		s.yield(a, 0) // there is no work to save yet
	case math.IsInf(a.interval, 1):
		// Without checkpoints the worker continues as long as it can.
	case a.save <= notice:
		s.later(s.now+a.save, func() { s.yield(a, a.save) })
	}
}

// yield queues the job of a worker that got notice, once its checkpoint is saved, which took save
// seconds.
func (s *sim) yield(a *attempt, save float64) {
	w := a.worker
	if w.attempt != a {
		return
	}
	j := s.interrupt(a, s.now-save, save > 0 || s.now > a.rendering, save)
	w.Status, w.since = models.WorkerDraining, s.now
	s.again(j)
}

// vanish ends a machine at once. If it had a job and gave no notice, the loss is noticed later.
func (s *sim) vanish(w *worker) {
	if s.byID[w.ID] != w {
		return
	}
	a := w.attempt
	if a == nil {
		s.retire(w)
		return
	}
	j := s.interrupt(a, s.now, false, 0)
	s.bury(w)
	if w.noticed {
		s.again(j)
		return
	}
	s.unnoticed[j] = true
	s.later(s.now+s.Machines.DetectSeconds, func() {
		delete(s.unnoticed, j)
		s.again(j)
	})
}

// happen schedules the events of the machines.
func (s *sim) happen() {
	for _, r := range s.Reclaims {
		s.later(r.AtHour*3600, func() { s.reclaim(r) })
	}
	stop := func(matches func(*pool) bool, from, to float64, kill bool) {
		s.later(from*3600, func() {
			for _, p := range s.pools {
				if !matches(p) {
					continue
				}
				p.down++
				for _, w := range slices.Clone(p.workers) {
					if kill {
						s.preempt(w, 0)
					}
				}
			}
		})
		s.later(to*3600, func() {
			for _, p := range s.pools {
				if matches(p) {
					p.down--
				}
			}
			s.dirty()
		})
	}
	for _, o := range s.Outages {
		stop(func(p *pool) bool { return p.Region == o.Region }, o.FromHour, o.ToHour, true)
	}
	for _, o := range s.Stockouts {
		stop(func(p *pool) bool { return p.Name == o.Pool }, o.FromHour, o.ToHour, false)
	}
	for _, change := range s.Prices {
		s.reprice(change)
	}
	for _, p := range s.pools {
		if p.trace != nil {
			s.follow(p)
		}
	}
}

// reclaim takes a share of the SPOT machines away.
func (s *sim) reclaim(r Reclaim) {
	random := s.stream(3, uint64(s.now))
	notice := s.Machines.NoticeSeconds
	if r.NoticeSeconds != nil {
		notice = *r.NoticeSeconds
	}
	for _, p := range s.pools {
		if p.CapacityClass != models.CapacitySpot || r.Region != "" && p.Region != r.Region {
			continue
		}
		chosen := slices.Clone(p.workers)
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		for _, w := range chosen[:int(math.Round(r.Share*float64(len(chosen))))] {
			s.later(s.now+random.Float64()*r.WithinSeconds, func() { s.preempt(w, notice) })
		}
	}
}

// follow removes machines according to a trace, the newest first.
func (s *sim) follow(p *pool) {
	most := p.trace.at(s.now)
	for _, w := range slices.Clone(p.workers) {
		if most--; most < 0 {
			s.preempt(w, s.Machines.NoticeSeconds)
		}
	}
	s.later(s.now+p.trace.gap, func() { s.follow(p) })
}

// reprice schedules a new price of a pool, and when the scaler learns of it.
func (s *sim) reprice(change Price) {
	i := slices.IndexFunc(s.pools, func(p *pool) bool { return p.Name == change.Pool })
	if i < 0 {
		return
	}
	p, at := s.pools[i], change.AtHour*3600
	if change.KnownHours > 0 {
		s.later(at-change.KnownHours*3600, func() {
			price := p.PricePerHourUSD
			p.QuotedUSD = &price
			p.QuoteAhead = append(p.QuoteAhead, capacity.PriceStep{From: clock(at), PricePerHourUSD: change.PricePerHourUSD})
			slices.SortFunc(p.QuoteAhead, func(a, b capacity.PriceStep) int { return a.From.Compare(b.From) })
			s.dirty()
		})
	}
	s.later(at, func() {
		p.priceSum, p.priceSince = p.paid(s.now), s.now
		p.PricePerHourUSD = change.PricePerHourUSD
		p.QuoteAhead = slices.DeleteFunc(p.QuoteAhead, func(step capacity.PriceStep) bool { return !step.From.After(clock(at)) })
		if p.QuotedUSD != nil {
			p.QuotedUSD = &p.PricePerHourUSD
		}
		s.dirty()
	})
}
