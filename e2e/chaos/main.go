// Command chaos is the soak test: it runs all processes of Reelay under load while
// everything around them fails. Its exit status is 1 if a job was lost or doubled, an
// invariant is broken, or the run never met one of the faults that it must meet. See
// docs/operators/reliability.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/reelay/reelay/internal/localstack"
)

// options are the arguments of the soak.
type options struct {
	Seed    uint64
	Minutes float64
	Agents  int
	JSON    bool
	Bin     string
	Beside  string // folder with the programs of another release
	Upgrade string // folder with the programs of the release before
	Keep    bool
	Reclaim int // waves of reclamation instead of faults
	Nodes   int // of the workflow that runs besides
}

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
	// The task runner does not forward signals: see internal/localstack.
	ctx, err = localstack.Follow(ctx, os.Getenv("REELAY_FOLLOW"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: REELAY_FOLLOW:", err)
		return 2
	}

	fmt.Fprintln(os.Stderr, "chaos: to repeat this run:", o.command())
	defer fmt.Fprintln(os.Stderr, "chaos: to repeat this run:", o.command())
	report, err := o.soak(ctx)
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "chaos: interrupted; all processes were stopped, and the run has no verdict")
		return 1
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	if o.JSON {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(report)
	} else {
		report.print(os.Stdout)
	}
	if len(report.Failures) == 0 {
		fmt.Fprintln(os.Stderr, "chaos: passed")
		return 0
	}
	for _, failure := range report.Failures {
		fmt.Fprintln(os.Stderr, "chaos: FAILED:", failure)
	}
	return 1
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano())%1_000_000, "decides the order of faults and jobs")
	flags.Float64Var(&o.Minutes, "minutes", 5, "minutes of faults; draining and checking take extra time")
	flags.IntVar(&o.Agents, "agents", 44, "agents to run")
	flags.IntVar(&o.Reclaim, "reclaim", 0,
		"instead of faults, let 70 % of the agents be lost at once this many times, and then some with notice")
	flags.IntVar(&o.Nodes, "workflow", 200, "nodes of the workflow that runs besides; 0: none")
	flags.BoolVar(&o.JSON, "json", false, "print the result as one JSON document")
	flags.StringVar(&o.Bin, "bin", "bin", "folder with reelay and reelay-agent")
	flags.StringVar(&o.Beside, "beside", "",
		"folder with reelay and reelay-agent of another release, such as the one before: every other process that starts is one of them")
	flags.StringVar(&o.Upgrade, "upgrade", "",
		"folder with reelay and reelay-agent of the release before: instead of faults, upgrade from it under load, stay mixed for --minutes, and roll back")
	flags.BoolVar(&o.Keep, "keep", false, "keep the folder with all logs and data even if the run passes")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("there is no argument %q; see --help", flags.Arg(0))
	case !(o.Minutes > 0 && o.Minutes <= 24*60):
		return o, fmt.Errorf("--minutes is %g: it must be above 0, and 1440 at most", o.Minutes)
	case o.Reclaim < 0 || o.Reclaim > 100:
		return o, fmt.Errorf("--reclaim is %d: it must be from 0 to 100", o.Reclaim)
	case o.Nodes < 0 || o.Nodes > maxGraph:
		return o, fmt.Errorf("--workflow is %d: it must be from 0 to %d", o.Nodes, maxGraph)
	case o.Upgrade != "" && (o.Beside != "" || o.Reclaim > 0):
		return o, errors.New("--upgrade excludes --beside and --reclaim: start one run for each")
	case o.Agents < 2 || o.Agents > 500:
		return o, fmt.Errorf("--agents is %d: it must be from 2 to 500", o.Agents)
	}
	if err := findPrograms(&o.Bin); err != nil {
		return o, fmt.Errorf("--bin is %s, and %w: run `go tool task build`", o.Bin, err)
	}
	for name, folder := range map[string]*string{"beside": &o.Beside, "upgrade": &o.Upgrade} {
		if *folder == "" {
			continue
		}
		if err := findPrograms(folder); err != nil {
			return o, fmt.Errorf("--%s is %s, and %w: build the other release, and name its folder", name, *folder, err)
		}
	}
	return o, nil
}

// findPrograms makes a folder absolute, and checks that it has the programs.
func findPrograms(folder *string) error {
	bin, err := filepath.Abs(*folder)
	if err != nil {
		return err
	}
	*folder = bin
	for _, program := range []string{"reelay", "reelay-agent"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			return fmt.Errorf("%s is not there", program)
		}
	}
	return nil
}

// command returns the command that repeats the run.
func (o options) command() string {
	if o.Reclaim > 0 {
		return fmt.Sprintf("go tool task chaos -- --seed %d --agents %d --reclaim %d", o.Seed, o.Agents, o.Reclaim)
	}
	if o.Upgrade != "" {
		return fmt.Sprintf("go tool task chaos -- --seed %d --minutes %g --agents %d --upgrade %s", o.Seed, o.Minutes, o.Agents, o.Upgrade)
	}
	command := fmt.Sprintf("go tool task chaos -- --seed %d --minutes %g --agents %d --workflow %d", o.Seed, o.Minutes, o.Agents, o.Nodes)
	if o.Beside != "" {
		command += " --beside " + o.Beside
	}
	return command
}

// random returns a separate generator for each purpose, so that the sequences do not
// depend on each other.
func (o options) random(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, purpose)) }
