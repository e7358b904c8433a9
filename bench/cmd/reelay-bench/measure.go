package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/bench"
	"github.com/spf13/cobra"
)

// options are the flags of the program.
type options struct {
	place   place
	effort  bench.Effort
	seconds float64
	peers   string
	asJSON  bool
}

func measureCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "reelay-bench [MEASUREMENT…]",
		Short: "Measure how fast Reelay is on this machine, beside the limit and its peers",
		Long: "Measures Reelay, and in the same rounds, by turns, the limit (pgbench scripts of the same transactions on\n" +
			"the same PostgreSQL) and the peers that do the nearest equal work (River, asynq, Faktory, bare gqlgen).\n" +
			"Shown are medians with the least and the most of the rounds, the ratios, and which targets were met. That\n" +
			"one is missed does not change the exit status.\n\n" +
			"It starts a stack of its own for each measurement, or takes a given one: a running `reelay up --agents 0`\n" +
			"by --data, any other by --endpoint, the key of an ADMIN in REELAY_API_KEY, and its DATABASE_URL and REDIS_URL.\n" +
			"A given one has to run with REELAY_MODELS set to bench/models of a checkout, and keeps the jobs of the measurements.\n" +
			"The peers are built from bench/peers of a checkout; pgbench comes with PostgreSQL.",
		Example: "  reelay-bench\n  reelay-bench submit lease heartbeat --rounds 5 --json\n" +
			"  REELAY_MODELS=bench/models reelay up --agents 0 & reelay-bench submit --data .reelay",
		Args:              cobra.ArbitraryArgs,
		ValidArgs:         measurementNames(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, names []string) error {
			all, err := bench.Named(names)
			if err == nil {
				err = o.check()
			}
			if err != nil {
				return &usageError{err}
			}
			return o.run(cmd, all)
		},
	}
	f := cmd.Flags()
	o.place.addFlags(f)
	f.IntVar(&o.effort.Rounds, "rounds", 5, "how many rounds, of whose figures the median counts")
	f.Float64Var(&o.seconds, "seconds", 3, "how long each contestant works in a round")
	f.IntVar(&o.effort.N, "n", 0,
		"how many jobs a round of pickup has, how many subscriptions there are, how many jobs run on the day, whose rates go with them, and in a fleet, or how many nodes a neighbour's workflow has (default: 60, 4000, 3600, 3600 and 10000)")
	f.IntSliceVar(&o.effort.Rows, "rows", []int{10_000, 1_000_000, 10_000_000}, "how many jobs there are for each step of growth")
	f.Float64Var(&o.effort.Minutes, "minutes", 10, "how long the daily load, that of a fleet, all rounds of stores, and each phase of neighbour last")
	f.BoolVar(&o.effort.Small, "small", false, "make everything small, to see whether it works: the figures mean nothing")
	f.StringVar(&o.peers, "peers", "bin", "folder with the programs of the peers, built there if need be; empty measures none")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON document")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	cmd.AddCommand(listsCommand(), pagesCommand())
	return cmd
}

// measurementNames are the names of the measurements, each once.
func measurementNames() []string {
	var names []string
	for _, m := range bench.All() {
		if len(names) == 0 || names[len(names)-1] != m.Name {
			names = append(names, m.Name)
		}
	}
	return names
}

func (o *options) check() error {
	switch {
	case o.effort.Rounds < 1 || o.effort.Rounds > 100:
		return fmt.Errorf("--rounds is %d: it must be from 1 to 100", o.effort.Rounds)
	case !(o.seconds >= 0.1 && o.seconds <= 600):
		return fmt.Errorf("--seconds is %v: it must be from 0.1 to 600", o.seconds)
	case o.effort.N < 0 || o.effort.N > 100_000:
		return fmt.Errorf("--n is %d: it must be from 1 to 100000", o.effort.N)
	case len(o.effort.Rows) == 0 || !slices.IsSorted(o.effort.Rows) || o.effort.Rows[0] < 1 || slices.Max(o.effort.Rows) > 100_000_000:
		return fmt.Errorf("--rows is %v: it must be rising numbers from 1 to 100000000", o.effort.Rows)
	case !(o.effort.Minutes >= 0.01 && o.effort.Minutes <= 24*60):
		return fmt.Errorf("--minutes is %v: it must be from 0.01 to 1440", o.effort.Minutes)
	}
	o.effort.Span = time.Duration(o.seconds * float64(time.Second))
	return nil
}

func (o *options) run(cmd *cobra.Command, all []bench.Measurement) (err error) {
	say := func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
	if o.effort.Small && o.place.data == "" && o.place.endpoint == "" { // one stack is enough
		stack, err := startStack(cmd.Context(), o.place.reelay, "", true, 2)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stack.stop()) }()
		o.place.data = stack.data
	}
	peers, lack := o.findPeers(cmd.Context())
	report, err := bench.Run(cmd.Context(), all, func(ctx context.Context, name string) (*bench.Site, func() error, error) {
		site, closeSite, err := o.place.open(ctx, name, say)
		if err != nil {
			return nil, nil, err
		}
		site.Peers, site.Effort = peers, o.effort
		if lack != nil {
			site.Lacks("some of the peers", lack)
		}
		return site, closeSite, nil
	})
	if o.asJSON {
		return errors.Join(err, printJSON(cmd.OutOrStdout(), report))
	}
	return errors.Join(err, report.Print(cmd.OutOrStdout()))
}

func (o *options) findPeers(ctx context.Context) (*bench.Peers, error) {
	if o.peers == "" {
		return nil, errors.New("--peers is empty")
	}
	return bench.FindPeers(ctx, o.peers)
}
