package providers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models/capacity"
	"github.com/spf13/cobra"
)

// Command returns `reelay providers`.
func Command() *cobra.Command {
	return terminal.Family(&cobra.Command{
		Use:   "providers",
		Short: "Test a program of the provider command with real machines",
	}, testCommand())
}

// test is the flags of `reelay providers test`.
type test struct {
	terminal.YesFlag
	file, pool, settings string
	machines             int
	wait                 time.Duration
	verbose              bool
	document             output.Options
	asJSON               bool
}

func testCommand() *cobra.Command {
	var o test
	cmd := &cobra.Command{
		Use:   "test PROGRAM",
		Short: "Check that a program can be a provider, with real machines",
		Long: "Calls a program of the provider `command` as the scaler does, and as it does when things go wrong, and says what the\n" +
			"program does wrong and how to mend it. It creates machines of a pool that exists nowhere else, and deletes them,\n" +
			"also when it is interrupted. Their agents get an address that does not exist, so they join no fleet. It needs no\n" +
			"servers; the program has the environment of this command. See docs/operators/providers.md.\n\n" +
			"Exit status: 0 if all checks passed (there may be advice); 1 if one did not, or could not run.",
		Example: "  reelay providers test ./mycloud --settings '{\"options\": {\"image\": \"agent\"}}'\n" +
			"  reelay providers test ./mycloud --file pools.yaml --pool h100-spot --machines 3 --yes --json",
		Args: terminal.OneArg("PROGRAM", "the file of one program"),
		RunE: o.run,
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "`file` of pools in YAML or JSON: the machines are like those of one of them")
	f.StringVar(&o.pool, "pool", "", "name of the pool of --file, if it has several")
	f.StringVar(&o.settings, "settings", "",
		"settings of the pool as a JSON `object`, instead of those of --file, such as {\"options\": {}, \"timeoutSeconds\": 60}")
	f.IntVar(&o.machines, "machines", 2, fmt.Sprintf("how many machines there may be at a time, 1 to %d", command.MaxTestMachines))
	f.DurationVar(&o.wait, "wait", time.Minute, "how long a machine may take to appear in the list, and to leave it")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "also print what the program writes to its standard error")
	o.AddFlag(cmd)
	o.document.AddDocumentFlags(cmd, &o.asJSON)
	return cmd
}

// maxWait bounds --wait.
const maxWait = time.Hour

func (o *test) run(cmd *cobra.Command, args []string) error {
	switch {
	case o.machines < 1 || o.machines > command.MaxTestMachines:
		return terminal.UsageError(cmd, fmt.Errorf("--machines is %d: it must be from 1 to %d", o.machines, command.MaxTestMachines))
	case o.wait < time.Second || o.wait > maxWait:
		return terminal.UsageError(cmd, fmt.Errorf("--wait is %s: it must be from 1s to %s", o.wait, maxWait))
	case o.pool != "" && o.file == "":
		return terminal.UsageError(cmd, errors.New("--pool names a pool of --file: give both"))
	}
	program, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	spec, err := o.spec(cmd.ErrOrStderr(), filepath.Base(program))
	if err != nil {
		return err
	}
	if err := command.FindProgram(filepath.Dir(program), &capacity.Pool{PoolSpec: spec}); err != nil {
		return err
	}
	question := fmt.Sprintf("This creates and deletes up to %d machines at a time with %s, which may cost money. Continue?", o.machines,
		output.Clean(program))
	if err := o.Insist(cmd, question); err != nil {
		return err
	}
	out, errs := output.ScreenOf(cmd.OutOrStdout()), cmd.ErrOrStderr()
	log := slog.New(slog.DiscardHandler)
	if o.verbose {
		log = slog.New(slog.NewTextHandler(errs, nil))
	}
	report, err := command.Conformance{
		Folder: filepath.Dir(program), Pool: spec, Machines: o.machines, Wait: o.wait, Log: log,
		Progress: func(step string) { fmt.Fprintln(errs, output.Clean(step)) },
		Found: func(f command.Finding) {
			if !o.asJSON && !skipped(f) {
				printFinding(out, f)
			}
		},
	}.Run(cmd.Context())
	if err != nil {
		return err
	}
	if o.asJSON {
		err = o.document.Print(out, report, nil)
	} else {
		err = printRemaining(out, report)
	}
	switch {
	case cmd.Context().Err() != nil && report.CleanUp == "":
		err = errors.Join(err, terminal.ErrInterrupted)
	case !report.Passed():
		err = errors.Join(err, errors.New("not all checks passed"))
	}
	return err
}

