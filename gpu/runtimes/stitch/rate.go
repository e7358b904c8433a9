package stitch

import (
	"math"
	"slices"
)

// usualRates are frame rates to which a measured one is rounded: times in files are rounded, too.
var usualRates = []float64{
	24000.0 / 1001, 24, 25, 30000.0 / 1001, 30, 48, 50, 60000.0 / 1001, 60, 90, 100, 120,
}

const (
	// likeInterval is how much longer than the shortest of a group an interval may be.
	likeInterval = 1.1
	// variable is the difference between the most frequent rate and the average from which a rate
	// counts as variable.
	variable = 0.015
	// nearRate is how near a measured rate must be to a usual one.
	nearRate = 0.005
)

// frequentRate returns the frame rate of most of a clip whose average rate is given: a phone that
// slows down or a recording that pauses lowers the average. times are those of its frames, in any
// order.
func frequentRate(average float64, times []float64) float64 {
	slices.Sort(times)
	var intervals []float64
	for i := 1; i < len(times); i++ {
		if d := times[i] - times[i-1]; d > 1e-4 {
			intervals = append(intervals, d)
		}
	}
	slices.Sort(intervals)
	sum, end, most, interval := 0.0, 0, 0, 0.0
	for begin := range intervals { // each group of similar intervals
		for ; end < len(intervals) && intervals[end] <= intervals[begin]*likeInterval; end++ {
			sum += intervals[end]
		}
		if end-begin > most {
			most, interval = end-begin, sum/float64(end-begin)
		}
		sum -= intervals[begin]
	}
	if interval == 0 {
		return average
	}
	frequent := 1 / interval
	if average > 0 && math.Abs(frequent-average) <= variable*average {
		return average
	}
	nearest := slices.MinFunc(usualRates, func(a, b float64) int {
		return int(math.Copysign(1, math.Abs(a-frequent)-math.Abs(b-frequent)))
	})
	if math.Abs(nearest-frequent) <= nearRate*frequent {
		return nearest
	}
	return frequent
}
