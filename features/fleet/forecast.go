package fleet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
)

// The forecast of arrivals is the seasonal naive method, scaled by the recent level (Hyndman and
// Athanasopoulos, Forecasting: Principles and Practice, 3rd edition, sections 5.2 and 3.2):
//
//	season(h) = the mean of the arrivals in the same hour of the last 4 weeks
//	            (of yesterday, in the first week)
//	level     = (arrivals of the last 60 minutes + 10) / (season of these minutes + 10)
//	rate      = season(hour of the requested time) · level
//
// The 10 keeps a few jobs from changing the level much. The error is that of the same method over
// the last 24 hours: the sum of its errors over the sum of the arrivals. By Little's law, the
// number of busy workers is rate · seconds of a job.

const (
	// levelPrior is how many expected jobs are added to both sides of the level.
	levelPrior = 10
	// judgedHours is the number of hours over which the error is measured, and judgedLeast the
	// minimum.
	judgedHours, judgedLeast = 24, 3
)

// Expected describes the jobs that will arrive while a worker boots.
type Expected struct {
	Lane        models.Tier `json:"lane"`
	Model       string      `json:"model"`
	JobsPerHour float64     `json:"jobsPerHour"`
	// Error is the mean error of the forecast in the last 24 hours, relative to the arrivals. From
	// 1 on, the forecast adds nothing.
	Error float64 `json:"error"`
	// Workers is how many workers of the pool these jobs keep busy, reduced by the error.
	Workers float64 `json:"workers"`

	seconds float64 // GPU seconds of one job, by the catalogue
}

// series contains the arrivals of one lane and model by hour.
type series struct {
	since time.Time
	hours map[int64]float64
	jobs  float64
	work  float64
}

// hourOf numbers hours.
func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

const week, day = 7 * 24, 24

// known reports whether the arrivals were counted during the whole hour.
func (s *series) known(h int64) bool { return h > hourOf(s.since) }

// season returns how many jobs usually arrive in an hour, and whether there is data for it.
func (s *series) season(h int64) (jobs float64, known bool) {
	n := 0.0
	for back := range int64(models.ForecastWeeks) {
		if at := h - (back+1)*week; s.known(at) {
			jobs, n = jobs+s.hours[at], n+1
		}
	}
	switch {
	case n > 0:
		return jobs / n, true
	case s.known(h - day):
		return s.hours[h-day], true
	}
	return 0, false
}

// rate forecasts the arrivals per hour in an hour, from those of the 60 minutes that end at now.
func (s *series) rate(h int64, now time.Time) (jobs float64, known bool) {
	last := hourOf(now)
	part := float64(now.Unix()%3600) / 3600 // the part of this hour that has passed
	came := s.hours[last] + (1-part)*s.hours[last-1]
	ruleNow, knownNow := s.season(last)
	ruleLast, knownLast := s.season(last - 1)
	rule, known := s.season(h)
	if !knownNow || !knownLast || !known {
		return came, s.known(last - 1)
	}
	return rule * (came + levelPrior) / (part*ruleNow + (1-part)*ruleLast + levelPrior), true
}

// error returns the error of the method over the hours before now, each forecast at its beginning.
func (s *series) error(now time.Time) float64 {
	off, came, n := 0.0, 0.0, 0
	for h := hourOf(now) - judgedHours; h < hourOf(now); h++ {
		begin := time.Unix(h*3600, 0)
		said, known := s.rate(h, begin.Add(-time.Second))
		if !known || !s.known(h) {
			continue
		}
		off, came, n = off+math.Abs(said-s.hours[h]), came+s.hours[h], n+1
	}
	if n < judgedLeast || came == 0 {
		return 1
	}
	return off / came
}

// Forecast returns the expected arrivals at a time after now, by lane, for the lanes with a wait
// target.
func Forecast(history models.ArrivalHistory, now time.Time, ahead time.Duration) (all []Expected) {
	type key struct {
		lane  models.Tier
		model string
	}
	found := map[key]*series{}
	var order []key
	for _, h := range history.Hours {
		k := key{h.Tier, h.Model}
		if jobs.Policies[h.Tier].WaitTarget == jobs.NoTarget {
			continue
		}
		if found[k] == nil {
			found[k] = &series{since: history.Since, hours: map[int64]float64{}}
			order = append(order, k)
		}
		s := found[k]
		s.hours[hourOf(h.Hour)] += h.Jobs
		s.jobs, s.work = s.jobs+h.Jobs, s.work+h.GPUSeconds
	}
	slices.SortFunc(order, func(a, b key) int {
		if lane := slices.Index(models.Tiers, a.lane) - slices.Index(models.Tiers, b.lane); lane != 0 {
			return lane
		}
		return strings.Compare(a.model, b.model)
	})
	for _, k := range order {
		s := found[k]
		rate, known := s.rate(hourOf(now.Add(ahead)), now)
		if !known || rate <= 0 || s.jobs == 0 {
			continue
		}
		all = append(all, Expected{Lane: k.lane, Model: k.model, JobsPerHour: rate, Error: s.error(now), seconds: s.work / s.jobs})
	}
	return all
}

// expect assigns the jobs that will arrive while a worker boots to pools that can run them: first
// to workers that are needed anyway, then to present workers, then to the cheapest pools.
func expect(s snapshot, shares []*poolShare, able func(backlog.QueueDemand) []*poolShare) {
	taken := map[*poolShare]float64{}
	needed := func(p *poolShare) int { return p.busy - p.patient + p.others("") }
	for _, e := range s.expected {
		q := backlog.QueueDemand{Lane: e.Lane, Kind: backlog.Kind{Model: e.Model}}
		left := e.JobsPerHour / 3600 * e.seconds * max(1-e.Error, 0) // in workers, at the ratio 1
		given := map[*poolShare]float64{}
		pools := able(q)
		for _, limit := range []func(*poolShare) int{needed, (*poolShare).present, (*poolShare).most} {
			for _, p := range pools {
				ratio := s.times.Ratio(q.Kind, p.pool.GPUType)
				n := min(left*ratio, max(float64(min(limit(p), p.most()))-taken[p], 0))
				taken[p], given[p] = taken[p]+n, given[p]+n
				left -= n / max(ratio, 1e-9)
			}
		}
		for _, p := range pools {
			if e.Workers = given[p]; e.Workers > 0 {
				p.expected = append(p.expected, e)
			}
		}
	}
}

// foresee adds the workers that the pool needs for all expected jobs, rounded down, so that rare
// jobs keep no worker.
func (d *decision) foresee() {
	workers, perHour, off := 0.0, 0.0, 0.0
	for _, e := range d.demand.Expected {
		workers, perHour, off = workers+e.Workers, perHour+e.JobsPerHour, off+e.JobsPerHour*e.Error
	}
	need := int(workers+1e-9) + d.demand.Patient
	if need <= d.need {
		return
	}
	d.need = need
	d.reason += fmt.Sprintf("; %s with the forecast (%.0f jobs/h ± %.0f %%)", text.Count(need, "worker"), perHour, 100*off/perHour)
}
