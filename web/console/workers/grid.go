package workers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
)

// tiledGroup is a group of workers with the tiles of those that are on the page.
type tiledGroup struct {
	*models.WorkerGroup
	rows []workerRow
}

// tiled divides the workers of the page by pool, GPU and zone, in the order of their names.
func (v *List) tiled() []*tiledGroup {
	type key struct {
		pool              models.PoolID
		gpu, region, zone string
	}
	known := map[key]*models.WorkerGroup{}
	for _, g := range v.Groups {
		known[key{g.PoolID, g.GPUType, g.Region, g.Zone}] = g
	}
	found := map[key]*tiledGroup{}
	var all []*tiledGroup
	for _, row := range v.Rows {
		k := key{row.PoolID, row.GPUType, row.Region, row.Zone}
		if found[k] == nil {
			g := known[k]
			if g == nil { // all of its workers are terminated
				g = &models.WorkerGroup{PoolID: row.PoolID, Pool: row.Pool, GPUType: row.GPUType, Region: row.Region, Zone: row.Zone}
			}
			found[k] = &tiledGroup{WorkerGroup: g}
			all = append(all, found[k])
		}
		found[k].rows = append(found[k].rows, row)
	}
	slices.SortFunc(all, func(a, b *tiledGroup) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.GPUType, b.GPUType), strings.Compare(a.Region, b.Region),
			strings.Compare(a.Zone, b.Zone))
	})
	for _, g := range all {
		slices.SortStableFunc(g.rows, func(a, b workerRow) int { return strings.Compare(a.name(), b.name()) })
	}
	return all
}

// counts sums up the active workers of a group.
func (g *tiledGroup) counts() string {
	parts := []string{text.Count(g.Workers, "worker")}
	for _, of := range []struct {
		n    int
		word string
	}{{g.Busy, "busy"}, {g.Idle, "idle"}, {g.Booting, "booting"}, {g.Draining, "draining"}, {g.Lost + g.Silent, "lost or silent"},
		{g.Quarantined, "in quarantine"}} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.word))
		}
	}
	return strings.Join(parts, ", ")
}

// shownState is the state that a tile shows: what an operator should know first.
func (r workerRow) shownState(now time.Time) string {
	switch {
	case r.over():
		return string(r.Status)
	case r.Silent:
		return "SILENT"
	case r.Quarantined(now):
		return "QUARANTINED"
	}
	return string(r.Status)
}

// gpuSummary sums up the newest samples of the worker's GPUs: mean use, the fullest memory and the
// highest temperature. It is n/a if the worker reports none.
func (r workerRow) gpuSummary() string {
	var use, known, full, hot float64
	var parts []string
	for _, g := range r.GPUs {
		if g.Utilization != nil {
			use, known = use+*g.Utilization, known+1
		}
		if percent, _, ok := gpuMemory(g); ok {
			full = max(full, percent)
		}
		if g.TemperatureC != nil {
			hot = max(hot, *g.TemperatureC)
		}
		if g.Faulty() {
			parts = append(parts, gpuErrors(g))
		}
	}
	if known > 0 {
		parts = append(parts, fmt.Sprintf("%.0f %%", 100*use/known))
	}
	if full > 0 {
		parts = append(parts, fmt.Sprintf("memory %.0f %%", full))
	}
	if hot > 0 {
		parts = append(parts, fmt.Sprintf("%.0f °C", hot))
	}
	if len(parts) == 0 {
		return "n/a"
	}
	return strings.Join(parts, ", ")
}
