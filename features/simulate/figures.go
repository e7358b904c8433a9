package simulate

import (
	"fmt"
	"slices"
)

// Figure is one line of a report. Of returns "" for a run to which the line does not apply.
type Figure struct {
	Name string
	Of   func(*Result) string
}

// Said returns the figures that apply to at least one of the runs.
func Said(results []*Result) []Figure {
	return slices.DeleteFunc(slices.Clone(Figures), func(f Figure) bool {
		return !slices.ContainsFunc(results, func(r *Result) bool { return f.Of(r) != "" })
	})
}

// Figures lists the lines of a report about the machines, in their order.
var Figures = []Figure{
	{"jobs", func(r *Result) string { return fmt.Sprint(r.Jobs) }},
	{"completed", func(r *Result) string { return fmt.Sprint(r.Completed) }},
	{"unfinished", func(r *Result) string { return fmt.Sprint(r.Unfinished) }},
	{"lost", func(r *Result) string { return fmt.Sprint(r.Lost) }},
	{"hours", func(r *Result) string { return fmt.Sprintf("%.1f", r.Hours) }},
	{"machines booted", func(r *Result) string { return fmt.Sprint(r.Machines) }},
	{"machines refused", func(r *Result) string { return fmt.Sprint(r.Refused) }},
	{"machines preempted", func(r *Result) string { return fmt.Sprint(r.Preemptions) }},
	{"jobs interrupted", func(r *Result) string { return fmt.Sprint(r.Interruptions) }},
	{"recovery p50", func(r *Result) string { return Seconds(r.Recovery.P50) }},
	{"recovery p95", func(r *Result) string { return Seconds(r.Recovery.P95) }},
	{"recovery most", func(r *Result) string { return Seconds(r.Recovery.Max) }},
	{"checkpoints", func(r *Result) string { return fmt.Sprint(r.Saves) }},
	{"break-even of one", func(r *Result) string {
		if r.BreakEvenSeconds == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f s", *r.BreakEvenSeconds)
	}},
	{"most work lost at once", func(r *Result) string { return Seconds(r.MostLost) }},
	{"paid GPU hours", func(r *Result) string { return fmt.Sprintf("%.1f", r.PaidSeconds/3600) }},
	{"  boot", func(r *Result) string { return r.part(r.Seconds.Boot) }},
	{"  load", func(r *Result) string { return r.part(r.Seconds.Load) }},
	{"  idle", func(r *Result) string { return r.part(r.Seconds.Idle) }},
	{"  ending", func(r *Result) string { return r.part(r.Seconds.Ending) }},
	{"  wasted", func(r *Result) string { return r.part(r.Seconds.Wasted) }},
	{"    saving checkpoints", func(r *Result) string { return r.part(r.SavingSeconds) }},
	{"    rendered again", func(r *Result) string { return r.part(r.LostSeconds) }},
	{"  useful (goodput)", func(r *Result) string { return r.part(r.Seconds.Useful) }},
	{"cost per completed video", func(r *Result) string { return fmt.Sprintf("$%.5f", r.CostPerJobUSD) }},
	{"cost", func(r *Result) string { return fmt.Sprintf("$%.2f", r.CostUSD) }},
	{"  of a clairvoyant plan", func(r *Result) string {
		if r.Clairvoyant == nil {
			return ""
		}
		return fmt.Sprintf("$%.2f", r.Clairvoyant.CostUSD)
	}},
	{"  more than that", func(r *Result) string {
		if r.Clairvoyant == nil || r.Clairvoyant.CostUSD == 0 {
			return ""
		}
		return fmt.Sprintf("%.1f %%", 100*(r.CostUSD/r.Clairvoyant.CostUSD-1))
	}},
	{"deadlines met", func(r *Result) string {
		if r.Deadlines == nil {
			return ""
		}
		return fmt.Sprintf("%d of %d", r.Deadlines.Met, r.Deadlines.Jobs)
	}},
}

// part formats seconds as a share of the paid seconds.
func (r *Result) part(seconds float64) string {
	if r.PaidSeconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*seconds/r.PaidSeconds)
}

// Seconds formats a duration in a suitable unit.
func Seconds(s float64) string {
	switch {
	case s < 0.05:
		return "0 s"
	case s < 120:
		return fmt.Sprintf("%.1f s", s)
	case s < 7200:
		return fmt.Sprintf("%.1f min", s/60)
	}
	return fmt.Sprintf("%.1f h", s/3600)
}
