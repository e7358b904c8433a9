package estimate

import (
	"slices"

	"github.com/reelay/reelay/models"
)

// NewestLoads is the number of loads from which medians are computed.
const NewestLoads = 31

// LoadTime is how long workers take to have a model in memory.
type LoadTime struct {
	PoolID  models.PoolID // empty for workers without a pool
	GPUType string
	Model   string
	// LoadSeconds is the median of the newest loads, without the download of the weights.
	LoadSeconds float64
	// FetchSeconds is the median of the newest downloads, or 0 without any. Fetches is how many of
	// the newest loads had a download.
	FetchSeconds float64
	Fetches      int
	// Seconds is the median of the newest loads with their downloads, which is what a running
	// worker is expected to take.
	Seconds float64
	// Loads is the total number of measured loads.
	Loads int
}

// LoadTimeOf summarises measured loads.
func LoadTimeOf(m *models.ModelLoad) LoadTime {
	t := LoadTime{PoolID: m.PoolID, GPUType: m.GPUType, Model: m.Model, LoadSeconds: median(m.LoadSeconds), Loads: m.Loads}
	var fetches, both []float64
	for i, load := range m.LoadSeconds {
		fetch := m.FetchSeconds[i]
		both = append(both, load+fetch)
		if fetch > 0 {
			fetches = append(fetches, fetch)
		}
	}
	t.FetchSeconds, t.Fetches, t.Seconds = median(fetches), len(fetches), median(both)
	return t
}

// ColdSeconds returns how long a new machine is expected to load once it has booted. It downloads
// the weights if other machines did.
func (t LoadTime) ColdSeconds() float64 { return t.LoadSeconds + t.FetchSeconds }

// median returns the median, or 0 if there are no values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
