package console

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/fleet"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// poolChart is how many workers the scaler wanted over time, and how many the pool had.
type poolChart struct {
	Steps       []ui.Step
	Since       time.Time
	Least, Most int
	// Changes is the number of decisions since then.
	Changes int
	// Counted is what the scaler counted at its decisions and, last, what it counts now. It is
	// empty if no decision has counts.
	Counted []workerCount
}

// workerCount is how many workers of a pool do not drain.
type workerCount struct {
	At                  time.Time
	Busy, Idle, Booting int
}

// countedAt returns the counts that a decision is based on. A decision that asks jobs to give way
// has none.
func countedAt(d *models.ScalingDecision) (count workerCount, ok bool) {
	var in struct{ Busy, Idle, Booting *int } // of [fleet.Demand]
	if json.Unmarshal(d.Inputs, &in) != nil || in.Busy == nil || in.Idle == nil || in.Booting == nil {
		return count, false
	}
	return workerCount{d.At, *in.Busy, *in.Idle, *in.Booting}, true
}

func (c workerCount) total() int { return c.Busy + c.Idle + c.Booting }

// chart goes back as far as the decisions that were read, at most chartWindow.
func (v *poolShow) chart() poolChart {
	found := poolChart{Since: v.Now.Add(-chartWindow)}
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
	if len(found.Counted) > 0 {
		found.Counted = append(found.Counted, countedNow(v.Explanation.Demand, v.Now))
	}
	return found
}

func countedNow(d fleet.Demand, now time.Time) workerCount {
	return workerCount{now, d.Busy, d.Idle, d.Booting}
}

// add adds the next decision. Of those before the chart begins, the last one is where its lines
// come from.
func (c *poolChart) add(d *models.ScalingDecision) {
	count, ok := countedAt(d)
	if !d.At.After(c.Since) {
		c.Steps = []ui.Step{{At: c.Since, Value: d.To}}
		if ok {
			c.Counted = []workerCount{count}
		}
		return
	}
	c.Steps = append(c.Steps, ui.Step{At: d.At, Value: d.To})
	c.Changes++
	if ok {
		c.Counted = append(c.Counted, count)
	}
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
	said := fmt.Sprintf("Since %s the scaler wanted %d to %d workers, and decided %s.", ui.Moment(c.Since), c.Least, c.Most, text.Count(c.Changes, "time"))
	if len(c.Counted) == 0 {
		return said
	}
	var most workerCount
	for _, count := range c.Counted {
		most.Busy, most.Idle, most.Booting = max(most.Busy, count.Busy), max(most.Idle, count.Idle), max(most.Booting, count.Booting)
	}
	now := c.Counted[len(c.Counted)-1]
	return said + fmt.Sprintf(" When it decided, and now, up to %d were busy, %d idle and %d booting; now %d, %d and %d.",
		most.Busy, most.Idle, most.Booting, now.Busy, now.Idle, now.Booting)
}