// spec returns the pool of the machines. Its settings name the program. It says so if they named another one.
func (o *test) spec(errs io.Writer, program string) (capacity.PoolSpec, error) {
	var spec capacity.PoolSpec
	if o.file != "" {
		var err error
		if spec, err = settings.ReadPool(o.file, o.pool, command.Name); err != nil {
			return spec, err
		}
	}
	given, source := map[string]any{}, []byte(spec.Settings)
	if o.settings != "" {
		source = []byte(o.settings)
	}
	if err := json.Unmarshal(source, &given); len(source) > 0 && (err != nil || given == nil) {
		return spec, errors.New(`the settings must be a JSON object such as {"options": {}, "timeoutSeconds": 60}`)
	}
	if named, _ := given["program"].(string); named != "" && named != program {
		fmt.Fprintf(errs, "The program of the pool is %s: this tests %s with the pool's options.\n", output.Clean(text.Clip(named, 64)),
			output.Clean(program))
	}
	given["program"] = program
	var err error
	spec.Settings, err = json.Marshal(given)
	return spec, err
}

// words are how levels are printed.
var words = map[command.Level]struct {
	word  string
	color output.Color
}{
	command.LevelOK:       {"ok", output.Green},
	command.LevelAdvice:   {"advice", output.Yellow},
	command.LevelUntested: {"untested", output.Magenta},
	command.LevelWrong:    {"wrong", output.Red},
}

// printFinding prints a finding as soon as it is known.
func printFinding(out *output.Screen, f command.Finding) {
	w := words[f.Level]
	fmt.Fprintf(out, "%s %-19s %s\n", out.Paint(w.color, fmt.Sprintf("%-8s", w.word)), f.Check, output.Clean(f.Rule))
	for _, line := range []struct{ what, said string }{{"Found", f.Found}, {"Fix", f.Fix}} {
		if line.said != "" {
			fmt.Fprintf(out, "         %-6s %s\n", line.what, output.Clean(line.said))
		}
	}
}

// skipped reports whether a check did not run because of another one or of an interruption.
func skipped(f command.Finding) bool { return f.Level == command.LevelUntested && f.Fix == "" }

// printSkipped prints the checks that did not run, in one line for each reason.
func printSkipped(out *output.Screen, findings []command.Finding) {
	var reasons []string
	checks := map[string][]string{}
	for _, f := range findings {
		if !skipped(f) {
			continue
		}
		if checks[f.Found] == nil {
			reasons = append(reasons, f.Found)
		}
		checks[f.Found] = append(checks[f.Found], f.Check)
	}
	w := words[command.LevelUntested]
	for _, reason := range reasons {
		all := checks[reason]
		fmt.Fprintf(out, "%s %-19s %s\n", out.Paint(w.color, fmt.Sprintf("%-8s", w.word)), text.Count(len(all), "check"),
			output.Clean(strings.TrimSuffix(reason, ".")+": "+strings.Join(all, ", ")+"."))
	}
}

// printRemaining prints the end of a report.
func printRemaining(out *output.Screen, r *command.TestReport) error {
	printSkipped(out, r.Findings)
	counts := map[command.Level]int{}
	for _, f := range r.Findings {
		counts[f.Level]++
	}
	_, err := fmt.Fprintf(out, "\n%d checks: %d ok, %d advice, %d untested, %d wrong.\n", len(r.Findings), counts[command.LevelOK],
		counts[command.LevelAdvice], counts[command.LevelUntested], counts[command.LevelWrong])
	if len(r.Remaining) == 0 {
		return err
	}
	_, more := fmt.Fprintf(out,
		"%d machines may still run and cost money. This deletes them:\n\n  %s\n", len(r.Remaining), output.Clean(r.CleanUp))
	return errors.Join(err, more)
}
