package models

import (
	"maps"
	"math"
	"slices"
)

// Histogram counts durations in buckets: bucket i has those from histogramBase^i up to the next
// power, in seconds. Histograms of parts add up to that of the whole. An empty one is nil.
type Histogram map[int]int

// histogramBase is the ratio of two neighbouring bounds. A quantile is within 5 % of the exact one.
const histogramBase = 1.1

// histogramSQL is the bucket of a duration. Less than a millisecond counts as a millisecond.
const histogramSQL = "floor(ln(greatest(%s, 0.001)) / ln(1.1))::integer"

// Count returns how many durations there are.
func (h Histogram) Count() (n int) {
	for _, count := range h {
		n += count
	}
	return n
}

// Add adds another histogram's durations.
func (h *Histogram) Add(other Histogram) {
	if *h == nil && len(other) > 0 {
		*h = Histogram{}
	}
	for bucket, count := range other {
		(*h)[bucket] += count
	}
}

// Observe adds a duration in seconds. The bounds are those of histogramSQL.
func (h *Histogram) Observe(seconds float64) {
	h.Add(Histogram{int(math.Floor(math.Log(max(seconds, 0.001)) / math.Log(histogramBase))): 1})
}

// Quantile returns the least duration that a share q (0 to 1) of them does not exceed, in
// seconds, or nil if there are none.
func (h Histogram) Quantile(q float64) *float64 {
	rank, seen := max(int(math.Ceil(q*float64(h.Count()))), 1), 0
	for _, bucket := range slices.Sorted(maps.Keys(h)) {
		if seen += h[bucket]; seen >= rank {
			middle := math.Pow(histogramBase, float64(bucket)+0.5)
			return &middle
		}
	}
	return nil
}
