package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the result of a run.
type report struct {
	Command  string
	Seed     uint64
	Minutes  float64
	Agents   int
	Took     string
	Faults   int
	Injected map[string]int
	Met      map[string]int
	Answers  map[string]int // errors that customers got, by code
	*verdict
	Recoveries []*recovery
	Waves      []*wave  `json:",omitempty"`
	Phases     []*phase `json:",omitempty"`
	Doctor     string   `json:",omitempty"`
	AgentsDied int
	Failures   []string // why the run failed; empty if it passed
}

// judge collects the reasons why the run failed.
func (r *report) judge(must []string) {
	count := func(what string, found []string) {
		if len(found) > 0 {
			r.Failures = append(r.Failures, fmt.Sprintf("%d %s:\n  %s", len(found), what, strings.Join(found[:min(len(found), 12)], "\n  ")))
		}
	}
	count("jobs lost", r.Lost)
	count("jobs doubled", r.Duplicated)
	count("wrong videos", r.WrongVideos)
	count("broken invariants", r.Breaches)
	r.judgeWaves()
	for _, bad := range []string{badKeyReused, badStaleWrite} {
		if r.Met[bad] > 0 {
			r.Failures = append(r.Failures, fmt.Sprintf("%d %s", r.Met[bad], bad))
		}
	}
	for _, name := range must {
		if r.Met[name] == 0 {
			r.Failures = append(r.Failures, fmt.Sprintf("this never happened in the run, which therefore proves nothing about it: %s", name))
		}
	}
}

// print writes the table.
func (r *report) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		text := make([]string, len(cells))
		for i, cell := range cells {
			text[i] = fmt.Sprint(cell)
		}
		fmt.Fprintln(w, "| "+strings.Join(text, "\t| ")+"\t|")
	}
	rule := func(n int) { row(toAny(strings.Fields(strings.Repeat("--- ", n)))...) }

	row("what", "count", "target")
	rule(3)
	row("faults injected", r.Faults, "")
	row("jobs accepted", r.Accepted, "")
	row("completed", r.Completed, "")
	row("failed, as expected", r.Failed, "")
	row("cancelled", r.Cancelled, "")
	row("**lost**", len(r.Lost), 0)
	row("**doubled**", len(r.Duplicated), 0)
	row("**stale writes accepted**", r.Met[badStaleWrite], 0)
	row("stale writes refused", r.Met[metStale], "")
	row("wrong videos", len(r.WrongVideos), 0)
	row("broken invariants", len(r.Breaches), 0)
	row("videos compared byte by byte", r.Videos, "")
	row("objects verified", r.Objects, "")
	if g := r.Graph; g != nil {
		row(fmt.Sprintf("nodes of the workflow, with %d edges and %d levels", g.Edges, g.Levels), g.Nodes, "")
		row("their attempts", g.Attempts, "")
		row("seconds until the workflow was completed", fmt.Sprintf("%.0f", g.Seconds), "")
	}
	w.Flush()

	r.printRecoveries(out, w, row)
	r.printWaves(out)
	r.printPhases(out)
	for _, table := range []struct {
		title  string
		counts map[string]int
	}{
		{"fault", r.Injected}, {"met", r.Met}, {"why jobs failed", r.FailedBy}, {"errors returned to customers", r.Answers},
	} {
		if len(table.counts) == 0 {
			continue
		}
		fmt.Fprintln(out)
		row(table.title, "count")
		rule(2)
		for _, name := range sortedKeys(table.counts) {
			row(name, table.counts[name])
		}
		w.Flush()
	}
	fmt.Fprintln(out)
}

// printRecoveries writes the table of the recoveries.
func (r *report) printRecoveries(out io.Writer, w *tabwriter.Writer, row func(cells ...any)) {
	if len(r.Recoveries) == 0 {
		return
	}
	fmt.Fprintln(out)
	row("seconds", "n", "p50", "p95", "max", "target")
	row(toAny(strings.Fields(strings.Repeat("--- ", 6)))...)
	for _, c := range r.Recoveries {
		target := ""
		if c.Target > 0 {
			target = fmt.Sprintf("p95 ≤ %g", c.Target)
		}
		row(c.Name, c.N, seconds(c.N, c.P50), seconds(c.N, c.P95), seconds(c.N, c.Max), target)
	}
	w.Flush()
	for _, c := range r.Recoveries {
		for _, slow := range c.Slow {
			fmt.Fprintf(out, "slow: %s: %s\n", c.Name, slow)
		}
	}
}

func seconds(n int, s float64) string {
	if n == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.1f", s)
}

func toAny(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

func rounded(d time.Duration) string { return d.Round(time.Second).String() }
