package pools

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/trends"
	"github.com/reelay/reelay/web/ui"
)

// poolChart is how many workers the scaler wanted over time, and how many the pool had.
type poolChart struct {
	Steps       []ui.Step
	Since       time.Time
	Least, Most int
	// Changes is the number of decisions since then.
	Changes int
	// Counted is how many workers the pool had: in each step of the history on average, rounded up, and
	// last, now. It is empty if the history knows nothing of the pool.
	Counted []workerCount
}

// workerCount is how many workers of a pool do not drain.
type workerCount struct {
	At                  time.Time
	Busy, Idle, Booting int
}

func (c workerCount) total() int { return c.Busy + c.Idle + c.Booting }

// chart goes back as far as the pool and the decisions that were read, at most chartWindow.
func (v *poolShow) chart() poolChart {
	found := poolChart{Since: v.Now.Add(-chartWindow)}
	if v.CreatedAt.After(found.Since) {
		found.Since = v.CreatedAt
	}
	if n := len(v.Decisions); n == decisionsRead && v.Decisions[n-1].At.After(found.Since) {
		found.Since = v.Decisions[n-1].At
	}
	for i := len(v.Decisions) - 1; i >= 0; i-- {
		found.add(v.Decisions[i])
	}
	for i, step := range found.Steps {
		found.Most = max(found.Most, step.Value)
		if i == 0 || step.Value < found.Least {
			found.Least = step.Value
		}
	}
	if found.Counted = v.counted(found.Since); len(found.Counted) > 0 {
		now := v.Explanation.Demand
		found.Counted = append(found.Counted, workerCount{v.Now, now.Busy, now.Idle, now.Booting})
	}
	return found
}

// counted are the steps of the history that end after a time.
func (v *poolShow) counted(since time.Time) (all []workerCount) {
	mine := func(pool string) bool { return pool == v.Name }
	busy, idle, booting := trends.OfPools("WORKERS_BUSY", mine), trends.OfPools("WORKERS_IDLE", mine), trends.OfPools("WORKERS_BOOTING", mine)
	up := func(n *float64) int {
		if n == nil {
			return 0
		}
		return int(math.Ceil(*n))
	}
	for _, f := range v.Past {
		known := slices.ContainsFunc(f.Pools, func(p *models.HistoryPool) bool { return mine(p.Pool) })
		if known && f.To.After(since) {
			at := f.From
			if at.Before(since) {
				at = since
			}
			all = append(all, workerCount{at, up(busy(f)), up(idle(f)), up(booting(f))})
		}
	}
	return all
}

// add adds the next decision. Of those before the chart begins, the last one is where its line
// comes from.
func (c *poolChart) add(d *capacity.ScalingDecision) {
	if !d.At.After(c.Since) {
		c.Steps = []ui.Step{{At: c.Since, Value: d.To}}
		return
	}
	c.Steps = append(c.Steps, ui.Step{At: d.At, Value: d.To})
	c.Changes++
}

// top is the value at the upper edge.
func (c poolChart) top() int {
	top := max(c.Most, 1)
	for _, count := range c.Counted {
		top = max(top, count.total())
	}
	return top
}

// areas are the counts, stacked: busy workers at the bottom, then idle ones, then booting ones.
// Each area goes down to zero, so the highest is drawn first.
func (c poolChart) areas() []poolArea {
	areas := []poolArea{{State: "booting"}, {State: "idle"}, {State: "busy"}}
	for _, count := range c.Counted {
		for i, value := range []int{count.total(), count.Busy + count.Idle, count.Busy} {
			areas[i].Steps = append(areas[i].Steps, ui.Step{At: count.At, Value: value})
		}
	}
	return areas
}

// poolArea is how many workers were in a state, or in one below it, over time.
type poolArea struct {
	State string
	Steps []ui.Step
}

// words says what the chart shows.
func (c poolChart) words() string {
	said := fmt.Sprintf("Since %s the scaler wanted %d to %d workers, and decided %s.", ui.Moment(c.Since), c.Least, c.Most,
		text.Count(c.Changes, "time"))
	if len(c.Counted) == 0 {
		return said
	}
	var most workerCount
	for _, count := range c.Counted {
		most.Busy, most.Idle, most.Booting = max(most.Busy, count.Busy), max(most.Idle, count.Idle), max(most.Booting, count.Booting)
	}
	now := c.Counted[len(c.Counted)-1]
	return said + fmt.Sprintf(" Up to %d were busy, %d idle and %d booting; now %d, %d and %d.",
		most.Busy, most.Idle, most.Booting, now.Busy, now.Idle, now.Booting)
}
