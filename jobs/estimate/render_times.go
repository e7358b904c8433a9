package estimate

import (
	"math"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
)

// ArrivalSpan is roughly the time over which arrivals are averaged.
const ArrivalSpan = 5 * time.Minute

// RenderTimes contains the durations of past renders, as multiples of the catalogue's estimates.
type RenderTimes map[RenderKey]spreadRatio

// RenderKey is a kind of job on a GPU type. A kind with only a model is the average over the
// model's kinds. An empty GPU type is the average over all types.
type RenderKey struct {
	backlog.Kind
	GpuType string
}

// spreadRatio is a ratio, its variance, and the number of its samples.
type spreadRatio struct{ ratio, variance, samples float64 }

func NewRenderTimes(known []*backlog.RenderTime) RenderTimes {
	times := RenderTimes{}
	for _, t := range known {
		one := spreadRatio{t.Ratio, t.Variance, float64(t.Samples)}
		times[RenderKey{t.Kind, t.GPUType}] = one
		for _, key := range []RenderKey{{backlog.Kind{Model: t.Model}, t.GPUType}, {backlog.Kind{Model: t.Model}, ""}} {
			// This does not overwrite a kind's own entry: the kinds of one model all have a
			// resolution and length, or none has.
			if key.Kind == t.Kind && key.GpuType == t.GPUType {
				continue
			}
			times[key] = times[key].with(one)
		}
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

// look returns the most specific known ratio: of the kind on the GPU type, else of the model on it,
// else of the model on any.
func (r RenderTimes) look(kind backlog.Kind, gpuType string) (spreadRatio, bool) {
	for _, key := range []RenderKey{{kind, gpuType}, {backlog.Kind{Model: kind.Model}, gpuType}, {backlog.Kind{Model: kind.Model}, ""}} {
		if found, known := r[key]; known {
			return found, true
		}
	}
	return spreadRatio{}, false
}

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
