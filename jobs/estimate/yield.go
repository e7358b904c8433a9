package estimate

import (
	"slices"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
)

const (
	// UnknownBoot is how long a boot is expected to take before one was measured.
	UnknownBoot = time.Minute
	// yieldDone is the percentage from which a job is no longer interrupted.
	yieldDone = 90
	// yieldLoss is how much work may be lost by an attempt whose runtime may not save checkpoints.
	// The agent has the same limit.
	yieldLoss = time.Minute
	// yieldPause is how long a job runs before it yields again, and maxYields how often it may
	// yield within an hour.
	yieldPause = 10 * time.Minute
	maxYields  = 3
	// yieldSave is how many seconds a forecast allows for the request and the checkpoint.
	yieldSave = 10
)

// MayYield reports whether the attempt of a busy worker may yield to a job of a higher lane. left
// is how long the attempt still needs the worker, and boot how long a new worker takes to boot.
func MayYield(a *backlog.Yielding, left, boot time.Duration) bool {
	switch {
	case !a.Renders, !slices.Contains(a.YieldingTiers, a.Lane):
		return false
	case a.AskedSeconds != nil, a.Yields >= maxYields, a.YieldedSeconds != nil && *a.YieldedSeconds < yieldPause.Seconds():
		return false
	case a.Percent >= yieldDone, left <= boot:
		return false // it is nearly done
	}
	return a.Saves || a.UnsavedSeconds <= yieldLoss.Seconds()
}

// lateMoments schedules when the jobs of each lane that wait from the beginning take workers whose
// jobs yield. Jobs that arrive later are treated as if they had waited from the beginning.
func (p *run) lateMoments() {
	if len(p.yielding) == 0 {
		return
	}
	for _, lane := range models.Tiers[:len(models.Tiers)-1] {
		if after, ok := p.lateAfter[lane]; ok {
			p.push(moment{at: after.Seconds() + yieldSave, late: lane})
		}
	}
}

// giveWay lets the waiting jobs of a lane and of higher lanes take workers from jobs of lower
// lanes, the lowest first. For each class that has such a worker left, it adds this moment to
// starts.
func (p *run) giveWay(lane models.Tier) {
	below := models.Tiers[slices.Index(models.Tiers, lane)+1]
	told := map[*class]bool{}
	for _, h := range p.yielding {
		if h.yields == "" || !lane.Above(h.yields) || told[h.class] {
			continue
		}
		l, place, turn := p.next(p.lines, h.class, below)
		if l == nil {
			told[h.class] = true
			p.starts = append(p.starts, start{at: p.now, class: h.class, idle: true, above: below})
			continue
		}
		h.interrupted, h.rest, h.below = h.account, h.until-p.now, h.yields
		p.leave(h.account)
		p.begin(h, l, place, turn)
	}
}

// resume returns the job that yielded to its worker, which found no other job. Until then, starts
// lists the worker for higher lanes only.
func (p *run) resume(h *runWorker) {
	p.starts = append(p.starts, start{at: p.now, class: h.class, idle: true, above: h.below})
	p.running[h.interrupted]++
	p.keep(h, h.interrupted, h.rest)
	h.below, h.rest = "", 0
}
