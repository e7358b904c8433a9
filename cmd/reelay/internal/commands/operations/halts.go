package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
)

// haltTargets are what `halt` and `resume` take.
var haltTargets = map[string][]client.HaltTarget{
	"schedules": {client.HaltTargetSchedules}, "leases": {client.HaltTargetLeases}, "all": client.AllHaltTarget,
}

// HaltCommand returns `reelay halt`.
func HaltCommand() *cobra.Command {
	var reason string
	halt := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := halt.Command(&cobra.Command{
		Use:   "halt [schedules|leases|all]",
		Short: "Halt all schedules or leases, or show what is halted (for operators)",
		Long: "Halts schedules (no slot fires), leases (no worker gets a job), or both, at once and in all processes. Running\n" +
			"jobs continue, and new ones are accepted. Without an argument it shows what is halted.",
		Example:   "  reelay halt leases --reason 'the storage is being moved'\n  reelay halt\n  reelay resume leases",
		Args:      haltArgs(0),
		ValidArgs: []string{"schedules", "leases", "all"},
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		if len(args) == 0 {
			halts, err := c.Halts(ctx)
			return halts, printHalts(halts), err
		}
		if reason == "" {
			return nil, nil, errors.New("say why, with --reason: the owners of waiting jobs see it")
		}
		halts, err := c.Halt(ctx, haltTargets[args[0]], reason)
		return halts, printHalts(halts), err
	})
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown to the owners of waiting jobs")
	return cmd
}

// ResumeCommand returns `reelay resume`.
func ResumeCommand() *cobra.Command {
	resume := &connect.Call{Target: connect.Target{Operator: true}}
	return resume.Command(&cobra.Command{
		Use:   "resume schedules|leases|all",
		Short: "Lift a halt (for operators)",
		Long: "Lifts the halt of schedules, leases or both. Workers get jobs within a second. Each schedule treats the slots of\n" +
			"the halt by its rule for late slots (catchUp).",
		Example:   "  reelay resume all",
		Args:      haltArgs(1),
		ValidArgs: []string{"schedules", "leases", "all"},
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		left, err := c.Resume(ctx, haltTargets[args[0]])
		return left, printHalts(left), err
	})
}

// haltArgs checks the one argument, which may be absent if least is 0.
func haltArgs(least int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > 1 {
			return errors.New("name schedules, leases or all")
		}
		if len(args) == 1 && haltTargets[args[0]] == nil {
			return fmt.Errorf("%q cannot be halted: name schedules, leases or all", args[0])
		}
		return nil
	}
}

// printHalts prints what is halted, by whom, since when and why.
func printHalts(halts []client.Halt) output.Printer {
	return func(out io.Writer) error {
		if len(halts) == 0 {
			_, err := fmt.Fprintln(out, "Nothing is halted.")
			return err
		}
		for _, h := range halts {
			if _, err := fmt.Fprintf(out, "%s: halted by %s %s: %s\n", strings.ToLower(string(h.What)), output.Clean(h.By), output.Since(&h.Since),
				output.Clean(h.Reason)); err != nil {
				return err
			}
		}
		return nil
	}
}
