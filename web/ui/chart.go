package ui

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/text"
)

// Series is one line of a chart.
type Series struct {
	Label string `json:"label"`
	// Tone is its colour: good, busy, warn, bad, quiet, accent, or lane-1 to lane-5.
	Tone string `json:"tone"`
	// Values are one for each step. Nil is unknown, and a gap.
	Values []*float64 `json:"values"`
}

// ChartData is a chart of values over time. It is drawn as an SVG and a table; chart.js replaces
// the SVG with one that can be explored.
type ChartData struct {
	// ID is unique on the page.
	ID, Title string
	// Unit is as in history.Unit: s, %, /min and so on. Values of % are from 0 to 1.
	Unit string
	// From is when the first step begins.
	From time.Time
	Step time.Duration
	// Link is the page that explains the chart, or "".
	Link   string
	Series []Series
	// Marks are what happened meanwhile.
	Marks []ChartMark
}

// ChartMark is a vertical line in a chart: something that was changed at that time.
type ChartMark struct {
	At time.Time `json:"-"`
	// Unix is At in seconds.
	Unix int64  `json:"at"`
	Text string `json:"text"`
}

// marks are those within the time of the chart.
func (c ChartData) marks() []ChartMark {
	within := []ChartMark{}
	for _, m := range c.Marks {
		if !m.At.Before(c.From) && m.At.Before(c.to()) {
			m.Unix = m.At.Unix()
			within = append(within, m)
		}
	}
	return within
}

// markPath is a vertical line in a box that is 100 wide and 40 high.
func (c ChartData) markPath(m ChartMark) string {
	return "M" + number(100*float64(m.At.Sub(c.From))/float64(max(c.to().Sub(c.From), 1))) + " 2V39"
}

// data is what chart.js reads.
func (c ChartData) data() string {
	series := c.Series
	if series == nil {
		series = []Series{}
	}
	raw, err := json.Marshal(struct {
		From   int64       `json:"from"`
		Step   int64       `json:"step"`
		Unit   string      `json:"unit"`
		Series []Series    `json:"series"`
		Marks  []ChartMark `json:"marks"`
	}{c.From.Unix(), int64(c.Step / time.Second), c.Unit, rounded(series), c.marks()})
	if err != nil {
		panic(fmt.Sprintf("chart %s: %v", c.ID, err)) // NaN is no value of a chart
	}
	return string(raw)
}

// rounded returns the series with three significant digits, which is what a chart can show.
func rounded(all []Series) []Series {
	found := make([]Series, len(all))
	for i, s := range all {
		found[i] = Series{s.Label, s.Tone, make([]*float64, len(s.Values))}
		for k, v := range s.Values {
			if v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) {
				short, _ := strconv.ParseFloat(strconv.FormatFloat(*v, 'g', 3, 64), 64)
				found[i].Values[k] = &short
			}
		}
	}
	return found
}

// points is how many values the longest series has.
func (c ChartData) points() (n int) {
	for _, s := range c.Series {
		n = max(n, len(s.Values))
	}
	return n
}

// to is when the last step ends.
func (c ChartData) to() time.Time { return c.From.Add(time.Duration(c.points()) * c.Step) }

// roundSeconds are the durations at the upper edge: as chart.js, those that are round in the unit
// in which people read them.
var roundSeconds = []float64{
	0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600,
	86400, 2 * 86400, 7 * 86400, 14 * 86400, 28 * 86400,
}

// edge is the top as text: "10 min", not "10 min 00 s".
func (c ChartData) edge() string {
	top := c.top()
	if c.Unit != "s" {
		return Figure(&top, c.Unit)
	}
	for _, unit := range []struct {
		seconds float64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "min"}} {
		if top >= unit.seconds && math.Mod(top, unit.seconds) == 0 {
			return strconv.FormatFloat(top/unit.seconds, 'g', -1, 64) + " " + unit.name
		}
	}
	return strconv.FormatFloat(top, 'g', 3, 64) + " s"
}

