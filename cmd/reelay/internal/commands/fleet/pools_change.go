package fleet

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/internal/text"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

// findPool returns the pool with a name or an id.
func findPool(ctx context.Context, c *client.Client, name string) (*client.Pool, error) {
	pools, err := c.Pools(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pools, func(p client.Pool) bool { return p.Name == name || p.Id == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no pool %s: `reelay pools` lists them", name)
	}
	return &pools[i], nil
}

// poolDetail is what --json prints of a pool.
type poolDetail struct {
	client.Pool
	ScalingHistory []client.ScalingDecision `json:"scalingHistory"`
}

func poolsShowCommand() *cobra.Command {
	var decisions int
	show := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := show.Command(&cobra.Command{
		Use:   "show NAME",
		Short: "Show one pool with all its fields and the scaler's newest decisions (for operators)",
		Args:  cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		pool, err := findPool(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		history, err := c.PoolHistory(ctx, pool.Id, decisions)
		if err != nil {
			return nil, nil, err
		}
		return poolDetail{*pool, history}, func(out io.Writer) error { return printPool(out, pool, history) }, nil
	})
	cmd.Flags().IntVar(&decisions, "decisions", 10, "how many of the scaler's decisions to show, 1 to 200")
	return cmd
}

func printPool(to io.Writer, p *client.Pool, history []client.ScalingDecision) error {
	out := bufio.NewWriter(to)
	field := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-20s"+format+"\n", append([]any{name}, args...)...)
	}
	field("name", "%s  (%s)", p.Name, p.Id)
	field("state", "%s", PoolState(p))
	if p.Paused {
		field("paused", "%s by %s", output.Since(p.PausedAt), output.Clean(lo.FromPtrOr(p.PausedBy, "unknown")))
	}
	if p.BackoffReason != nil && *p.BackoffReason != "" {
		field("refused", "%s", output.Clean(*p.BackoffReason))
	}
	if p.BootFailures > 0 {
		field("did not start", "%s", notStarting(p))
	}
	if p.ProviderProblem != nil && *p.ProviderProblem != "" {
		field("provider fails", "since %s: %s", output.Since(p.ProviderProblemSince), output.Clean(*p.ProviderProblem))
	}
	for _, warning := range p.Warnings {
		field("warning", "%s", output.Clean(warning))
	}
	field("workers", "%d booting, %d idle, %d busy, %d draining; the scaler wants %d", p.Booting, p.Idle, p.Busy, p.Draining, p.Desired)
	field("limits", "%d to %d workers, %d kept warm", p.MinWorkers, p.MaxWorkers, p.WarmWorkers)
	field("provider", "%s", p.Provider)
	field("region", "%s", strings.Join(append([]string{p.Region}, p.Zones...), ", "))
	field("GPU", "%s", p.GpuType)
	if p.MachineType != nil && *p.MachineType != "" {
		field("machine", "%s", *p.MachineType)
	}
	field("class", "%s", p.CapacityClass)
	field("models", "%s", cmp.Or(strings.Join(p.Models, ", "), "none"))
	if p.FollowsCatalogue {
		field("", "all of the catalogue whose runtime is the kind of the engines")
	}
	for i, e := range p.Engines {
		field(lo.Ternary(i == 0, "engines", ""), "%s", describe(e))
	}
	if len(p.Tiers) > 0 {
		field("lanes", "%s", strings.ToLower(text.Join(p.Tiers)))
	}
	if len(p.Accounts) > 0 {
		field("accounts", "%s%s", strings.Join(p.Accounts, ", "), lo.Ternary(p.State == client.PoolStateServesNobody, "  (deleted)", ""))
	}
	field("preemptible", "%s", cmp.Or(strings.ToLower(text.Join(p.YieldingTiers)), "none"))
	field("machines", "%s each, %s per worker", text.Count(p.WorkersPerMachine, "worker"), text.Count(p.GpusPerWorker, "GPU"))
	printPrice(field, p)
	if p.MaxPricePerHourUsd > 0 {
		field("most", "$%g per worker and hour", p.MaxPricePerHourUsd)
	}
	if p.HoldOnFailure {
		field("hold on failure", "one machine")
	}
	if p.ActiveHours != nil && *p.ActiveHours != "" {
		field("active", "%s", *p.ActiveHours)
	}
	if p.ScaleDownCooldownSeconds == nil {
		field("drained after", "as long idle as a start takes (automatic)")
	} else {
		field("drained after", "%s idle", text.Setting(time.Duration(*p.ScaleDownCooldownSeconds)*time.Second))
	}
	field("given up after", "%s of booting", text.Setting(time.Duration(p.BootLimitSeconds)*time.Second))
	for i, load := range p.ModelLoads {
		took := text.Seconds(load.LoadSeconds)
		if load.Fetches > 0 {
			took += fmt.Sprintf(", and %s to download the weights", text.Seconds(load.FetchSeconds))
		}
		field(lo.Ternary(i == 0, "loads", ""), "%s in %s  (%s measured)", output.Clean(load.Model), took, text.Count(load.Loads, "load"))
	}
	if p.Settings != nil && string(*p.Settings) != "{}" {
		field("settings", "%s", output.Clean(string(*p.Settings)))
	}
	if len(history) > 0 {
		fmt.Fprintln(out)
	}
	var rows [][]string
	type decided struct {
		from, to int
		reason   string
	}
	said := func(d client.ScalingDecision) decided {
		reason := d.Reason
		if d.Error != nil && *d.Error != "" {
			reason += " But: " + *d.Error
		}
		return decided{d.From, d.To, output.Clean(reason)}
	}
	for len(history) > 0 {
		d, times := said(history[0]), 1
		for times < len(history) && said(history[times]) == d {
			times++
		}
		at := output.Since(&history[0].At)
		if times > 1 {
			at = fmt.Sprintf("%s, %d times since %s", at, times, output.Since(&history[times-1].At))
		}
		history = history[times:]
		rows = append(rows, []string{at, fmt.Sprintf("%d → %d", d.from, d.to), d.reason})
	}
	if len(rows) > 0 {
		if err := output.WriteRows(output.ScreenOf(to).On(out), []string{"DECIDED", "WORKERS", "REASON"}, rows); err != nil {
			return err
		}
	}
	return out.Flush()
}

// notStarting says why machines of a pool do not start, and when the next is tried.
func notStarting(p *client.Pool) string {
	says := text.Count(p.BootFailures, "machine") + " in a row"
	if p.BootFailure != nil {
		says += ": " + output.Clean(*p.BootFailure)
	}
	switch at := p.BootRetryAt; {
	case at != nil && at.After(time.Now()):
		says += "; next attempt at " + output.Moment(*at)
	case at != nil:
		says += "; one is starting now"
	}
	return says
}

// poolExplanation is what --json prints of an explanation.
type poolExplanation struct {
	client.PoolExplanation
	Engines []client.Engine `json:"engines,omitempty"`
}

func poolsExplainCommand() *cobra.Command {
	explain := &connect.Call{Target: connect.Target{Operator: true}}
	return explain.Command(&cobra.Command{
		Use:   "explain NAME",
		Short: "Say how many workers a pool should have now, and why (for operators)",
		Long: "Says what the scaler would do with a pool now, and why. It changes nothing. Of a pool of the provider static, it says what\n" +
			"should be done with it: its machines come by themselves. Of a pool of engines, it says the state of each engine.",
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		pool, err := findPool(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		e, err := c.ExplainPool(ctx, pool.Id)
		if err != nil {
			return nil, nil, err
		}
		return poolExplanation{*e, pool.Engines}, func(out io.Writer) error { return printExplanation(out, pool, e) }, nil
	})
}

func printExplanation(out io.Writer, pool *client.Pool, e *client.PoolExplanation) error {
	if pool.EngineKind != nil {
		fmt.Fprintf(out, "%s has %s. Workers: %d, one for each engine that is ready or holds a job.\n%s\n", pool.Name,
			text.Count(len(pool.Engines), "engine"), e.Workers, output.Clean(e.Reason))
		for _, one := range pool.Engines {
			fmt.Fprintln(out, describe(one))
		}
		return nil
	}
	does := "It stays as it is."
	switch {
	case e.Boot > 0 && pool.Provider == "static":
		does = fmt.Sprintf("Start the agents of %d: Reelay does not start the machines of this pool.", e.Boot)
	case e.Boot > 0:
		does = fmt.Sprintf("It boots %d.", e.Boot)
	case e.Drain > 0:
		does = fmt.Sprintf("It drains %d.", e.Drain)
	case e.Workers > e.Desired:
		does = "Nothing is drained yet."
	}
	fmt.Fprintf(out, "%s has %d of the %d workers that it should have. %s\n%s\n%s\n", pool.Name, e.Workers, e.Desired, does,
		output.Clean(e.Reason), output.Clean(e.IdleReason))
	var err error
	if warm, reserve := e.WarmCostPerHourUsd, e.ReserveCostPerHourUsd; warm+reserve > 0 {
		_, err = fmt.Fprintf(out, "Of its idle workers, those kept warm cost $%.2f per hour, and those in reserve $%.2f.\n", warm, reserve)
	}
	return err
}

func applyPools(cmd *cobra.Command, dryRun bool) *cobra.Command {
	var file string
	apply := &connect.Call{Target: connect.Target{Operator: true}}
	cmd = apply.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		source, err := readSpecFile(file, cmd.InOrStdin())
		if err != nil {
			return nil, nil, err
		}
		changes, err := c.ApplyPools(ctx, file, source, dryRun)
		if err != nil {
			return nil, nil, err
		}
		return output.All(changes), func(out io.Writer) error { return printPoolChanges(out, changes) }, nil
	})
	cmd.Flags().StringVarP(&file, "file", "f", "", "the file of pools; - is standard input")
	return cmd
}

