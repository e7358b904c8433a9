package queues

import (
	"fmt"
	"strconv"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// target returns how long jobs of the lane should wait at most, or false if there is no target.
func (q *QueueView) target() (time.Duration, bool) {
	after, ok := jobs.LateAfter()[q.Lane]
	return after, ok
}

// met says whether the wait target is met: by the tier's jobs that started within the last hour, 95 %
// of which must be in time, and by the lane's own job that has waited longest. Promoted jobs, and
// time in which the queue was paused, do not count. It returns "" without a target and if no job
// tells.
func (q *QueueView) met() string {
	target, ok := q.target()
	if !ok || q.Wait == nil && q.OldestWaitSeconds == nil {
		return ""
	}
	if q.Wait != nil && q.Wait.P95 > target.Seconds() || q.OldestWaitSeconds != nil && *q.OldestWaitSeconds > target.Seconds() {
		return "MISSED"
	}
	return "MET"
}

// targetText names the target.
func (q *QueueView) targetText() string {
	if target, ok := q.target(); ok {
		return coarse(target)
	}
	return "none"
}

// coarse formats a duration that is a round number of seconds, minutes or hours.
func coarse(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%.0f h", d.Hours())
	case d%time.Minute == 0:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// waits formats the median and the 95th percentile of the waits.
func (q *QueueView) waits() string {
	if q.Wait == nil {
		return ui.Unknown
	}
	return ui.Seconds(&q.Wait.P50) + " / " + ui.Seconds(&q.Wait.P95)
}

// promotedText says how many of the waiting jobs were promoted, and how long they wait, or "".
func (q *QueueView) promotedText() string {
	if q.Promoted == 0 {
		return ""
	}
	return PromotedText(q.Promoted, q.PromotedWaitSeconds)
}

// PromotedText says how many jobs were promoted, and how long the oldest of them waits, in seconds, or
// returns "" if there are none.
func PromotedText(jobs int, oldest *float64) string {
	return fmt.Sprintf("%s promoted, oldest %s", ui.Count(jobs, 0), ui.Seconds(oldest))
}

// state says whether workers get the jobs: all of them, none, or none of some models.
func (q *QueueView) state() string {
	switch {
	case q.Pause != nil:
		return "PAUSED"
	case len(q.PausedModels) > 0:
		return "PARTLY_PAUSED"
	}
	return "ACTIVE"
}

// full reports whether jobs wait while the pools that serve them have all the workers that they may
// have.
func (q *QueueView) full() bool { return q.Depth > 0 && q.Limit.AtMaximum }

// runLimit is how many workers can run the jobs of one model at most, or 0 if nothing serves it or it is
// a whole lane.
func (q *QueueView) runLimit() int {
	if q.Model == "" {
		return 0
	}
	return q.Limit.Maximum + q.Limit.Poolless
}

// drains says in how long the queue is empty if no job is added, and which of its jobs that leaves
// out.
func (q *QueueView) drains() string {
	if q.Depth == 0 {
		return "empty"
	}
	d := q.Limit.Drain
	if len(d.LeftOut) == 0 {
		return DrainText(d)
	}
	if d.Seconds == nil && len(d.LeftOut) == 1 {
		if d.LeftOut[0].Obstacle == estimate.ObstaclePaused {
			return DrainText(d) // the state beside it says that it is paused
		}
		return DrainText(d) + ", " + d.LeftOut[0].Why()
	}
	return DrainText(d) + ", " + DrainNote(d)
}

// DrainText is the time to empty queues. Jobs that an operator keeps from starting wait until they are
// resumed, and never start if nothing can run them.
func DrainText(d estimate.Drain) string {
	switch {
	case d.UntilResumed():
		return "not until resumed"
	case d.Never():
		return "never"
	}
	return ui.Seconds(d.Seconds)
}

// partOf formats a part of a whole in percent.
func partOf(n, of int) string {
	if of == 0 {
		return ui.Unknown
	}
	return ui.Percent(100 * float64(n) / float64(of))
}

// capText says how many jobs an account runs of those that it may.
func capText(s *backlog.LaneShare) string {
	if shell.Unlimited(s.MaxRunning) {
		return strconv.Itoa(s.AccountRunning)
	}
	return fmt.Sprintf("%d of %d", s.AccountRunning, s.MaxRunning)
}

// targetClass and targetNote mark a target that is missed.
func targetClass(met string) string {
	if met == "MISSED" {
		return "target-missed"
	}
	return "quiet"
}

func targetNote(met string) string {
	if met == "MISSED" {
		return ", missed"
	}
	return ""
}

// limitText says what keeps a queue with waiting jobs from being empty sooner.
func (q *QueueView) limitText() string {
	if q.Depth == 0 {
		return ""
	}
	if q.Limit.Cause == "" && q.full() {
		return "at the maximum"
	}
	return q.Limit.Cause
}

// providerText says how many jobs wait for a hosted provider and why, or, for a whole lane, how many.
func providerText(w *query.ProviderWait) string {
	for_, why := "a provider", ""
	if w.ForSlot() {
		for_ = "a slot at a provider"
	}
	if w.Message != "" {
		why = ": " + w.Message
	}
	return fmt.Sprintf("%s for %s%s", ui.Count(w.Jobs, 0), for_, why)
}

// DrainNote says what the time to empty the queues leaves out.
func DrainNote(d estimate.Drain) string {
	switch left := d.LeftOutText(); {
	case left == "":
		return "if no job is added"
	case d.Seconds == nil:
		return left
	default:
		return "without " + left
	}
}

// DrainLevel grades the time to empty the queues. Jobs that nothing will start are bad, unless an
// operator keeps them.
func DrainLevel(d estimate.Drain) string {
	for _, l := range d.LeftOut {
		if l.Obstacle == estimate.ObstacleNoCapacity || l.Obstacle == estimate.ObstacleNoWorker {
			return "bad"
		}
	}
	return LevelOf(d.Seconds, slowDrain, verySlowDrain)
}

// The bounds of the time to empty the queues are those of the alerts, in seconds.
const slowDrain, verySlowDrain = 600, 3600

// LevelOf grades a figure by two bounds. Nil is calm.
func LevelOf(v *float64, warn, bad float64) string {
	switch {
	case v == nil || *v <= warn:
		return "calm"
	case *v <= bad:
		return "warn"
	}
	return "bad"
}
