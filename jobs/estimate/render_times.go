package estimate

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
)

// ArrivalSpan is roughly the time over which arrivals are averaged.
const ArrivalSpan = 5 * time.Minute

// RenderTimes contains the durations of past renders, as multiples of the catalogue's estimates. The
// zero value knows none.
type RenderTimes struct {
	// exact are the ratios of kinds. An empty GPU type is the average over all types.
	exact map[RenderKey]spreadRatio
	// models are the same for whole models, with the kinds of each.
	models map[modelOn]*modelTimes
}

// RenderKey is a kind of job on a GPU type.
type RenderKey struct {
	backlog.Kind
	GpuType string
}

// modelOn is a model on a GPU type, or on any if that is empty.
type modelOn struct{ model, gpuType string }

// modelTimes are the average over a model's kinds, and its kinds.
type modelTimes struct {
	average spreadRatio
	classes []classTimes
}

// classTimes is the ratio of a kind, and the parts of its class.
type classTimes struct {
	spreadRatio
	parts []string
}

// spreadRatio is a ratio, its variance, and the number of its samples.
type spreadRatio struct{ ratio, variance, samples float64 }

// NewRenderTimes returns render times for look-ups.
func NewRenderTimes(known []*backlog.RenderTime) RenderTimes {
	times := RenderTimes{exact: map[RenderKey]spreadRatio{}, models: map[modelOn]*modelTimes{}}
	for _, t := range known {
		for _, gpuType := range lo.Uniq([]string{t.GPUType, ""}) {
			key := RenderKey{t.Kind, gpuType}
			times.exact[key] = times.exact[key].with(spreadRatio{t.Ratio, t.Variance, float64(t.Samples)})
		}
	}
	keys := slices.SortedFunc(maps.Keys(times.exact), func(a, b RenderKey) int { // sums of floats depend on the order
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.TimeClass, b.TimeClass), cmp.Compare(a.GpuType, b.GpuType))
	})
	for _, key := range keys {
		at, one := modelOn{key.Model, key.GpuType}, times.exact[key]
		if times.models[at] == nil {
			times.models[at] = &modelTimes{}
		}
		m := times.models[at]
		m.average = m.average.with(one)
		m.classes = append(m.classes, classTimes{one, strings.Split(key.TimeClass, ",")})
	}
	return times
}

func (s spreadRatio) with(o spreadRatio) spreadRatio {
	n := s.samples + o.samples
	return spreadRatio{
		ratio:    (s.ratio*s.samples + o.ratio*o.samples) / n,
		variance: (s.variance*s.samples + o.variance*o.samples) / n,
		samples:  n,
	}
}

// look returns what is known of the kind on the GPU type, else of the nearest kinds of the model on
// it, else the same on all GPU types. A kind without a class is the average of its model. The ratios
// of other kinds need no scaling: the catalogue's estimate, which they multiply, is in proportion to
// the numbers of the class.
func (r RenderTimes) look(kind backlog.Kind, gpuType string) (spreadRatio, bool) {
	for _, on := range []string{gpuType, ""} {
		if found, known := r.exact[RenderKey{kind, on}]; known && kind.TimeClass != "" {
			return found, true
		}
		if m := r.models[modelOn{kind.Model, on}]; m != nil {
			return m.nearest(kind.TimeClass), true
		}
	}
	return spreadRatio{}, false
}

// nearest returns the average of the kinds whose classes are the nearest to a class, or that of all
// if none has the same parameters.
func (m *modelTimes) nearest(class string) spreadRatio {
	if class == "" || len(m.classes) == 1 {
		return m.average
	}
	parts, least, found := strings.Split(class, ","), math.Inf(1), m.average
	for _, c := range m.classes {
		if len(c.parts) != len(parts) {
			continue
		}
		switch d := distance(c.parts, parts); {
		case d < least:
			least, found = d, c.spreadRatio
		case d == least:
			found = found.with(c.spreadRatio)
		}
	}
	return found
}

const (
	// differs is how far values are apart that are no numbers, in powers of two.
	differs = 2
	// leastNumber stands for 0 and less.
	leastNumber = 1.0 / 64
)

// distance returns how far the values of two classes are apart, in powers of two.
func distance(a, b []string) (sum float64) {
	for i := range a {
		x, noX := strconv.ParseFloat(a[i], 64)
		y, noY := strconv.ParseFloat(b[i], 64)
		switch {
		case a[i] == b[i]:
		case noX != nil || noY != nil:
			sum += differs
		default:
			sum += math.Abs(math.Log2(max(x, leastNumber) / max(y, leastNumber)))
		}
	}
	return sum
}

// Ratio returns how long jobs of a kind take on a GPU type, as a multiple of the catalogue's estimate; 1
// if nothing is known.
func (r RenderTimes) Ratio(kind backlog.Kind, gpuType string) float64 {
	if found, known := r.look(kind, gpuType); known {
		return found.ratio
	}
	return 1
}

// Seconds returns how long a job keeps a worker busy, averaged over all GPU types.
func (r RenderTimes) Seconds(job *models.Job) float64 {
	return job.EstimatedGPUSeconds * r.Ratio(kindOf(job), "")
}

const (
	// z99 is the 99th percentile of the standard normal distribution.
	z99 = 2.3263478740408408
	// leastMargin and mostMargin bound the margin of slow renders. With fewer samples than
	// marginSamples the margin is leastMargin.
	leastMargin, mostMargin, marginSamples = 0.1, 1, 5
)

// Margin returns how much longer than average a slow render takes, as a part of the average, from
// 0.1 to 1. If render times are normally distributed, 99 of 100 renders are faster.
func (r RenderTimes) Margin(kind backlog.Kind) float64 {
	found, known := r.look(kind, "")
	if !known || found.samples < marginSamples || found.ratio == 0 {
		return leastMargin
	}
	return min(max(z99*math.Sqrt(found.variance)/found.ratio, leastMargin), mostMargin)
}

// SlowSeconds is Seconds for a slow render.
func (r RenderTimes) SlowSeconds(job *models.Job) float64 {
	return r.Seconds(job) * (1 + r.Margin(kindOf(job)))
}

// irregularity returns the squared coefficient of variation of render times (the variance over the
// square of the mean), at most 1.
func (r RenderTimes) irregularity(kind backlog.Kind) float64 {
	found, known := r.look(kind, "")
	if !known || found.ratio == 0 {
		return 1
	}
	return min(found.variance/(found.ratio*found.ratio), 1)
}

const (
	// learnAtLeast is the minimum weight of a new sample, so that about the last 20 jobs count.
	learnAtLeast = 0.05
	// maxRatio bounds what one job can contribute.
	maxRatio = 1000
)

// Learn adds one render to the average.
func Learn(t *backlog.RenderTime, r backlog.Rendered) {
	ratio := min(r.Seconds/max(r.EstimatedSeconds, 1e-3), maxRatio)
	t.Samples++
	weight := max(1/float64(t.Samples), learnAtLeast)
	off := ratio - t.Ratio
	t.Ratio += weight * off
	t.Variance = (1 - weight) * (t.Variance + weight*off*off)
}
