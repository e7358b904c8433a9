package simulate

import (
	"container/heap"
	"context"
	"math"
	"slices"

	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
)

// Run simulates a scenario to its end. progress, if not nil, is called from time to time with the
// part of the jobs that has ended. Run returns the error of ctx if that ends first.
func Run(ctx context.Context, sc *Scenario, progress func(done float64)) (*Result, error) {
	return newSim(sc).run(ctx, progress)
}

func (s *sim) run(ctx context.Context, progress func(float64)) (*Result, error) {
	for n := 0; len(s.events) > 0; n++ {
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if progress != nil {
				progress(1 - float64(s.left)/float64(max(len(s.jobs), 1)))
			}
		}
		e := heap.Pop(&s.events).(event)
		if end := s.Hours * 3600; e.at > s.until || s.left == 0 && e.at > end {
			s.now = max(s.now, min(e.at, end))
			break
		}
		s.now = e.at
		e.do()
	}
	return s.finish(), nil
}

// schedule makes the events that do not depend on others.
func (s *sim) schedule() {
	if len(s.jobs) > 0 {
		s.later(s.jobs[0].arrived, s.arrive)
	}
	s.happen()
	s.sample()
	s.later(0, s.scale)
}

// arrive queues the next job of the scenario.
func (s *sim) arrive() {
	j := s.jobs[s.arrived]
	s.arrived++
	if j.finishBy < s.now+3600 || math.IsInf(j.finishBy, 1) { // as models.CountArrivalHours does
		s.past.arrive(j.tier, j.kind, s.now)
	}
	s.queue(j)
	if s.arrived < len(s.jobs) {
		s.later(s.jobs[s.arrived].arrived, s.arrive)
	}
	s.dispatch()
}

// queue adds a job to its lane. A promoted job stays promoted.
func (s *sim) queue(j *job) {
	j.state = queued
	j.queuing++
	s.require(j)
	s.join(j, s.now)
	s.dirty()
}

// join adds a job, queued since a given time, to its line, and promotes it when the lane's patience
// ends.
func (s *sim) join(j *job, since float64) {
	s.lines.add(j, models.Line{Lane: j.lane, Promoted: j.lane != j.tier})
	s.count(j, 1)
	after, next, moves := patience(j.tier, j.lane)
	if !moves {
		return
	}
	turn := j.queuing
	s.later(since+after, func() {
		if j.state == queued && j.queuing == turn {
			s.count(j, -1)
			s.lines.remove(j)
			j.lane = next
			s.join(j, since)
			s.dirty()
		}
	})
}

// count adds a job to the demand that the scaler sees, or removes it.
func (s *sim) count(j *job, n float64) {
	lane := j.place.line.Lane
	key := demandKey{lane, j.kind.Kind, j.needs}
	d := s.demand[key]
	if d == nil {
		d = &backlog.QueueDemand{Lane: lane, Kind: j.kind.Kind, Needs: needsOfJobs[j.needs]}
		s.demand[key] = d
		s.order = append(s.order, key)
	}
	d.Depth += n
	d.GPUSeconds = d.Depth * j.kind.estimate
	s.queues[lane] += int(n)
}

// dispatch assigns jobs to idle workers: each to the one on which it costs least, and among those of
// a pool to the one that became idle last.
func (s *sim) dispatch() {
	for {
		var best *worker
		var least estimate.StartCost
		for _, p := range s.pools {
			if len(p.idle) == 0 {
				continue
			}
			first := s.lines.next(p, nil)
			if first == nil {
				continue
			}
			w, cost := s.cheapest(p, first)
			if best == nil || cost.Compare(least) < 0 {
				best, least = w, cost
			}
		}
		if best == nil {
			return
		}
		s.begin(best, s.lines.next(best.pool, func(model int) int {
			if model == best.loaded {
				return 0
			}
			return 1
		}))
	}
}

// cheapest returns the idle worker of a pool on which a job costs least.
func (s *sim) cheapest(p *pool, j *job) (*worker, estimate.StartCost) {
	w, load := p.idle[len(p.idle)-1], p.start().Load.Seconds()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if p.idle[i].loaded == j.kind.model {
			w, load = p.idle[i], 0
			break
		}
	}
	return w, estimate.StartCost{PricePerHourUSD: p.PricePerHourUSD, LoadSeconds: load, RenderSeconds: j.kind.estimate * p.ratio}
}

// begin starts a job on an idle worker.
func (s *sim) begin(w *worker, j *job) {
	s.count(j, -1)
	s.lines.start(j)
	j.state = working
	if math.IsNaN(j.started) {
		j.started = s.now
	}
	s.charge(w, classIdle, s.now-w.since)
	s.unidle(w)
	w.Status = models.WorkerBusy
	p := w.pool
	a := &attempt{job: j, worker: w, began: s.now, rendering: s.now, ratio: p.ratio, interval: s.interval(p, j.kind.model)}
	if w.loaded != j.kind.model {
		load := s.Machines.Load.draw(p.random.NormFloat64())
		p.loads = append(p.loads, load)
		a.rendering += load
	}
	if j.saved {
		a.rendering += s.Machines.Restore.draw(p.random.NormFloat64())
	}
	a.save = s.Policy.SaveSeconds.draw(p.random.NormFloat64())
	work := j.left * a.ratio
	if !math.IsInf(a.interval, 1) {
		a.saves = max(int(math.Ceil(work/a.interval))-1, 0)
	}
	a.end = a.rendering + work + float64(a.saves)*a.save
	w.attempt = a
	s.dirty()
	s.later(a.end, func() {
		if w.attempt == a {
			s.complete(a)
		}
	})
}

