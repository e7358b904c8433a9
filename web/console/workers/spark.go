package workers

import (
	"fmt"

	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/ui"
)

// spark is one line of a worker's GPUs over time.
type spark struct {
	label, unit string
	values      []*float64
	// top is the value at the upper edge.
	top float64
}

// hotGPU is the upper edge of temperatures, in degrees Celsius: GPUs slow down before it.
const hotGPU = 100

func sparksOf(past *capacity.GPUHistory) []spark {
	return []spark{
		{"Utilization", "%", past.Utilization, 100},
		{"Memory", "%", past.Memory, 100},
		{"Temperature", "°C", past.TemperatureC, hotGPU},
	}
}

// lastHalfHour returns the newest values, so that a small line stays legible.
func lastHalfHour(values []*float64) []*float64 { return values[max(len(values)-30, 0):] }

// bounds returns the least and the largest known value, and the last one, which is nil if it is
// unknown.
func bounds(values []*float64) (least, most, last *float64) {
	for _, v := range values {
		if v != nil && (least == nil || *v < *least) {
			least = v
		}
		if v != nil && (most == nil || *v > *most) {
			most = v
		}
		last = v
	}
	return least, most, last
}

// sparkRange says what a line shows in numbers: its range, and the newest value.
func sparkRange(unit string, values []*float64) string {
	least, most, last := bounds(values)
	if least == nil {
		return ui.Unknown
	}
	now := ui.Unknown
	if last != nil {
		now = fmt.Sprintf("%.0f %s", *last, unit)
	}
	return fmt.Sprintf("%.0f to %.0f %s, now %s", *least, *most, unit, now)
}

// sparkWords describes a line to those who do not see it.
func sparkWords(label, unit string, values []*float64) string {
	return fmt.Sprintf("%s over %d min: %s", label, len(values), sparkRange(unit, values))
}
