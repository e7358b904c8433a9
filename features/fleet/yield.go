package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
)

// yieldSoon is the time within which a worker must become free for a late job to wait for it.
const yieldSoon = 30 * time.Second

// performer is a worker that can run late jobs, and its present work.
type performer struct {
	*backlog.Performer
	serves catalogue.Capability
	// left is how long its job still needs the worker, if it has one.
	left time.Duration
}

// yield is the decision that an attempt yields to a late job.
type yield struct {
	performer
	late backlog.LateJob
}

// planYields decides which attempts yield to late jobs, which must be in the order in which they
// start: one attempt for each job for which no worker is free soon. Of the attempts that can yield
// it takes those of the lowest lane, and of these the one that loses the least work.
func planYields(late []backlog.LateJob, performers []performer) []yield {
	left := slices.DeleteFunc(slices.Clone(performers), func(p performer) bool { return !p.freeSoon() && !p.canYield() })
	take := func(i int) performer {
		p := left[i]
		left = slices.Delete(left, i, i+1)
		return p
	}
	var all []yield
	for _, job := range late {
		soon := slices.IndexFunc(left, func(p performer) bool { return p.serves.Serves(job.Queue, job.AccountID) && p.freeSoon() })
		if soon >= 0 {
			take(soon)
			continue
		}
		best := -1
		for i := range left {
			if left[i].canYieldTo(job) && (best < 0 || left[i].cost(left[best]) < 0) {
				best = i
			}
		}
		if best >= 0 {
			all = append(all, yield{take(best), job})
		}
	}
	return all
}

// boot returns the expected duration of the worker's boot.
func (p *performer) boot() time.Duration {
	if p.BootSeconds == nil {
		return estimate.UnknownBoot
	}
	return seconds(*p.BootSeconds)
}

// freeSoon reports whether the worker is idle or will be soon. A boot that takes twice as long as
// usual may never end.
func (p *performer) freeSoon() bool {
	switch p.Status {
	case models.WorkerIdle:
		return true
	case models.WorkerBooting:
		age := seconds(p.AgeSeconds)
		return p.boot()-age <= yieldSoon && age <= 2*p.boot()
	}
	asked := p.AskedSeconds != nil && seconds(*p.AskedSeconds) < lease.YieldWithin
	return asked || p.left <= yieldSoon
}

// canYieldTo reports whether the worker's attempt may yield to a job.
func (p *performer) canYieldTo(job backlog.LateJob) bool {
	return job.Lane.Above(p.Lane) && p.serves.Serves(job.Queue, job.AccountID) && p.canYield()
}

// canYield reports whether the worker's attempt may yield at all.
func (p *performer) canYield() bool {
	return p.Status == models.WorkerBusy && estimate.MayYield(&p.Yielding, p.left, p.boot())
}

// cost compares the costs of interrupting two attempts.
func (p *performer) cost(other performer) int {
	saves := func(p *performer) int {
		if p.Saves {
			return 0
		}
		return 1
	}
	return cmp.Or(
		-cmp.Compare(slices.Index(models.Tiers, p.Lane), slices.Index(models.Tiers, other.Lane)),
		cmp.Compare(saves(p), saves(&other)),
		cmp.Compare(p.UnsavedSeconds, other.UnsavedSeconds),
		cmp.Compare(p.AttemptID, other.AttemptID))
}

// newPerformers returns what workers can run, and for how long they are busy.
func newPerformers(found []*backlog.Performer, known *catalogue.Snapshot, times estimate.RenderTimes) []performer {
	var all []performer
	for _, f := range found {
		p := performer{Performer: f, serves: known.CapabilityOf(f.Offer)}
		total := f.EstimatedGPUSeconds * times.Ratio(f.Kind, f.GPUType)
		p.left = seconds(estimate.Remaining(total, f.HeldSeconds, f.ResumedPercent, f.Percent, f.SilentSeconds))
		all = append(all, p)
	}
	return all
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
