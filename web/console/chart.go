package console

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/web/ui"
)

// chartRange is the time that the charts of a page show.
type chartRange struct {
	// Name is in the address: 1h, 24h or 7d.
	Name, Title string
	Length      time.Duration
	Step        time.Duration
}

var chartRanges = []chartRange{
	{"1h", "1 hour", time.Hour, time.Minute},
	{"24h", "24 hours", 24 * time.Hour, 10 * time.Minute},
	{"7d", "7 days", 7 * 24 * time.Hour, time.Hour},
}

// chartRangeOf returns the range that a request asks for, the first by default.
func chartRangeOf(r *http.Request) chartRange {
	for _, known := range chartRanges {
		if known.Name == r.URL.Query().Get("range") {
			return known
		}
	}
	return chartRanges[0]
}

// chartScripts are the scripts of a page with charts. Without uPlot, charts are what the server
// drew.
func chartScripts() []string {
	if asset("vendor/uplot.js") == "" {
		return nil
	}
	return []string{"vendor/uplot.js", "chart.js"}
}

// line is one line of a chart: a metric of a selection.
type line struct {
	label, tone string
	of          func(*history.Figures) *float64
	selection   history.Selection
}

// pastChart returns a chart of these lines.
func pastChart(id, title, unit, link string, past []*history.Figures, lines ...line) ui.ChartData {
	chart := ui.ChartData{ID: id, Title: title, Unit: unit, Link: link}
	if len(past) > 0 {
		chart.From, chart.Step = past[0].From, past[0].To.Sub(past[0].From)
	}
	for _, l := range lines {
		series := ui.Series{Label: l.label, Tone: l.tone, Values: make([]*float64, len(past))}
		for i, f := range past {
			series.Values[i] = l.of(f.Of(l.selection))
		}
		chart.Series = append(chart.Series, series)
	}
	return chart
}

// usedLines leaves out the lines that are 0 or unknown all the time. A chart without lines says that
// it has no data.
func usedLines(past []*history.Figures, all []line) []line {
	return slices.DeleteFunc(slices.Clone(all), func(l line) bool {
		return !slices.ContainsFunc(past, func(f *history.Figures) bool {
			v := l.of(f.Of(l.selection))
			return v != nil && *v > 0
		})
	})
}

// poolTones are the colours of pools. A chart has as many, those with the most workers.
var poolTones = []string{"accent", "good", "busy", "warn", "quiet"}

// poolLines are a metric of each of the largest pools, of the others, and of the workers without a pool.
func poolLines(past []*history.Figures, name history.Name) (all []line) {
	size := map[string]float64{}
	for _, f := range past {
		for _, p := range f.Pools {
			size[p.Pool] += p.Busy + p.Idle + p.Booting
		}
	}
	pools := slices.SortedFunc(maps.Keys(size), func(a, b string) int { return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(a, b)) })
	drawn := pools[:min(len(pools), len(poolTones))]
	if len(pools) > len(poolTones) {
		drawn = drawn[:len(poolTones)-1]
	}
	rest := pools[len(drawn):]
	slices.Sort(drawn)
	for i, pool := range drawn {
		label := ui.Clip(ui.Upright(pool), 40)
		if pool == "" {
			label = "without a pool"
		}
		all = append(all, line{label: label, tone: poolTones[i], of: ofPools(name, func(p string) bool { return p == pool })})
	}
	if len(rest) > 0 {
		label := text.Count(len(rest), "other pool")
		all = append(all, line{label: label, tone: poolTones[len(drawn)], of: ofPools(name, func(p string) bool { return slices.Contains(rest, p) })})
	}
	return all
}

// ofPools returns a metric of workers of these pools. The empty name stands for those without one.
func ofPools(name history.Name, wanted func(pool string) bool) func(*history.Figures) *float64 {
	of := metric(name)
	return func(f *history.Figures) *float64 {
		part := *f
		part.Pools = nil
		for _, p := range f.Pools {
			if wanted(p.Pool) {
				part.Pools = append(part.Pools, p)
			}
		}
		return of(&part)
	}
}

// laneTone is the colour of a lane in charts.
func laneTone(i int) string { return "lane-" + string(rune('1'+i)) }

// metric returns a metric by its name, for pastChart.
func metric(name history.Name) func(*history.Figures) *float64 {
	m, ok := history.MetricOf(name)
	if !ok {
		panic("no metric " + strings.ToLower(string(name))) // names are constants
	}
	return m.Of
}

// overviewCharts is the view of the charts.
type overviewCharts struct {
	Range  chartRange
	Charts []ui.ChartData
}
