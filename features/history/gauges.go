package history

import (
	"time"

	"github.com/reelay/reelay/models"
)

// Queued returns the mean number of queued jobs.
func (f *Figures) Queued() *float64 {
	return f.mean(f.jobs(func(j *models.HistoryJobs) float64 { return j.Queued }))
}

// Open returns the mean number of queued jobs of queues that were neither paused nor halted.
func (f *Figures) Open() *float64 {
	return f.mean(f.jobs(func(j *models.HistoryJobs) float64 { return j.Queued - j.Closed }))
}

// Running returns the mean number of jobs that workers held.
func (f *Figures) Running() *float64 {
	return f.mean(f.jobs(func(j *models.HistoryJobs) float64 { return j.Running }))
}

// OldestWait returns the longest wait that a queued job had, in seconds.
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

// Booting returns the mean number of workers that boot.
func (f *Figures) Booting() *float64 {
	return f.mean(f.pools(func(p *models.HistoryPool) float64 { return p.Booting }))
}

// Draining returns the mean number of workers that take no more jobs.
func (f *Figures) Draining() *float64 {
	return f.mean(f.pools(func(p *models.HistoryPool) float64 { return p.Draining }))
}

// Workers returns the mean number of workers, booting and draining ones included.
func (f *Figures) Workers() *float64 {
	return f.mean(f.pools(func(p *models.HistoryPool) float64 { return p.Idle + p.Busy + p.Booting + p.Draining }))
}

// WorkerUtilization returns the share of the workers that can take a job and have one, 0 to 1.
func (f *Figures) WorkerUtilization() *float64 {
	return ratio(f.pools(func(p *models.HistoryPool) float64 { return p.Busy }),
		f.pools(func(p *models.HistoryPool) float64 { return p.Busy + p.Idle }))
}

// GPUUtilization returns how busy the GPUs say they are, 0 to 1.
func (f *Figures) GPUUtilization() *float64 {
	return ratio(f.pools(func(p *models.HistoryPool) float64 { return p.GPUsBusy }),
		f.pools(func(p *models.HistoryPool) float64 { return p.GPUs }))
}

// PreemptionsPerHour returns how many attempts lost their worker in an hour.
func (f *Figures) PreemptionsPerHour() *float64 { return f.per(time.Hour, float64(f.Preempted())) }

// OperatorPreemptionsPerHour returns how many attempts lost their worker to an operator in an hour.
// PreemptionsPerHour leaves them out: they say nothing about the capacity.
func (f *Figures) OperatorPreemptionsPerHour() *float64 {
	return f.per(time.Hour, f.pools(func(p *models.HistoryPool) float64 { return float64(p.ByOperators) }))
}

// PreemptionRate returns how many attempts lost their worker for each hour of GPU work.
func (f *Figures) PreemptionRate() *float64 {
	return ratio(float64(f.Preempted())*3600, f.pools(func(p *models.HistoryPool) float64 { return p.GPUSeconds }))
}

// PreemptedShare returns the share of ended attempts that lost their worker, 0 to 1.
func (f *Figures) PreemptedShare() *float64 {
	return ratio(float64(f.Preempted()), float64(f.Attempts()))
}

// LeaseExpirationsPerMinute returns how many leases ran out in a minute.
func (f *Figures) LeaseExpirationsPerMinute() *float64 {
	return f.per(time.Minute, float64(f.Expired()))
}

// GPUHours returns the GPU hours of the attempts that ended, wasted ones included.
func (f *Figures) GPUHours() *float64 {
	return f.known(f.pools(func(p *models.HistoryPool) float64 { return p.GPUSeconds }) / 3600)
}

// WastedGPUHours returns how much of that was lost because an attempt did not succeed.
func (f *Figures) WastedGPUHours() *float64 {
	return f.known(f.pools(func(p *models.HistoryPool) float64 { return p.WastedGPUSeconds }) / 3600)
}

// known returns a sum, or nil if nothing is known of the time.
func (f *Figures) known(sum float64) *float64 {
	if f.Covered == 0 {
		return nil
	}
	return &sum
}

// Goodput returns the share of the GPU seconds that was not wasted, 0 to 1.
func (f *Figures) Goodput() *float64 {
	return ratio(f.pools(func(p *models.HistoryPool) float64 { return p.GPUSeconds - p.WastedGPUSeconds }),
		f.pools(func(p *models.HistoryPool) float64 { return p.GPUSeconds }))
}

// CostPerHour returns what the workers cost in an hour, in US dollars. It is nil if no worker has a
// price.
func (f *Figures) CostPerHour() *float64 {
	cost := f.pools(func(p *models.HistoryPool) float64 { return p.CostUSD })
	if cost == 0 {
		return nil
	}
	return f.mean(60 * cost)
}

// WastedUSDPerHour returns what the wasted GPU seconds of an hour cost, in US dollars. It is nil if
// no worker has a price.
func (f *Figures) WastedUSDPerHour() *float64 {
	if f.CostPerHour() == nil {
		return nil
	}
	return f.per(time.Hour, f.pools(func(p *models.HistoryPool) float64 { return p.WastedUSD }))
}