func printPoolChanges(to io.Writer, changes []client.PoolChange) error {
	out := bufio.NewWriter(to)
	for _, c := range changes {
		fmt.Fprintf(out, "%-9s  pool %s\n", strings.ToLower(string(c.Kind)), c.Name)
		for _, warning := range c.Warnings {
			fmt.Fprintf(out, "           warning: %s\n", output.Clean(warning))
		}
		for _, d := range c.Differences {
			fmt.Fprintf(out, "           %s: %s → %s\n", output.Clean(d.Path), shownValue(d.Before), shownValue(d.After))
		}
	}
	return out.Flush()
}

func poolAction(verb, short, done string, do func(*client.Client, context.Context, string) (*client.Pool, error)) *cobra.Command {
	act := &connect.Call{Target: connect.Target{Operator: true}}
	return act.Command(&cobra.Command{
		Use:   verb + " NAME",
		Short: short + " (for operators)",
		Args:  cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		pool, err := findPool(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		if pool, err = do(c, ctx, pool.Id); err != nil {
			return nil, nil, err
		}
		return pool, output.Line("%s the pool %s: %d booting, %d idle, %d busy, %d draining.", done, pool.Name, pool.Booting, pool.Idle,
			pool.Busy, pool.Draining), nil
	})
}

func poolsDeleteCommand() *cobra.Command {
	remove := &connect.Call{Target: connect.Target{Operator: true}, Danger: connect.Question("Delete the pool %s?")}
	return remove.Command(&cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a pool that has no workers (for operators)",
		Long:  "Deletes a pool that has no workers. Pause it first, and wait until its workers have left.",
		Args:  cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		pool, err := findPool(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		if err := c.DeletePool(ctx, pool.Id); err != nil {
			return nil, nil, err
		}
		return map[string]string{"deleted": pool.Name}, output.Line("Deleted the pool %s.", pool.Name), nil
	})
}
