package fleet

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// PoolsCommand returns `reelay pools`.
func PoolsCommand() *cobra.Command {
	cmd := listPools(&cobra.Command{
		Use:   "pools",
		Short: "Show and change the pools (for operators)",
		Long: "Lists the pools with the numbers of their workers. A pool whose state is refused boots no worker for a while: its\n" +
			"provider had no machines, or did not allow them. One that is not booting tries one machine at a time: several in a row\n" +
			"did not start, as `reelay pools show` explains. No worker boots in one that is too dear: its price is above its limit,\n" +
			"or one that is closed by hours: it is outside its activeHours. See docs/operators/pools.md.",
		Args: terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listPools(&cobra.Command{Use: "list", Short: "List the pools (for operators)", Args: cobra.NoArgs}),
		poolsShowCommand(),
		poolsExplainCommand(),
		poolsAddCommand(),
		applyPools(&cobra.Command{
			Use:   "apply -f FILE",
			Short: "Add and change the pools of a file (for operators)",
			Long: "Adds and changes the pools of a YAML or JSON file, all or none of them. Pools that the file does not name stay.\n" +
				"Workers that run stay as they are; the scaler brings their number in line. FILE may be - for standard input.",
			Example: "  reelay pools diff -f pools.yaml\n  reelay pools apply -f pools.yaml",
			Args:    cobra.NoArgs,
		}, false),
		applyPools(&cobra.Command{Use: "diff -f FILE", Short: "Show what apply would change (for operators)", Args: cobra.NoArgs}, true),
		poolAction("pause", "Stop a pool: it gets no more workers, and those that it has finish their job and leave", "Paused",
			(*client.Client).PausePool),
		poolAction("resume", "Let a pool that was paused have workers again", "Resumed", (*client.Client).ResumePool),
		poolsDeleteCommand(),
		poolsEnginesCommand(),
		engineAction("hold-engine", "Take an engine out of service: its worker finishes its job and leaves", "Held", (*client.Client).HoldEngine),
		engineAction("resume-engine", "Put an engine that was held back into service", "Resumed", (*client.Client).ResumeEngine),
		poolsProviderCommand(),
		poolsCheckpointsCommand())
	return cmd
}

func listPools(cmd *cobra.Command) *cobra.Command {
	list := &connect.Lister[client.Pool]{
		Target: connect.Target{Operator: true}, Table: poolTable, Whole: true,
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.Pool], error) {
			return output.Complete(c.Pools(ctx))
		},
	}
	return list.Command(cmd)
}

var poolTable = output.Table[client.Pool]{
	Columns: []output.Column[client.Pool]{
		{Title: "POOL", Value: func(p client.Pool) any { return p.Name }},
		{Title: "STATE", Kind: output.State, Value: func(p client.Pool) any { return PoolState(&p) }},
		{Title: "PROVIDER", Minor: true, Value: func(p client.Pool) any { return p.Provider }},
		{Title: "REGION", Wide: true, Value: func(p client.Pool) any { return p.Region }},
		{Title: "CLASS", Minor: true, Value: func(p client.Pool) any { return p.CapacityClass }},
		{Title: "GPU", Minor: true, Value: func(p client.Pool) any { return p.GpuType }},
		{Title: "BOOTING", Minor: true, Value: func(p client.Pool) any { return p.Booting }},
		{Title: "IDLE", Value: func(p client.Pool) any { return p.Idle }},
		{Title: "BUSY", Value: func(p client.Pool) any { return p.Busy }},
		{Title: "DRAINING", Value: func(p client.Pool) any { return p.Draining }},
		{Title: "WANTED", Wide: true, Value: func(p client.Pool) any { return p.Desired }},
		{Title: "LIMITS", Value: func(p client.Pool) any { return fmt.Sprintf("%d to %d", p.MinWorkers, p.MaxWorkers) }},
		{Title: "PRICE/H", Minor: true, Value: func(p client.Pool) any { return priceNow(p) }},
		{Title: "MODELS", Kind: output.Long, Value: func(p client.Pool) any { return p.Models }},
		{Title: "WHY", Kind: output.Long, Minor: true, Value: func(p client.Pool) any {
			switch {
			case p.State == client.PoolStateServesNobody:
				return "its accounts are deleted"
			case p.Paused && p.PausedBy != nil:
				return "paused by " + output.Clean(*p.PausedBy)
			case p.State == client.PoolStateNotBooting:
				return notStarting(&p)
			case p.State == client.PoolStateRefused && p.BackoffReason != nil:
				return output.Clean(*p.BackoffReason)
			case p.State == client.PoolStateFailing && p.ProviderProblem != nil:
				return output.Clean(*p.ProviderProblem)
			}
			return nil
		}},
	},
	Name: func(p client.Pool) string { return p.Name },
	None: "No pools. Workers that register themselves need none.",
}

// PoolState says what keeps a pool from growing.
func PoolState(p *client.Pool) string {
	return strings.ToLower(strings.ReplaceAll(string(p.State), "_", " "))
}

func poolsCheckpointsCommand() *cobra.Command {
	list := &connect.Call{Target: connect.Target{Operator: true}}
	return list.Command(&cobra.Command{
		Use:   "checkpoints",
		Short: "Show how often the workers of each pool save checkpoints (for operators)",
		Long: "Shows for each pool and model how often the workers save checkpoints: the interval that wastes the least GPU time,\n" +
			"given how long a checkpoint takes and how often the pool loses workers. See docs/operators/checkpoints.md.\n" +
			"A dash means that no checkpoint of the model has been saved: it has none, or it is new.",
		Args: cobra.NoArgs,
	}, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		pools, err := c.Pools(ctx)
		var plans []poolPlans
		for _, p := range pools {
			plans = append(plans, poolPlans{p.Name, p.CheckpointPlans})
		}
		return output.All(plans), func(out io.Writer) error { return printCheckpointPlans(out, plans) }, err
	})
}

// poolPlans is what JSON has of a pool's checkpoints.
type poolPlans struct {
	Pool            string                  `json:"pool"`
	CheckpointPlans []client.CheckpointPlan `json:"checkpointPlans"`
}

func printCheckpointPlans(out io.Writer, pools []poolPlans) error {
	var rows [][]string
	for _, pool := range pools {
		for _, p := range pool.CheckpointPlans {
			every, save, waste := "-", "-", "-"
			if p.Saves > 0 {
				every, save, waste = fmt.Sprintf("%.0f s", p.IntervalSeconds), fmt.Sprintf("%.2g s", p.SaveSeconds),
					fmt.Sprintf("%.1f %%", 100*p.Overhead)
			}
			rows = append(rows, []string{pool.Pool, p.Model, every, save, fmt.Sprintf("1 in %.3g busy h", p.HoursBetweenLosses), waste})
		}
	}
	return output.WriteRows(out, []string{"POOL", "MODEL", "CHECKPOINT EVERY", "SAVE TAKES", "LOSSES", "WASTE"}, rows)
}
