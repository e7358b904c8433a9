package estimate

import (
	"time"

	"github.com/reelay/reelay/models"
)

// ArrivalSpan is about over what time arrivals are averaged.
const ArrivalSpan = 5 * time.Minute

// RenderTimes is how long renders took: multiples of what the catalogue reckons.
type RenderTimes map[RenderKey]spreadRatio

// RenderKey is a kind on a type of GPU. With the kind's model alone it is the
// average over its kinds, and without a GPU type over these.
type RenderKey struct {
	models.Kind
	GpuType string
}

// spreadRatio is a ratio, its variance, and what it was learnt from.
type spreadRatio struct{ ratio, variance, samples float64 }

func NewRenderTimes(known []*models.RenderTime) RenderTimes {
	times := RenderTimes{}
	for _, t := range known {
		one := spreadRatio{t.Ratio, t.Variance, float64(t.Samples)}
		times[RenderKey{t.Kind, t.GPUType}] = one
		for _, key := range []RenderKey{{models.Kind{Model: t.Model}, t.GPUType}, {models.Kind{Model: t.Model}, ""}} {
			// A kind's own entry without resolution and length is not spoilt: a
			// model has either.
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

// look finds what is known best: of the kind on that GPU, of the model on it, of
// the model at all.
func (r RenderTimes) look(kind models.Kind, gpuType string) (spreadRatio, bool) {
	for _, key := range []RenderKey{{kind, gpuType}, {models.Kind{Model: kind.Model}, gpuType}, {models.Kind{Model: kind.Model}, ""}} {
		if found, known := r[key]; known {
			return found, true
		}
	}
	return spreadRatio{}, false
}

func (r RenderTimes) Ratio(kind models.Kind, gpuType string) float64 {
	if found, known := r.look(kind, gpuType); known {
		return found.ratio
	}
	return 1
}

// irregularity is the squared coefficient of variation of render times, at most
// 1: the variance over the square of the mean.
func (r RenderTimes) irregularity(kind models.Kind) float64 {
	found, known := r.look(kind, "")
	if !known || found.ratio == 0 {
		return 1
	}
	return min(found.variance/(found.ratio*found.ratio), 1)
}

const (
	// learnAt least is the weight of a new sample: about the last 20 jobs count.
	learnAtLeast = 0.05
	// maxRatio bounds what a single job can teach.
	maxRatio = 1000
)

// Learn takes one render into the average.
func Learn(t *models.RenderTime, r models.Rendered) {
	ratio := min(r.Seconds/max(r.EstimatedSeconds, 1e-3), maxRatio)
	t.Samples++
	weight := max(1/float64(t.Samples), learnAtLeast)
	off := ratio - t.Ratio
	t.Ratio += weight * off
	t.Variance = (1 - weight) * (t.Variance + weight*off*off)
}
