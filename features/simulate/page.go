package simulate

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/reelay/reelay/models"
)

//go:embed page.html
var pageFile embed.FS

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{"seconds": Seconds}).ParseFS(pageFile, "page.html"))

// WritePage writes a report with plots as one HTML page that needs no other file and no script.
func WritePage(w io.Writer, results []*Result) error {
	type run struct {
		*Result
		Bars           []bar
		Waiting, Fleet plot
	}
	type line struct {
		Name   string
		Values []string
	}
	var in struct {
		Runs    []run
		Figures []line
	}
	for _, r := range results {
		in.Runs = append(in.Runs, run{r, r.bars(), r.waiting(), r.fleet()})
	}
	for _, f := range Figures {
		l := line{Name: f.Name}
		for _, r := range results {
			l.Values = append(l.Values, f.Of(r))
		}
		in.Figures = append(in.Figures, l)
	}
	return page.Execute(w, in)
}

// The size of a plot in pixels, without its labels.
const (
	plotWidth  = 720.0
	plotHeight = 160.0
)

// bar is a part of the bar of paid seconds.
type bar struct {
	Name, Color, Share string
	X, Width           float64
}

func (r *Result) bars() (all []bar) {
	x := 0.0
	for _, c := range []struct {
		name, color string
		seconds     float64
	}{
		{"useful", "#2f855a", r.Seconds.Useful}, {"wasted", "#c53030", r.Seconds.Wasted}, {"idle", "#a0aec0", r.Seconds.Idle},
		{"load", "#3182ce", r.Seconds.Load}, {"boot", "#d69e2e", r.Seconds.Boot},
		{"ending", "#805ad5", r.Seconds.Ending},
	} {
		if r.PaidSeconds == 0 {
			return nil
		}
		width := plotWidth * c.seconds / r.PaidSeconds
		all = append(all, bar{c.name, c.color, r.part(c.seconds), x, width})
		x += width
	}
	return all
}

// plot is a plot over the hours of a run.
type plot struct {
	Title  string
	Most   int
	Curves []curve
	Hours  []tick
}

// curve is one value over time, as the points of an SVG line or area.
type curve struct {
	Name, Color, Points string
	Area                bool
}

type tick struct {
	X    float64
	Text string
}

var laneColors = map[models.Tier]string{
	models.TierCritical: "#805ad5", models.TierEnterprise: "#c53030", models.TierPro: "#d69e2e", models.TierFree: "#3182ce",
	models.TierBatch: "#718096",
}

// waiting plots how many jobs wait in each lane.
func (r *Result) waiting() plot {
	p := r.plot("Waiting jobs")
	for _, s := range r.Series {
		for _, n := range s.Waiting {
			p.Most = max(p.Most, n)
		}
	}
	for _, tier := range models.Tiers {
		values, any := make([]int, len(r.Series)), false
		for i, s := range r.Series {
			values[i] = s.Waiting[tier]
			any = any || values[i] > 0
		}
		if any {
			p.Curves = append(p.Curves, curve{Name: string(tier), Color: laneColors[tier], Points: r.points(values, p.Most)})
		}
	}
	return p
}

// fleet plots the workers by their activity, stacked.
func (r *Result) fleet() plot {
	p := r.plot("Workers")
	busy, idle, booting := make([]int, len(r.Series)), make([]int, len(r.Series)), make([]int, len(r.Series))
	for i, s := range r.Series {
		busy[i], idle[i], booting[i] = s.Busy, s.Busy+s.Idle, s.Busy+s.Idle+s.Booting
		p.Most = max(p.Most, booting[i])
	}
	for _, c := range []struct {
		name, color string
		values      []int
	}{{"booting", "#d69e2e", booting}, {"idle", "#a0aec0", idle}, {"busy", "#2f855a", busy}} {
		points := fmt.Sprintf("0,%.0f %s %.1f,%.0f", plotHeight, r.points(c.values, p.Most), plotWidth, plotHeight)
		p.Curves = append(p.Curves, curve{Name: c.name, Color: c.color, Points: points, Area: true})
	}
	return p
}

func (r *Result) plot(title string) plot {
	p := plot{Title: title, Most: 1}
	if len(r.Series) == 0 {
		return p
	}
	hours := r.Series[len(r.Series)-1].Hour
	step := math.Pow(10, math.Floor(math.Log10(max(hours, 1e-3))))
	for hours/step > 6 {
		step *= 2
	}
	for h := 0.0; h <= hours; h += step {
		p.Hours = append(p.Hours, tick{plotWidth * h / max(hours, 1e-9), fmt.Sprintf("%.3g h", h)})
	}
	return p
}

// points writes values as points of an SVG line.
func (r *Result) points(values []int, most int) string {
	var b strings.Builder
	last := max(r.Series[len(r.Series)-1].Hour, 1e-9)
	for i, v := range values {
		fmt.Fprintf(&b, "%.1f,%.1f ", plotWidth*r.Series[i].Hour/last, plotHeight*(1-float64(v)/float64(most)))
	}
	return strings.TrimSpace(b.String())
}
