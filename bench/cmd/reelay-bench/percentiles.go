package main

import (
	"math"
	"slices"
	"time"
)

// percentiles are in milliseconds.
type percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// percentilesOf uses the nearest rank, so that each figure is a measured value.
func percentilesOf(times []time.Duration) percentiles {
	sorted := slices.Sorted(slices.Values(times))
	at := func(p float64) float64 {
		return milliseconds(sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)])
	}
	return percentiles{P50: at(0.50), P90: at(0.90), P99: at(0.99), Max: at(1)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
