// Package checkpoints decides how often workers save checkpoints.
//
// A checkpoint stops the render while it is written. If a worker is lost, so is its work since the
// newest checkpoint. The interval that wastes the least time is √(2·C·M) (Young 1974), where C is how
// long a checkpoint takes and M the mean time between losses. Both are measured, per pool and model.
package checkpoints

import (
	"math"
	"slices"
	"time"

	"github.com/reelay/reelay/models"
)

const (
	// Shortest and Longest bound the interval.
	Shortest = 10 * time.Second
	Longest  = 15 * time.Minute
	// Unmeasured is the longest interval while fewer than enoughSaves checkpoints were
	// measured: without checkpoints there is nothing to measure.
	Unmeasured  = 30 * time.Second
	enoughSaves = 5

	// NewestSaves is the number of durations of which the median is taken.
	NewestSaves = 31
	// Fade is the time in which the weight of a loss, and of a busy hour, falls to 1/e.
	Fade = 7 * 24 * time.Hour

	// priorSave is how many seconds a checkpoint is expected to take before any is measured. It
	// counts as one measurement.
	priorSave = 3.0
)

// prior is what is expected of a pool before anything is measured. It counts as if it had been
// observed.
type prior struct{ losses, busyHours float64 }

// priors are by the pool's capacity class. The one for ON_DEMAND weighs less, so that losses that
// are not expected count soon.
var priors = map[models.CapacityClass]prior{
	models.CapacitySpot:     {losses: 1, busyHours: 4},
	models.CapacityOnDemand: {losses: 0.25, busyHours: 24},
}

// Plan is how often the workers of a pool save checkpoints of a model, and why.
type Plan struct {
	Model string
	// SaveSeconds is how long a checkpoint is expected to stop the render: the median of the
	// newest ones, averaged with the prior. Saves is how many were measured.
	SaveSeconds float64
	Saves       int
	// Losses is how many attempts the pool lost in BusyHours of work. Old ones count less.
	Losses    float64
	BusyHours float64
	// HoursBetweenLosses is how many hours of work the pool is expected to do per loss.
	HoursBetweenLosses float64
	// IntervalSeconds is the time between two checkpoints.
	IntervalSeconds float64
	// Overhead is the share of the work that is expected to be wasted on checkpoints, and on
	// what is rendered again after a loss: 0.02 is 2 %.
	Overhead float64
}

// PlanOf returns the plan that follows from a record.
func PlanOf(r *models.CheckpointRecord) *Plan {
	p := &Plan{Model: r.Model, Saves: r.Saves, Losses: r.Losses, BusyHours: r.BusyHours}
	n := float64(len(r.SaveSeconds))
	p.SaveSeconds = (priorSave + n*median(r.SaveSeconds)) / (1 + n)
	expected := priors[r.CapacityClass]
	p.HoursBetweenLosses = (expected.busyHours + r.BusyHours) / (expected.losses + r.Losses)
	between := p.HoursBetweenLosses * 3600
	longest := Longest
	if r.Saves < enoughSaves {
		longest = Unmeasured
	}
	p.IntervalSeconds = math.Round(min(max(young(p.SaveSeconds, between), Shortest.Seconds()), longest.Seconds()))
	p.Overhead = p.SaveSeconds/p.IntervalSeconds + p.IntervalSeconds/(2*between)
	return p
}

// young returns the best interval for checkpoints that take save seconds, if a worker is lost
// every so many seconds. All of its arguments and its result are in seconds. It is Young's first-order
// formula: that of Daly (2006) differs by less than 2 % while a checkpoint takes less than a
// thousandth of the time between losses. So near the optimum, such a difference wastes next to nothing.
func young(save, between float64) float64 { return math.Sqrt(2 * save * between) }

// median returns the median, or 0 if there are no values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