// complete ends a rendered job.
func (s *sim) complete(a *attempt) {
	j, w := a.job, a.worker
	s.charge(w, classLoad, a.rendering-a.began)
	s.charge(w, classUseful, j.left*a.ratio)
	s.saving(a, float64(a.saves)*a.save)
	s.recovered(a)
	w.loaded = j.kind.model
	s.learn(a)
	j.left, j.state, j.ended = 0, completed, s.now
	s.left--
	s.detach(a)
	s.lines.release(j.account)
	switch {
	case w.leaves:
		w.Status, w.since = models.WorkerDraining, s.now
		s.end(w)
	case w.noticed:
		w.Status, w.since = models.WorkerDraining, s.now
	default:
		s.rest(w)
	}
	s.dirty()
	s.dispatch()
}

// saving charges the time for which checkpoints interrupted a render.
func (s *sim) saving(a *attempt, seconds float64) {
	s.charge(a.worker, classWasted, seconds)
	s.result.SavingSeconds += seconds
}

// learn adds a render to the known render times, as Reelay does.
func (s *sim) learn(a *attempt) {
	key := learnedKey{a.kind.Kind, a.worker.pool.GPUType}
	t := s.learned[key]
	if t == nil {
		t = &backlog.RenderTime{Kind: a.kind.Kind, GPUType: key.gpu}
		s.learned[key] = t
	}
	if a.saved {
		return // it rendered only a part
	}
	if t.Samples == 0 {
		s.rounds.known = append(s.rounds.known, t)
	}
	estimate.Learn(t, backlog.Rendered{Kind: key.Kind, GPUType: key.gpu, Seconds: s.now - a.began, EstimatedSeconds: a.kind.estimate})
}

// detach ends a worker's attempt, and counts it for the plan of checkpoints.
func (s *sim) detach(a *attempt) {
	p := a.worker.pool
	a.worker.attempt = nil
	hours := (s.now - a.began) / 3600
	s.result.Saves += a.saves
	for _, r := range p.records {
		r.BusyHours += hours
	}
	if n := min(a.saves, checkpoints.NewestSaves); n > 0 {
		r := p.records[a.kind.model]
		r.Saves += a.saves
		for range n {
			r.SaveSeconds = append(r.SaveSeconds, a.save)
		}
		if over := len(r.SaveSeconds) - checkpoints.NewestSaves; over > 0 {
			r.SaveSeconds = slices.Delete(r.SaveSeconds, 0, over)
		}
	}
}

// recovered records how long a job that lost its worker waited until it rendered again.
func (s *sim) recovered(a *attempt) {
	if !math.IsNaN(a.lost) {
		s.recover = append(s.recover, a.rendering-a.lost)
		a.lost = math.NaN()
	}
}

// interrupt ends an attempt whose worker leaves. If keep is set, a checkpoint contains all rendered
// work, and saving its last part took extra seconds; otherwise only the work of the last regular
// checkpoint is kept. interrupt returns the job, which the caller must queue again.
func (s *sim) interrupt(a *attempt, at float64, keep bool, extra float64) *job {
	j, w := a.job, a.worker
	s.result.Interruptions++
	s.charge(w, classLoad, max(min(at, a.rendering)-a.began, 0))
	for _, r := range w.pool.records {
		r.Losses++
	}
	done, spent, saves := a.progress(at)
	kept := float64(saves) * a.interval
	if saves == 0 {
		kept = 0
	}
	if keep {
		kept = done
	}
	if kept > 0 {
		j.saved = true
	}
	s.charge(w, classUseful, kept)
	s.charge(w, classWasted, spent-kept+extra)
	s.result.SavingSeconds += spent - done + extra
	s.result.LostSeconds += done - kept
	s.result.MostLost = max(s.result.MostLost, done-kept)
	a.saves = saves
	if at >= a.rendering {
		s.recovered(a)
		w.loaded = j.kind.model
	}
	j.left = max(j.left-kept/a.ratio, 1e-9)
	if math.IsNaN(j.lost) {
		j.lost = at
	}
	s.detach(a)
	return j
}

// progress returns the seconds rendered until a time, the seconds that this took, and the number of
// checkpoints saved.
func (a *attempt) progress(at float64) (done, spent float64, saves int) {
	spent = max(at-a.rendering, 0)
	if a.saves == 0 {
		return spent, spent, 0
	}
	cycle := a.interval + a.save
	saves = min(int(spent/cycle), a.saves)
	rest := spent - float64(saves)*cycle
	if saves < a.saves {
		rest = min(rest, a.interval)
	}
	return float64(saves)*a.interval + rest, spent, saves
}

// again queues a job that lost its worker, before the other jobs of its account.
func (s *sim) again(j *job) {
	j.order = j.seq - int64(len(s.jobs)) - 1
	s.lines.release(j.account)
	s.queue(j)
	s.dispatch()
}
