package history

import (
	"slices"
	"time"

	"github.com/reelay/reelay/models"
)

// Figures contains what is known of a span of time. A figure is nil if it is unknown: nothing was
// recorded, no gauge was read, or there was nothing to take a percentile of.
type Figures struct {
	From, To time.Time
	// Covered is how much of the span is known.
	Covered time.Duration
	// Samples is the number of minutes in which gauges were read.
	Samples int
	// Jobs has a row for each lane and model, Pools for each pool, region and GPU type. Counters
	// are sums, and gauges sums over the samples.
	Jobs  []*models.HistoryJobs
	Pools []*models.HistoryPool

	gauges models.HistoryGauges
	// partial means that the figures cover only some lanes, models or pools.
	partial bool
}

// And returns the figures of two spans together, the earlier one first.
func (f *Figures) And(next *Figures) *Figures {
	both := &Figures{
		From: f.From, To: next.To, Covered: f.Covered + next.Covered, Samples: f.Samples + next.Samples,
		Jobs: mergeJobs(slices.Concat(f.Jobs, next.Jobs)), Pools: mergePools(slices.Concat(f.Pools, next.Pools)),
		gauges: f.gauges, partial: f.partial,
	}
	both.gauges.Add(next.gauges)
	return both
}

// Selection narrows figures. Empty fields stand for all.
type Selection struct {
	Lane  models.Tier
	Model string
	// Pool, Region and GPUType narrow the figures of workers.
	Pool, Region, GPUType string
}

// Of returns the figures of a selection. Figures that do not belong to a lane, model or pool are
// nil.
func (f *Figures) Of(s Selection) *Figures {
	if s == (Selection{}) {
		return f
	}
	part := *f
	part.Jobs, part.Pools, part.partial = nil, nil, true
	for _, j := range f.Jobs {
		if (s.Lane == "" || s.Lane == j.Lane) && (s.Model == "" || s.Model == j.Model) {
			part.Jobs = append(part.Jobs, j)
		}
	}
	for _, p := range f.Pools {
		if (s.Pool == "" || s.Pool == p.Pool) && (s.Region == "" || s.Region == p.Region) && (s.GPUType == "" || s.GPUType == p.GPUType) {
			part.Pools = append(part.Pools, p)
		}
	}
	return &part
}

// jobs adds up a figure of jobs.
func (f *Figures) jobs(of func(*models.HistoryJobs) float64) (sum float64) {
	for _, j := range f.Jobs {
		sum += of(j)
	}
	return sum
}

// pools adds up a figure of pools.
func (f *Figures) pools(of func(*models.HistoryPool) float64) (sum float64) {
	for _, p := range f.Pools {
		sum += of(p)
	}
	return sum
}

// per returns n divided by the known time in units.
func (f *Figures) per(unit time.Duration, n float64) *float64 {
	return ratio(n*unit.Seconds(), f.Covered.Seconds())
}

// ratio returns a / b, or nil if b is 0.
func ratio(a, b float64) *float64 {
	if b <= 0 {
		return nil
	}
	share := a / b
	return &share
}

// mean returns the mean of a gauge.
func (f *Figures) mean(sum float64) *float64 { return ratio(sum, float64(f.Samples)) }

// Submitted counts submitted jobs. Like all counts it is 0 also if nothing is known, which Covered
// shows.
func (f *Figures) Submitted() int {
	return int(f.jobs(func(j *models.HistoryJobs) float64 { return float64(j.Submitted) }))
}

// Started counts the first leases of runs.
func (f *Figures) Started() int {
	return int(f.jobs(func(j *models.HistoryJobs) float64 { return float64(j.Started) }))
}

// Completed counts runs that completed.
func (f *Figures) Completed() int {
	return int(f.jobs(func(j *models.HistoryJobs) float64 { return float64(j.Completed) }))
}

// Cancelled counts runs that were cancelled.
func (f *Figures) Cancelled() int {
	return int(f.jobs(func(j *models.HistoryJobs) float64 { return float64(j.Cancelled) }))
}

