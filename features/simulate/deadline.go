package simulate

import (
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// needsOfJobs lists the possible requirements of jobs, which depend on the slack before their
// deadline.
var needsOfJobs = []models.Needs{"", models.Needs("").WithSlack(), models.Needs("").WithoutSlack(false),
	models.Needs("").WithoutSlack(true)}

const (
	needsNothing = iota
	needsCheap
	needsNow
	needsSafeNow
)

// classOf numbers jobs by their model and needs.
func classOf(model, needs int) int { return model*len(needsOfJobs) + needs }

func (j *job) class() int { return classOf(j.kind.model, j.needs) }

// recheck is after how many seconds the capacity for a job without slack is looked at again, as in
// package change.
const recheck = 60

// lastBoots is the number of boots that count, as in capacity.OnDemandBoots.
const lastBoots = 20

// start returns how long a new worker of the pool takes, as measured so far.
func (p *pool) start() fleet.Start {
	median := func(last []float64, newest int) float64 {
		last = slices.Sorted(slices.Values(last[max(len(last)-newest, 0):]))
		if len(last) == 0 {
			return 0
		}
		return last[len(last)/2]
	}
	return fleet.NewStart(median(p.boots, lastBoots), median(p.loads, estimate.NewestLoads))
}

// require sets the requirements of a job that enters a queue, as package change does. A job with
// slack is checked again when the slack ends.
func (s *sim) require(j *job) {
	if math.IsInf(j.finishBy, 1) || s.Anywhere {
		return
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	times := estimate.NewRenderTimes(s.rounds.known)
	mean := j.kind.estimate * times.Ratio(j.kind.Kind, "") * j.left / j.work
	slow, start := seconds(mean*(1+times.Margin(j.kind.Kind))), seconds(s.safeBoot(j)+s.Machines.Load.Median)
	until := change.SlackUntil(clock(j.finishBy), slow, start).Sub(epoch).Seconds()
	switch {
	case j.finishBy <= s.now:
		j.needs = needsNothing
		return
	case until <= s.now:
		j.needs = s.possible(j, needsSafeNow, needsNow, (*pool).free)
		spot := s.survivals(j)
		if len(spot) > 0 && change.Bearable(change.Risk(spot, seconds(mean), slow, start, seconds(j.finishBy-s.now))) {
			j.needs = needsNow
		}
		until = min(s.now+recheck, j.finishBy)
	default:
		j.needs = s.possible(j, needsCheap, needsNothing, func(p *pool, _ time.Time) bool { return p.MaxWorkers > 0 })
	}
	turn := j.queuing
	s.later(until, func() {
		if j.state != queued || j.queuing != turn {
			return
		}
		line := j.place.line.Line
		s.count(j, -1)
		s.lines.remove(j)
		s.require(j)
		s.lines.add(j, line)
		s.count(j, 1)
		s.dirty()
		s.dispatch()
	})
}

// survivals returns how long the workers of the spot pools live that can run a job.
func (s *sim) survivals(j *job) (found []estimate.Survival) {
	for _, p := range s.pools {
		if p.CapacityClass != models.CapacitySpot || !p.serves[classOf(j.kind.model, needsNow)] {
			continue
		}
		lives := slices.Clone(p.lives)
		for _, w := range p.workers {
			if w.Status != models.WorkerBooting {
				lives = append(lives, estimate.Life{Lived: clock(s.now).Sub(w.RegisteredAt)})
			}
		}
		found = append(found, estimate.NewSurvival(lives[max(len(lives)-estimate.NewestLives, 0):]))
	}
	return found
}

// free reports whether a worker of the pool is idle or can be booted now.
func (p *pool) free(now time.Time) bool {
	return len(p.idle) > 0 || len(p.workers) < p.MaxWorkers && !p.BackoffUntil.After(now) && !p.NotBooting() && !fleet.OutsideHours(p.Pool, now)
}

// possible returns needs if a pool with room can meet them, and otherwise the alternative.
func (s *sim) possible(j *job, needs, otherwise int, room func(*pool, time.Time) bool) int {
	class, now := classOf(j.kind.model, needs), clock(s.now)
	if slices.ContainsFunc(s.pools, func(p *pool) bool { return p.serves[class] && room(p, now) && p.offer.ServesLane(j.lane) }) {
		return needs
	}
	return otherwise
}

// safeBoot returns the longest expected boot of an on-demand worker, in seconds.
func (s *sim) safeBoot(j *job) float64 {
	longest := 0.0
	for _, p := range s.pools {
		if p.CapacityClass != models.CapacityOnDemand || !p.serves[classOf(j.kind.model, needsNothing)] {
			continue
		}
		last := slices.Sorted(slices.Values(p.boots[max(len(p.boots)-lastBoots, 0):]))
		if len(last) == 0 {
			last = []float64{capacity.UnknownSlowBoot}
		}
		longest = max(longest, last[int(math.Ceil(0.9*float64(len(last))))-1])
	}
	return longest
}
