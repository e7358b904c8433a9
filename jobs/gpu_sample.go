package jobs

import (
	"cmp"
	"slices"

	"github.com/reelay/reelay/jobs/apierror"
)

// GPUSample is one GPU at one moment.
type GPUSample struct {
	// Index is which of the machine's GPUs it is, from 0.
	Index int
	// Utilization is from 0 to 1.
	Utilization     float64
	MemoryUsedBytes *int64
	TemperatureC    *float64
	// Xid is the driver's newest error.
	Xid *int
}

const (
	MaxGPUs        = 64
	maxGPUMemory   = 1 << 60
	maxTemperature = 200
	maxXid         = 1000
)

// utilization returns the samples' utilization in the order of the GPUs, or nil if there are
// no samples. It returns INVALID_INPUT for impossible samples.
func utilization(samples []GPUSample) ([]float64, error) {
	if len(samples) > MaxGPUs {
		return nil, apierror.Invalid("gpus", "There may be %d GPUs.", MaxGPUs)
	}
	ordered := slices.SortedFunc(slices.Values(samples), func(a, b GPUSample) int { return cmp.Compare(a.Index, b.Index) })
	var all []float64
	for i, s := range ordered {
		if i > 0 && ordered[i-1].Index == s.Index {
			return nil, apierror.Invalid("gpus", "There are two samples of GPU %d.", s.Index)
		}
		if err := s.valid(); err != nil {
			return nil, err
		}
		all = append(all, s.Utilization)
	}
	return all, nil
}

func (s *GPUSample) valid() error {
	switch {
	case s.Index < 0 || s.Index >= MaxGPUs:
		return apierror.Invalid("gpus", "The index of a GPU must be from 0 to %d.", MaxGPUs-1)
	case !(s.Utilization >= 0 && s.Utilization <= 1):
		return apierror.Invalid("gpus", "The utilization of GPU %d must be from 0 to 1.", s.Index)
	case s.MemoryUsedBytes != nil && (*s.MemoryUsedBytes < 0 || *s.MemoryUsedBytes > maxGPUMemory):
		return apierror.Invalid("gpus", "memoryUsedBytes of GPU %d must be from 0 to %d.", s.Index, maxGPUMemory)
	case s.TemperatureC != nil && !(*s.TemperatureC >= -maxTemperature && *s.TemperatureC <= maxTemperature):
		return apierror.Invalid("gpus", "temperatureC of GPU %d must be from %d to %d.", s.Index, -maxTemperature, maxTemperature)
	case s.Xid != nil && (*s.Xid < 0 || *s.Xid > maxXid):
		return apierror.Invalid("gpus", "xid of GPU %d must be from 0 to %d.", s.Index, maxXid)
	}
	return nil
}