// Failures counts the failed runs by failure class.
func (f *Figures) Failures() map[models.FailureClass]int {
	all := map[models.FailureClass]int{}
	for _, j := range f.Jobs {
		for class, n := range j.Failures {
			all[class] += n
		}
	}
	return all
}

// Failed counts the failed runs, except those that customers caused, such as by invalid input.
func (f *Figures) Failed() (n int) {
	for class, count := range f.Failures() {
		if class.Audience() == models.AudienceOperator {
			n += count
		}
	}
	return n
}

// Attempts counts the attempts that ended.
func (f *Figures) Attempts() int {
	return int(f.pools(func(p *models.HistoryPool) float64 { return float64(p.Attempts) }))
}

// Preempted counts the attempts whose worker was lost or released them, without an operator's
// doing.
func (f *Figures) Preempted() int {
	return int(f.pools(func(p *models.HistoryPool) float64 { return float64(p.Preempted) }))
}

// Expired counts the attempts whose lease expired.
func (f *Figures) Expired() int {
	return int(f.pools(func(p *models.HistoryPool) float64 { return float64(p.Expired) }))
}

// SubmittedPerMinute returns how many jobs were submitted in a minute.
func (f *Figures) SubmittedPerMinute() *float64 { return f.per(time.Minute, float64(f.Submitted())) }

// StartedPerMinute returns how many runs got their first lease in a minute.
func (f *Figures) StartedPerMinute() *float64 { return f.per(time.Minute, float64(f.Started())) }

// CompletedPerMinute returns how many jobs completed in a minute.
func (f *Figures) CompletedPerMinute() *float64 { return f.per(time.Minute, float64(f.Completed())) }

// FailedPerMinute returns how many jobs failed in a minute.
func (f *Figures) FailedPerMinute() *float64 { return f.per(time.Minute, float64(f.Failed())) }

// FailureRate returns the share of ended jobs that failed, 0 to 1. Cancelled jobs, and failures
// that customers caused, do not count.
func (f *Figures) FailureRate() *float64 {
	return ratio(float64(f.Failed()), float64(f.Completed()+f.Failed()))
}

// CompletionRate is 1 - FailureRate.
func (f *Figures) CompletionRate() *float64 {
	return ratio(float64(f.Completed()), float64(f.Completed()+f.Failed()))
}

// Wait returns the quantile q (0 to 1) of the seconds between queuing and the first lease.
func (f *Figures) Wait(q float64) *float64 {
	return quantileOf(f.Jobs, q, func(j *models.HistoryJobs) models.Histogram { return j.Waits })
}

// Pickup returns the quantile q of the seconds between a lease and its start.
func (f *Figures) Pickup(q float64) *float64 {
	return quantileOf(f.Jobs, q, func(j *models.HistoryJobs) models.Histogram { return j.Pickups })
}

// Render returns the quantile q of the seconds for which completed runs kept workers busy.
func (f *Figures) Render(q float64) *float64 {
	return quantileOf(f.Jobs, q, func(j *models.HistoryJobs) models.Histogram { return j.Renders })
}

// Checkpoint returns the quantile q of the seconds for which checkpoints interrupted their render.
func (f *Figures) Checkpoint(q float64) *float64 {
	return quantileOf(f.Pools, q, func(p *models.HistoryPool) models.Histogram { return p.Checkpoints })
}

// Recovery returns the quantile q of the seconds between the loss of a worker and the next start of
// its job.
func (f *Figures) Recovery(q float64) *float64 {
	return quantileOf(f.Pools, q, func(p *models.HistoryPool) models.Histogram { return p.Recoveries })
}

// quantileOf returns the quantile q of a histogram that is spread over rows.
func quantileOf[R any](rows []*R, q float64, part func(*R) models.Histogram) *float64 {
	var all models.Histogram
	for _, row := range rows {
		all.Add(part(row))
	}
	return all.Quantile(q)
}
