package workers

import (
	"fmt"
	"strings"

	"github.com/reelay/reelay/models"
)

// gpuMemory returns how full a GPU's memory is, in percent and as text.
func gpuMemory(g *models.GPUState) (percent float64, text string, ok bool) {
	if g.MemoryUsedBytes == nil || g.MemoryTotalBytes == nil || *g.MemoryTotalBytes <= 0 {
		return 0, "", false
	}
	used, total := float64(*g.MemoryUsedBytes), float64(*g.MemoryTotalBytes)
	return min(100*used/total, 100), fmt.Sprintf("%.0f of %.0f GiB", used/(1<<30), total/(1<<30)), true
}

// gpuFigures returns what is known of a GPU's use, temperature and power.
func gpuFigures(g *models.GPUState) string {
	var known []string
	for _, figure := range []struct {
		value  *float64
		factor float64
		unit   string
	}{{g.Utilization, 100, "%"}, {g.TemperatureC, 1, "°C"}, {g.PowerW, 1, "W"}} {
		if figure.value != nil {
			known = append(known, fmt.Sprintf("%.0f %s", figure.factor**figure.value, figure.unit))
		}
	}
	return strings.Join(known, ", ")
}

// gpuErrors names the errors of a faulty GPU.
func gpuErrors(g *models.GPUState) string {
	var errors []string
	if n := g.ECCUncorrected; n != nil && *n > 0 {
		errors = append(errors, fmt.Sprintf("%d uncorrected memory errors", *n))
	}
	if g.Xid != nil && *g.Xid > 0 {
		errors = append(errors, fmt.Sprintf("XID %d", *g.Xid))
	}
	return strings.Join(errors, ", ")
}
