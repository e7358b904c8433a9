package estimate

import (
	"math"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Deadline is what is expected of a job's finishBy, as things are now.
type Deadline struct {
	FinishBy time.Time
	// Feasible reports whether the job is expected to be complete by then; nil if that is unknown.
	Feasible *bool
	// EarliestFinish is the earliest time at which the job is expected to be complete, to the second: a
	// worker of any capacity starts it when its turn comes, loads the model, and renders slowly. It is zero
	// if it is unknown, or if the job expires before a worker is expected to start it.
	EarliestFinish time.Time
}

// deadline returns what is expected of a job's finishBy, or nil if it has none. saved is what its newest
// checkpoint holds, in percent.
func (o *Forecast) deadline(job *models.Job, q query, saved float64, now time.Time) *Deadline {
	if job.FinishBy.IsZero() || job.Status.Terminal() {
		return nil
	}
	d := &Deadline{FinishBy: job.FinishBy}
	if start, known := o.earliestStart(job, q, now); known {
		left := o.times.SlowSeconds(job) * (1 - saved/100)
		if job.Status.Live() {
			left = o.slowRest(job, q, now)
		} else {
			left += o.newWorkers.loads[job.Model]
		}
		in := func(seconds float64) time.Time {
			return now.Add(time.Duration(min(seconds, maxWait) * float64(time.Second)))
		}
		at := in(start + left).Round(time.Second)
		expires := !job.Status.Live() && job.StartedAt.IsZero() && !job.ExpiresAt.IsZero() && in(start).After(job.ExpiresAt)
		d.Feasible = new(!expires && !at.After(job.FinishBy))
		if !expires {
			d.EarliestFinish = at
		}
	}
	if !job.FinishBy.After(now) {
		d.Feasible = new(false)
	}
	return d
}

// slowRest returns how long a job that a worker holds takes yet, if its render is slow.
func (o *Forecast) slowRest(job *models.Job, q query, now time.Time) float64 {
	total := o.renderSeconds(o.serving(q), q.load)
	if total == 0 {
		total = o.times.Seconds(job) // its worker's kind has just ended
	}
	if job.Progress.UpdatedAt.IsZero() {
		total += o.newWorkers.loads[job.Model]
	} else {
		silent := max(now.Sub(job.Progress.UpdatedAt).Seconds(), 0)
		total = Remaining(total, silent, 0, job.Progress.Percent, silent)
	}
	return total * (1 + o.times.Margin(q.kind))
}

// earliestStart returns the seconds until a worker of any capacity can start a job, and false if that
// is unknown: the first of the present ones, or of those that can boot. A job without slack gets one
// of those at once.
func (o *Forecast) earliestStart(job *models.Job, q query, now time.Time) (seconds float64, known bool) {
	switch {
	case job.Status.Live():
		return 0, true
	case job.Status == models.JobBlocked, o.paused(q.Queue), q.maxRunning == 0:
		return 0, false
	}
	q.Needs = q.Needs.Also(job.Spent())
	seconds = o.bootedStart(job, q)
	if found, _ := o.estimate(q); found.WaitSeconds != nil {
		seconds = min(seconds, *found.WaitSeconds)
	}
	if job.Status == models.JobScheduled {
		seconds += max(job.RunAt.Sub(now).Seconds(), 0)
	}
	return seconds, !math.IsInf(seconds, 1)
}

// bootedStart returns the seconds until a worker that can boot now starts a job, or +Inf if none can. The
// jobs ahead get the first ones, and an account has no more workers than its running limit.
func (o *Forecast) bootedStart(job *models.Job, q query) float64 {
	room, boot := 0, math.Inf(1)
	var kinds []*class
	for _, c := range o.newWorkers.Capacity {
		kind := &class{Capability: o.catalogue.CapabilityOf(c.Offer), gpuType: c.GPUType}
		if n := Room(c); n > c.Idle && kind.Serves(q.Queue, q.account) {
			room += n
			kinds = append(kinds, kind)
			boot = min(boot, bootSeconds(c))
		}
	}
	if room == 0 {
		return boot
	}
	rounds := max((o.position(q, o.startTag(q), kinds)-1)/room, (q.running+q.ownAhead)/q.maxRunning)
	return boot + float64(rounds)*o.times.Seconds(job)
}

func bootSeconds(c capacity.Capacity) float64 {
	if c.BootSeconds == nil {
		return capacity.UnknownSlowBoot
	}
	return *c.BootSeconds
}
