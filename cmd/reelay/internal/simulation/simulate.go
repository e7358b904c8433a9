package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/features/simulate"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// simulation is the flags of `reelay simulate`.
type simulation struct {
	list, show bool
	json, html string
	compare    []string
	seed       uint64
	document   output.Options
	asJSON     bool
}

// Command returns `reelay simulate`.
func Command() *cobra.Command {
	var o simulation
	cmd := &cobra.Command{
		Use:   "simulate [SCENARIO]",
		Short: "Play a day of jobs and preemptions on a virtual clock, to plan capacity",
		Long: "Plays a scenario on a virtual clock with Reelay's own queue order, scaler and checkpoint policy, and prints how long\n" +
			"jobs wait, where every paid GPU second goes, and what it costs. It needs no servers.\n" +
			"SCENARIO is the name of a scenario that comes with Reelay (see --list) or a YAML file; see docs/operators/capacity.md.\n" +
			"The same scenario and seed give the same result.",
		Example: "  reelay simulate --list\n  reelay simulate normal-day --html report.html\n  reelay simulate checkpoints\n" +
			"  reelay simulate mine.yaml --compare other.yaml --json result.json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.list, "list", false, "list the scenarios that come with Reelay")
	f.BoolVar(&o.show, "print", false, "print the scenario as YAML, to write one of your own, and do not run it")
	f.StringVar(&o.json, "json", "", "file for the results in JSON, or - for standard output instead of the tables")
	o.document.AddJQ(cmd, &o.asJSON)
	f.StringVar(&o.html, "html", "", "file for a report with plots")
	f.StringSliceVar(&o.compare, "compare", nil,
		"scenarios to run as well and show beside it, or variants of the scenario to run instead of all")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the random numbers, instead of the scenario's")
	return cmd
}

func (o *simulation) run(cmd *cobra.Command, args []string) error {
	out := cmd.OutOrStdout()
	if o.list {
		return listScenarios(out)
	}
	if len(args) == 0 {
		return terminal.UsageError(cmd, errors.New("name a scenario or a file; --list shows the scenarios that come with Reelay"))
	}
	if o.show {
		s, err := simulate.Open(args[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(out, s.Source)
		return err
	}
	for _, file := range []string{o.json, o.html} {
		if file != "" && file != "-" {
			if err := output.CheckFile(file, true); err != nil {
				return err
			}
		}
	}
	runs, err := o.scenarios(args[0])
	if err != nil {
		return err
	}
	var results []*simulate.Result
	for i, s := range runs {
		if cmd.Flags().Changed("seed") {
			s.Seed = o.seed
		}
		r, err := simulateOne(cmd.Context(), cmd.ErrOrStderr(), s, fmt.Sprintf("%s (%d of %d)", s.Name, i+1, len(runs)))
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	simulate.BreakEven(results)
	return o.write(out, results)
}

// scenarios returns what to run.
func (o *simulation) scenarios(name string) ([]*simulate.Scenario, error) {
	s, err := simulate.Open(name)
	if err != nil {
		return nil, err
	}
	variants := map[string]*simulate.Scenario{}
	var all []*simulate.Scenario
	for _, v := range s.Variants {
		variants[v.Name] = s.With(v)
		all = append(all, variants[v.Name])
	}
	if len(o.compare) == 0 {
		if len(all) == 0 {
			all = append(all, s)
		}
		return all, nil
	}
	chosen := []*simulate.Scenario{}
	if len(all) == 0 {
		chosen = append(chosen, s)
	}
	for _, other := range o.compare {
		if v := variants[other]; v != nil {
			chosen = append(chosen, v)
			continue
		}
		opened, err := simulate.Open(other)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, opened)
	}
	return chosen, nil
}

// simulateOne runs a scenario, and shows its progress on a terminal.
func simulateOne(ctx context.Context, errs io.Writer, s *simulate.Scenario, what string) (*simulate.Result, error) {
	var progress func(float64)
	if file, ok := errs.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		told := -1
		progress = func(done float64) {
			if percent := int(100 * done); percent != told {
				told = percent
				fmt.Fprintf(errs, "\r\x1b[K%s: %d %%", output.Clean(what), percent)
			}
		}
		defer fmt.Fprint(errs, "\r\x1b[K")
	}
	return simulate.Run(ctx, s, progress)
}

func (o *simulation) write(out io.Writer, results []*simulate.Result) error {
	switch {
	case o.asJSON:
		if err := o.document.Print(output.ScreenOf(out), results, nil); err != nil {
			return err
		}
	case o.json == "-":
		return output.JSON(out, results)
	default:
		if err := printSimulation(out, results); err != nil {
			return err
		}
	}
	if o.json != "" {
		if err := writeFile(o.json, func(w io.Writer) error { return output.JSON(w, results) }); err != nil {
			return err
		}
	}
	if o.html != "" {
		return writeFile(o.html, func(w io.Writer) error { return simulate.WritePage(w, results) })
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func listScenarios(out io.Writer) error {
	all, err := simulate.Shipped()
	if err != nil {
		return err
	}
	var rows [][]string
	for _, s := range all {
		rows = append(rows, []string{s.Name, s.Description})
	}
	return output.WriteRows(out, []string{"SCENARIO", "WHAT IT SHOWS"}, rows)
}

// printSimulation prints two tables: the lanes, and the machines. Each run has its column.
func printSimulation(out io.Writer, results []*simulate.Result) error {
	var lanes [][]string
	for _, r := range results {
		for _, l := range r.Lanes {
			goal, met := "-", "-"
			if l.Target != nil {
				goal, met = shortSeconds(*l.Target), "no"
				if l.Met {
					met = "yes"
				}
			}
			lanes = append(lanes, []string{r.Scenario, string(l.Tier), fmt.Sprint(l.Jobs), shortSeconds(l.Wait.P50), shortSeconds(l.Wait.P95),
				shortSeconds(l.Wait.P99), goal, met, shortSeconds(l.Done.P50), shortSeconds(l.Done.P95)})
		}
	}
	if err := output.WriteRows(out, []string{"RUN", "LANE", "JOBS", "WAIT P50", "P95", "P99", "TARGET", "MET", "DONE P50", "P95"},
		lanes); err != nil {
		return err
	}
	fmt.Fprintln(out)
	figures := simulate.Said(results)
	header, rows := []string{""}, make([][]string, len(figures))
	for i, f := range figures {
		rows[i] = []string{f.Name}
	}
	for _, r := range results {
		header = append(header, strings.ToUpper(r.Scenario))
		for i, f := range figures {
			rows[i] = append(rows[i], f.Of(r))
		}
	}
	return output.WriteRows(out, header, rows)
}

func shortSeconds(s float64) string { return simulate.Seconds(s) }
