package overview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/trends"
	"github.com/reelay/reelay/web/ui"
)

// heatMap is the view of the heat map.
type heatMap struct {
	Hours    int
	Regions  []string
	GPUTypes []string
	Cells    []*history.HeatCell
}

// heatHours are the times that a heat map can be of.
var heatHours = []int{1, 12, 24, 168}

// hoursOf returns the time that a request asks for, an hour by default.
func hoursOf(r *http.Request) int {
	hours, err := strconv.Atoi(r.URL.Query().Get("hours"))
	if err != nil || !slices.Contains(heatHours, hours) {
		return heatHours[0]
	}
	return hours
}

func (c *controller) heatMap(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readHeatMap(r.Context(), p, hoursOf(r))
	if err != nil {
		return err
	}
	charts, err := c.readHeatCharts(r.Context(), v.Hours)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, heatMapPage(v, charts))
}

func (c *controller) heatMapLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	hours := hoursOf(r)
	return c.Refresh(w, r, p, fmt.Sprintf("/heatmap/live %d", hours),
		func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
			v, err := c.readHeatMap(ctx, p, hours)
			return func(time.Time) templ.Component { return heatGrid(v) }, err
		})
}

func (c *controller) readHeatMap(ctx context.Context, p jobs.Principal, hours int) (*heatMap, error) {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.CountPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	v := &heatMap{Hours: hours}
	if v.Cells, err = c.Reads.History.HeatMap(ctx, p, hours); err != nil {
		return nil, err
	}
	for _, cell := range v.Cells {
		if !slices.Contains(v.Regions, cell.Region) {
			v.Regions = append(v.Regions, cell.Region)
		}
		if !slices.Contains(v.GPUTypes, cell.GPUType) {
			v.GPUTypes = append(v.GPUTypes, cell.GPUType)
		}
	}
	slices.Sort(v.GPUTypes)
	return v, nil
}

// heatRange is the time of the charts below a heat map.
func heatRange(hours int) trends.Range {
	span := trends.Range{Name: strconv.Itoa(hours) + "h", Title: spanName(hours), Length: time.Duration(hours) * time.Hour,
		Step: 10 * time.Minute}
	switch {
	case hours == 1:
		span.Step = time.Minute
	case hours > 24:
		span.Step = time.Hour
	}
	return span
}

// heatCharts serves the charts alone, for chart.js.
func (c *controller) heatCharts(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	charts, err := c.readHeatCharts(r.Context(), hoursOf(r))
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return shell.Render(w, r, http.StatusOK, trends.Grid(charts))
}

// readHeatCharts returns how the cells with the most workers became as they are.
func (c *controller) readHeatCharts(ctx context.Context, hours int) (trends.Charts, error) {
	span := heatRange(hours)
	past, err := c.charts.Past(ctx, span)
	if err != nil {
		return trends.Charts{}, err
	}
	charts := heatChartsOf(past)
	return trends.Charts{Range: span, Charts: charts}, c.charts.Mark(ctx, span, charts)
}

func heatChartsOf(past []*history.Figures) []ui.ChartData {
	size := map[history.Selection]float64{}
	for _, f := range past {
		for _, p := range f.Pools {
			size[history.Selection{Region: p.Region, GPUType: p.GPUType}] += p.Busy + p.Idle
		}
	}
	name := func(s history.Selection) string { return ui.Clip(ui.Upright(s.Region+", "+s.GPUType), 40) }
	cells := slices.SortedFunc(maps.Keys(size), func(a, b history.Selection) int {
		return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(name(a), name(b)))
	})
	cells = cells[:min(len(cells), len(trends.PoolTones))]
	of := func(metricName history.Name) (all []trends.Line) {
		for i, cell := range cells {
			all = append(all, trends.Line{Label: name(cell), Tone: trends.PoolTones[i], Of: trends.Metric(metricName), Selection: cell})
		}
		return all
	}
	return []ui.ChartData{
		trends.New("utilization", "Utilization", "%", "", past, of("WORKER_UTILIZATION")...),
		trends.New("waste", "Wasted GPU hours", "GPU h", "", past, of("WASTED_GPU_HOURS")...),
		trends.New("preemptions", "Preemptions", "/h", "", past, of("PREEMPTIONS")...),
		trends.New("workers", "Busy workers", "", "", past, of("WORKERS_BUSY")...),
	}
}

// cell returns the cell of a region and a type of GPU, or nil.
func (v *heatMap) cell(region, gpuType string) *history.HeatCell {
	i := slices.IndexFunc(v.Cells, func(c *history.HeatCell) bool { return c.Region == region && c.GPUType == gpuType })
	if i < 0 {
		return nil
	}
	return v.Cells[i]
}

// spanName names a time in hours.
func spanName(hours int) string {
	switch hours {
	case 1:
		return "1 hour"
	case 168:
		return "7 days"
	}
	return fmt.Sprintf("%d hours", hours)
}

// shareOf is a share in percent for a meter, 0 if it is unknown.
func shareOf(v *float64) float64 {
	if v == nil {
		return 0
	}
	return 100 * *v
}

// runbookPath is the address of a runbook's entry about a verdict.
func runbookPath(entry string) string {
	return "https://github.com/reelay/reelay/blob/main/docs/operators/heat-map.md#" + entry
}
