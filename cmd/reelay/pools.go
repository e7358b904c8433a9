package main

import (
	"context"
	"fmt"
	"io"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func poolsCommand() *cobra.Command {
	cmd := listPools(&cobra.Command{
		Use:   "pools",
		Short: "Show the pools and how often they save checkpoints, change them (for operators)",
		Long: "Shows the workers of each pool, and for each of its models how often they save checkpoints: the interval that\n" +
			"wastes the least GPU time, given how long a checkpoint takes and how often the pool loses workers. See docs/operators/checkpoints.md.\n" +
			"A dash means that no checkpoint of the model has been saved: it has none, or it is new.",
		Args: noSuchCommand,
	})
	cmd.AddCommand(
		listPools(&cobra.Command{Use: "list", Short: "List the pools (for operators)", Args: cobra.NoArgs}),
		poolsShowCommand(),
		poolsExplainCommand(),
		applyPools(&cobra.Command{
			Use:   "apply -f FILE",
			Short: "Add and change the pools of a file (for operators)",
			Long: "Adds and changes the pools of a YAML or JSON file, all or none of them. Pools that the file does not name stay.\n" +
				"Workers that run stay as they are; the scaler brings their number in line. FILE may be - for standard input.",
			Example: "  reelay pools diff -f pools.yaml\n  reelay pools apply -f pools.yaml",
			Args:    cobra.NoArgs,
		}, false),
		applyPools(&cobra.Command{Use: "diff -f FILE", Short: "Show what apply would change (for operators)", Args: cobra.NoArgs}, true),
		poolAction("pause", "Stop a pool: it gets no more workers, and those that it has finish their job and leave", "Paused", (*client.Client).PausePool),
		poolAction("resume", "Let a pool that was paused have workers again", "Resumed", (*client.Client).ResumePool),
		poolsDeleteCommand())
	return cmd
}

func listPools(cmd *cobra.Command) *cobra.Command {
	list := &apiCall{target: target{operator: true}}
	return list.command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, printer, error) {
		pools, err := c.Pools(ctx)
		return items[client.Pool]{pools}, func(out io.Writer) error { return printPools(out, pools) }, err
	})
}

func printPools(out io.Writer, pools []client.Pool) error {
	if len(pools) == 0 {
		_, err := fmt.Fprintln(out, "There are no pools. Workers that register themselves need none.")
		return err
	}
	var rows [][]string
	for _, pool := range pools {
		workers := fmt.Sprintf("%d of %d to %d", pool.Idle+pool.Busy, pool.MinWorkers, pool.MaxWorkers)
		for _, p := range pool.CheckpointPlans {
			every, save, waste := "-", "-", "-"
			if p.Saves > 0 {
				every, save, waste = fmt.Sprintf("%.0f s", p.IntervalSeconds), fmt.Sprintf("%.2g s", p.SaveSeconds), fmt.Sprintf("%.1f %%", 100*p.Overhead)
			}
			losses := fmt.Sprintf("1 in %.3g busy h", p.HoursBetweenLosses)
			rows = append(rows, []string{pool.Name, string(pool.CapacityClass), workers, p.Model, every, save, losses, waste})
		}
		if len(pool.CheckpointPlans) == 0 {
			rows = append(rows, []string{pool.Name, string(pool.CapacityClass), workers, "-", "-", "-", "-", "-"})
		}
	}
	return printTable(out, []string{"POOL", "CLASS", "WORKERS", "MODEL", "CHECKPOINT EVERY", "SAVE TAKES", "LOSSES", "WASTE"}, rows)
}
