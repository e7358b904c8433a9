package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Print writes the report as text: a table of each measurement, then the targets.
func (r *Report) Print(out io.Writer) error {
	for _, result := range r.Results {
		if err := result.print(out); err != nil {
			return err
		}
	}
	for _, line := range r.Missing {
		fmt.Fprintf(out, "missing: %s\n", line)
	}
	if len(r.Targets) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\nTARGET\tOURS\tLIMIT\tPEER\tRATIO\tTARGET\t")
	for _, v := range r.Targets {
		bound, verdict := "≥ ", "met"
		if v.AtMost {
			bound = "≤ "
		}
		switch {
		case v.Ratio == nil:
			verdict = "not measured"
		case !v.Met:
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s%s\t%s\n", v.Name, short(v.Ours), orNone(v.Limit), orNone(v.Peer), orNone(v.Ratio), bound,
			short(v.Target), verdict)
	}
	fmt.Fprintf(w, "\n%d CPUs, %s, %.0f s in all; medians\n", r.CPUs, r.Go, r.Seconds)
	return w.Flush()
}

func (r *Result) print(out io.Writer) error {
	names := map[string]bool{}
	for _, score := range r.Contestants {
		for name := range score.Figures {
			names[name] = true
		}
	}
	columns := slices.SortedFunc(maps.Keys(names), byPlace)
	if err := r.printFigures(out, columns); err != nil {
		return err
	}
	for _, score := range r.Contestants {
		if score.Differs != "" {
			fmt.Fprintf(out, "  %s: %s\n", score.Name, score.Differs)
		}
	}
	if r.Note != "" {
		fmt.Fprintf(out, "  %s\n", r.Note)
	}
	return nil
}

// mostColumns is how many columns fit on a screen. More figures are printed in rows.
const mostColumns = 8

func (r *Result) printFigures(out io.Writer, columns []string) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s", r.Title)
	if len(columns) > mostColumns {
		for _, score := range r.Contestants {
			fmt.Fprintf(w, "\t%s", score.Name)
		}
		for _, name := range columns {
			fmt.Fprintf(w, "\n  %s", heading(name, r.Unit))
			for _, score := range r.Contestants {
				fmt.Fprintf(w, "\t%s", score.cell(name))
			}
		}
		fmt.Fprintln(w)
		return w.Flush()
	}
	for _, name := range columns {
		fmt.Fprintf(w, "\t%s", heading(name, r.Unit))
	}
	fmt.Fprintln(w)
	for _, score := range r.Contestants {
		fmt.Fprintf(w, "  %s", score.Name)
		for _, name := range columns {
			fmt.Fprintf(w, "\t%s", score.cell(name))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// first are the figures that come first, in this order.
var first = []string{"rate", "mean", "p50", "p99"}

func byPlace(a, b string) int {
	place := func(name string) int {
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	if d := place(a) - place(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

func heading(name, unit string) string {
	switch name {
	case "rate":
		return unit + "/s"
	}
	if name == "mean" || strings.HasSuffix(name, "p50") || strings.HasSuffix(name, "p95") || strings.HasSuffix(name, "p99") {
		return name + " ms"
	}
	return name
}

func (s *Score) cell(name string) string {
	v, ok := s.Figures[name]
	if !ok {
		return "–"
	}
	if v.Min == v.Max {
		return short(v.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", short(v.Median), short(v.Min), short(v.Max))
}

// short formats a number with three digits, or with all digits before the point.
func short(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 100 || v == math.Trunc(v):
		return grouped(fmt.Sprintf("%.0f", v))
	case abs >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func grouped(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func orNone(v *float64) string {
	if v == nil {
		return "–"
	}
	return short(*v)
}