// top is the value at the upper edge: not less than anything that is drawn.
func (c ChartData) top() float64 {
	top := 0.0
	for _, s := range c.Series {
		for _, v := range s.Values {
			if v != nil {
				top = max(top, *v)
			}
		}
	}
	if top == 0 || c.Unit == "" && top < 1 {
		return 1 // counts of whole things
	}
	if c.Unit == "s" {
		for _, nice := range roundSeconds {
			if nice >= top {
				return nice
			}
		}
	}
	unit := math.Pow(10, math.Floor(math.Log10(top)))
	for _, nice := range []float64{1, 2, 2.5, 5, 10} {
		if nice*unit >= top && (c.Unit != "" || nice*unit == math.Trunc(nice*unit)) {
			return nice * unit
		}
	}
	return top
}

// Known reports whether anything of it is known.
func (c ChartData) Known() bool {
	for _, s := range c.Series {
		if s.last() != nil {
			return true
		}
	}
	return false
}

// last is the newest known value, or nil.
func (s Series) last() *float64 {
	v, _ := s.newest()
	return v
}

// newest is the newest known value and its step, or nil.
func (s Series) newest() (*float64, int) {
	for i := len(s.Values) - 1; i >= 0; i-- {
		if s.Values[i] != nil {
			return s.Values[i], i
		}
	}
	return nil, 0
}

// newest is the newest known value of a line as text, and when that was unless it is of the last two
// steps: the last one may not be recorded yet.
func (c ChartData) newest(s Series) string {
	v, i := s.newest()
	if v == nil || i >= c.points()-2 {
		return Figure(v, c.Unit)
	}
	return Figure(v, c.Unit) + " at " + Moment(c.From.Add(time.Duration(i)*c.Step))
}

// path is the line in a box that is 100 wide and 40 high. A gap ends it, and a value between two
// gaps is a dot.
func (s Series) path(points int, top float64) string {
	var path strings.Builder
	down := false
	for i, v := range s.Values {
		if v == nil {
			down = false
			continue
		}
		x, y := number(100*(float64(i)+0.5)/float64(max(points, 1))), number(39-37*min(*v/top, 1))
		if down {
			path.WriteString("L" + x + " " + y)
		} else {
			path.WriteString("M" + x + " " + y + "h0.01")
		}
		down = true
	}
	return path.String()
}

// Figure formats a value with its unit, or n/a for nil.
func Figure(v *float64, unit string) string {
	switch {
	case v == nil || math.IsNaN(*v) || math.IsInf(*v, 0):
		return Unknown
	case unit == "s":
		return Seconds(v)
	case unit == "%":
		return shortNumber(*v*100) + " %"
	case unit == "$":
		return text.USD(*v)
	case unit == "$/h":
		return fmt.Sprintf("$%.2f/h", *v)
	case strings.HasPrefix(unit, "/"):
		return shortNumber(*v) + unit
	case unit == "":
		return shortNumber(*v)
	}
	return shortNumber(*v) + " " + unit
}

// shortNumber has as many decimals as a person compares.
func shortNumber(v float64) string {
	switch {
	case v == math.Trunc(v) && math.Abs(v) < 1e9, math.Abs(v) >= 100:
		return Count(int(math.Round(v)), 0)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// stepName names a step for the table.
func (c ChartData) stepName(i int) string {
	at := c.From.Add(time.Duration(i) * c.Step).UTC()
	if c.Step >= 24*time.Hour {
		return at.Format("2 Jan")
	}
	if c.Step >= time.Hour || at.Hour() == 0 && at.Minute() == 0 {
		return at.Format("2 Jan 15:04")
	}
	return at.Format("15:04")
}

// tableRows are the steps in the table, newest first: at most 24.
func (c ChartData) tableRows() (rows []int) {
	every := (c.points() + 23) / 24
	for i := c.points() - 1; i >= 0; i -= max(every, 1) {
		rows = append(rows, i)
	}
	return rows
}

func (s Series) at(i int) *float64 {
	if i < len(s.Values) {
		return s.Values[i]
	}
	return nil
}

// words says what the chart shows, for people who cannot see it.
func (c ChartData) words() string {
	var said []string
	for _, s := range c.Series {
		said = append(said, s.Label+" "+c.newest(s))
	}
	words := c.Title + ", newest values: " + strings.Join(said, ", ") + "."
	for _, m := range c.marks() {
		words += " " + m.At.UTC().Format("15:04 UTC") + ": " + m.Text + "."
	}
	return words
}

// axis formats a time of the scale below the chart.
func (c ChartData) axis(at time.Time) string {
	if c.Step >= time.Hour {
		return Moment(at)
	}
	return at.UTC().Format("15:04 UTC")
}
