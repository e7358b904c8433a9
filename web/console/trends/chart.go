// Package trends draws what the history says of a time: the charts of the overview, the queues and the
// heat map.
package trends

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/web/console/static"
	"github.com/reelay/reelay/web/ui"
)

// Range is the time that the charts of a page show.
type Range struct {
	// Name is in the address: 1h, 24h or 7d.
	Name, Title string
	Length      time.Duration
	Step        time.Duration
}

// Ranges are the times that charts can show, the first by default.
var Ranges = []Range{
	{"1h", "1 hour", time.Hour, time.Minute},
	{"24h", "24 hours", 24 * time.Hour, 10 * time.Minute},
	{"7d", "7 days", 7 * 24 * time.Hour, time.Hour},
}

// RangeOf returns the range that a request asks for, the first by default.
func RangeOf(r *http.Request) Range {
	for _, known := range Ranges {
		if known.Name == r.URL.Query().Get("range") {
			return known
		}
	}
	return Ranges[0]
}

// Scripts are the scripts of a page with charts. Without uPlot, charts are what the server
// drew.
func Scripts() []string {
	if static.Asset("vendor/uplot.js") == "" {
		return nil
	}
	return []string{"vendor/uplot.js", "chart.js"}
}

// Line is one line of a chart: a metric of a selection.
type Line struct {
	Label, Tone string
	Of          func(*history.Figures) *float64
	Selection   history.Selection
}

// New returns a chart of these lines.
func New(id, title, unit, link string, past []*history.Figures, lines ...Line) ui.ChartData {
	chart := ui.ChartData{ID: id, Title: title, Unit: unit, Link: link}
	if len(past) > 0 {
		chart.From, chart.Step = past[0].From, past[0].To.Sub(past[0].From)
	}
	for _, l := range lines {
		series := ui.Series{Label: l.Label, Tone: l.Tone, Values: make([]*float64, len(past))}
		for i, f := range past {
			series.Values[i] = l.Of(f.Of(l.Selection))
		}
		chart.Series = append(chart.Series, series)
	}
	return chart
}

// Used leaves out the lines that are 0 or unknown all the time. A chart without lines says that
// it has no data.
func Used(past []*history.Figures, all []Line) []Line {
	return slices.DeleteFunc(slices.Clone(all), func(l Line) bool {
		return !slices.ContainsFunc(past, func(f *history.Figures) bool {
			v := l.Of(f.Of(l.Selection))
			return v != nil && *v > 0
		})
	})
}

// PoolTones are the colours of pools. A chart has as many, those with the most workers.
var PoolTones = []string{"accent", "good", "busy", "warn", "quiet"}

// PoolLines are a metric of each of the largest pools, of the others, and of the workers without a pool.
func PoolLines(past []*history.Figures, name history.Name) (all []Line) {
	size := map[string]float64{}
	for _, f := range past {
		for _, p := range f.Pools {
			size[p.Pool] += p.Busy + p.Idle + p.Booting
		}
	}
	pools := slices.SortedFunc(maps.Keys(size), func(a, b string) int { return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(a, b)) })
	drawn := pools[:min(len(pools), len(PoolTones))]
	if len(pools) > len(PoolTones) {
		drawn = drawn[:len(PoolTones)-1]
	}
	rest := pools[len(drawn):]
	slices.Sort(drawn)
	for i, pool := range drawn {
		label := ui.Clip(ui.Upright(pool), 40)
		if pool == "" {
			label = "without a pool"
		}
		all = append(all, Line{Label: label, Tone: PoolTones[i], Of: OfPools(name, func(p string) bool { return p == pool })})
	}
	if len(rest) > 0 {
		label := text.Count(len(rest), "other pool")
		all = append(all, Line{Label: label, Tone: PoolTones[len(drawn)],
			Of: OfPools(name, func(p string) bool { return slices.Contains(rest, p) })})
	}
	return all
}

// OfPools returns a metric of workers of these pools. The empty name stands for those without one.
func OfPools(name history.Name, wanted func(pool string) bool) func(*history.Figures) *float64 {
	of := Metric(name)
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

// LaneTone is the colour of a lane in charts.
func LaneTone(i int) string { return "lane-" + string(rune('1'+i)) }

// Metric returns a metric by its name, for New.
func Metric(name history.Name) func(*history.Figures) *float64 {
	m, ok := history.MetricOf(name)
	if !ok {
		panic("no metric " + strings.ToLower(string(name))) // names are constants
	}
	return m.Of
}

// Charts is the view of the charts.
type Charts struct {
	Range  Range
	Charts []ui.ChartData
}
