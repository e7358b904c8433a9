package history

import (
	"time"

	"github.com/reelay/reelay/models"
)

// Queued returns the mean number of queued jobs.
func (f *Figures) Queued() *float64 {
	return f.mean(f.jobs(func(j *models.HistoryJobs) float64 { return j.Queued }))
}

// Open returns the mean number of queued jobs in queues that were neither paused nor halted.
func (f *Figures) Open() *float64 {
	return f.mean(f.jobs(func(j *models.HistoryJobs) float64 { return j.Queued - j.Closed }))
}

// Running returns the mean number of leased jobs.
func (f *Figures) Running() *float64 {
	return f.mean(f.jobs(func(j *models.HistoryJobs) float64 { return j.Running }))
}

// OldestWait returns the longest wait of a queued job, in seconds.
func (f *Figures) OldestWait() *float64 {
	longest := 0.0
	for _, j := range f.Jobs {
		longest = max(longest, j.OldestWaitMax)
	}
	if f.Samples == 0 {
		return nil
	}
	return &longest
}

// DeadLetters returns the mean number of open dead letters that operators must act on.
func (f *Figures) DeadLetters() *float64 {
	if f.partial {
		return nil
	}
	return f.mean(f.gauges.DeadLetters)
}

// Drain returns the mean time to empty all queues, in seconds.
func (f *Figures) Drain() *float64 {
	if f.partial {
		return nil
	}
	return ratio(f.gauges.DrainSeconds, float64(f.gauges.DrainSamples))
}

// Idle returns the mean number of idle workers.
func (f *Figures) Idle() *float64 {
	return f.mean(f.pools(func(p *models.HistoryPool) float64 { return p.Idle }))
}

// Busy returns the mean number of workers with a job.
func (f *Figures) Busy() *float64 {
	return f.mean(f.pools(func(p *models.HistoryPool) float64 { return p.Busy }))
}

// Booting returns the mean number of booting workers.
func (f *Figures) Booting() *float64 {
	return f.mean(f.pools(func(p *models.HistoryPool) float64 { return p.Booting }))
}

// Draining returns the mean number of draining workers.
func (f *Figures) Draining() *float64 {
	return f.mean(f.pools(func(p *models.HistoryPool) float64 { return p.Draining }))
}

// Workers returns the mean number of workers, including booting and draining ones.
func (f *Figures) Workers() *float64 {
	return f.mean(f.pools(func(p *models.HistoryPool) float64 { return p.Idle + p.Busy + p.Booting + p.Draining }))
}

// WorkerUtilization returns the share of workers with a job among those that can take one, 0 to 1.
func (f *Figures) WorkerUtilization() *float64 {
	return ratio(f.pools(func(p *models.HistoryPool) float64 { return p.Busy }),
		f.pools(func(p *models.HistoryPool) float64 { return p.Busy + p.Idle }))
}

// GPUUtilization returns the utilization that the GPUs report, 0 to 1.
func (f *Figures) GPUUtilization() *float64 {
	return ratio(f.pools(func(p *models.HistoryPool) float64 { return p.GPUsBusy }),
		f.pools(func(p *models.HistoryPool) float64 { return p.GPUs }))
}

// PreemptionsPerHour returns how many attempts per hour lost their worker.
func (f *Figures) PreemptionsPerHour() *float64 { return f.per(time.Hour, float64(f.Preempted())) }

// OperatorPreemptionsPerHour returns how many attempts per hour lost their worker because of an
// operator. PreemptionsPerHour excludes them, since they say nothing about the capacity.
func (f *Figures) OperatorPreemptionsPerHour() *float64 {
	return f.per(time.Hour, f.pools(func(p *models.HistoryPool) float64 { return float64(p.ByOperators) }))
}

// PreemptionRate returns how many attempts lost their worker per hour of GPU work.
func (f *Figures) PreemptionRate() *float64 {
	return ratio(float64(f.Preempted())*3600, f.Paid().Rendering().Seconds)
}

// PreemptedShare returns the share of ended attempts that lost their worker, 0 to 1.
func (f *Figures) PreemptedShare() *float64 {
	return ratio(float64(f.Preempted()), float64(f.Attempts()))
}

// LeaseExpirationsPerMinute returns how many leases expired per minute.
func (f *Figures) LeaseExpirationsPerMinute() *float64 {
	return f.per(time.Minute, float64(f.Expired()))
}

// Paid returns what was paid for.
func (f *Figures) Paid() (all models.Paid) {
	for _, p := range f.Pools {
		all.Add(p.Paid)
	}
	return all
}

// GPUHours returns the hours for which workers held jobs, including wasted ones.
func (f *Figures) GPUHours() *float64 { return f.known(f.Paid().Rendering().Seconds / 3600) }

// WastedGPUHours returns the render hours that no result or checkpoint kept.
func (f *Figures) WastedGPUHours() *float64 { return f.hours(models.PaidWasted) }

// PaidGPUHours returns the hours of all machines that were paid for.
func (f *Figures) PaidGPUHours() *float64 { return f.known(f.Paid().Total().Seconds / 3600) }

// hours returns the paid hours of a class.
func (f *Figures) hours(class models.PaidClass) *float64 {
	paid := f.Paid()
	return f.known(max(paid.Of(class).Seconds, 0) / 3600)
}

// known returns a sum, or nil if no part of the span is known.
func (f *Figures) known(sum float64) *float64 {
	if f.Covered == 0 {
		return nil
	}
	return &sum
}

// Goodput returns the share of the paid time that rendered what was kept, 0 to 1.
func (f *Figures) Goodput() *float64 {
	paid := f.Paid()
	return ratio(max(paid.Useful.Seconds, 0), paid.Total().Seconds)
}

// WastedShare returns the share of the time with jobs that was lost, 0 to 1.
func (f *Figures) WastedShare() *float64 {
	paid := f.Paid()
	return ratio(paid.Wasted.Seconds, paid.Rendering().Seconds)
}

// CostPerHour returns the cost of the machines per hour, in US dollars, or nil if no worker has a
// price.
func (f *Figures) CostPerHour() *float64 {
	cost := f.Paid().Total().USD
	if cost == 0 {
		return nil
	}
	return f.per(time.Hour, cost)
}

// WastedUSDPerHour returns the cost per hour of the wasted render time, in US dollars, or nil if no
// worker has a price.
func (f *Figures) WastedUSDPerHour() *float64 {
	if f.CostPerHour() == nil {
		return nil
	}
	return f.per(time.Hour, f.Paid().Wasted.USD)
}

// CostPerVideo returns what the machines cost for each completed run, in US dollars, or nil if no run
// completed or no worker has a price.
func (f *Figures) CostPerVideo() *float64 {
	cost := f.Paid().Total().USD
	if cost == 0 || f.partial {
		return nil
	}
	return ratio(cost, float64(f.Completed()))
}
