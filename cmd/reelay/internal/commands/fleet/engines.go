package fleet

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/internal/engine"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

func poolsAddCommand() *cobra.Command {
	in := client.PoolInput{}
	var kind, class string
	add := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := add.Command(&cobra.Command{
		Use:   "add NAME",
		Short: "Add a pool (for operators)",
		Long: "Adds a pool of engines: servers that render, which `reelay agent --pool NAME` drives over HTTP. It has the models of the\n" +
			"catalogue whose runtime is the kind, also those to come, unless --models names some. See docs/operators/engines.md.\n" +
			"With --provider it adds another pool. Pools with more settings are written in a file: `reelay pools apply`.",
		Example: "  reelay pools add comfy --kind comfyui --engine http://gpu-1:8188 --engine http://gpu-2:8188\n" +
			"  reelay pools add own --provider static --region local --gpu-type L4 --models testcard --max-workers 4",
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		in := in
		in.Name = args[0]
		if kind != "" {
			known, err := engine.ParseKind(kind)
			if err != nil {
				return nil, nil, fmt.Errorf("--kind: %w", err)
			}
			in.EngineKind = new(string(known))
		}
		if class != "" {
			in.CapacityClass = new(client.CapacityClass(enumWord(class)))
		}
		pool, err := c.CreatePool(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		next := "`reelay pools show " + pool.Name + "` shows it."
		if pool.EngineKind != nil {
			next = "Now start `reelay agent --pool " + pool.Name + "` on a machine that reaches its engines."
		}
		return pool, output.Line("Added the pool %s. %s", pool.Name, next), nil
	})
	flags := cmd.Flags()
	flags.StringVar(&kind, "kind", "", "what the engines are: "+engine.List())
	flags.StringArrayVar(&in.Engines, "engine", nil, "the `URL` of an engine, such as http://gpu-1:8188; repeat it for more")
	flags.StringSliceVar(&in.Models, "models", nil, "the models that the pool runs; of engines, all of the kind if left out")
	flags.StringVar(&in.Provider, "provider", engine.Provider, "the provider of the workers")
	flags.StringVar(&in.Region, "region", "", "where they are; of engines: local")
	flags.StringVar(&in.GpuType, "gpu-type", "", "the type of their GPUs, as models name it; of engines: engine")
	flags.StringVar(&class, "capacity-class", "", "spot or on-demand; of engines: on-demand")
	flags.IntVar(&in.MaxWorkers, "max-workers", 0, "how many workers the pool may have; of engines: one each")
	flags.Float64Var(&in.PricePerHourUsd, "price", 0, "what a worker costs per hour, in US dollars")
	return cmd
}

// enumWord is a value of the API as people write it: on-demand is ON_DEMAND.
func enumWord(word string) string { return strings.ToUpper(strings.ReplaceAll(word, "-", "_")) }

func poolsEnginesCommand() *cobra.Command {
	list := &connect.Lister[client.Engine]{Target: connect.Target{Operator: true}, Table: engineTable, Whole: true}
	var name string
	list.Ask = func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.Engine], error) {
		pool, err := findPool(ctx, c, name)
		if err != nil {
			return output.List[client.Engine]{}, err
		}
		if pool.EngineKind == nil {
			return output.List[client.Engine]{}, fmt.Errorf("the pool %s has no engines: its provider is %s", pool.Name, pool.Provider)
		}
		return output.All(pool.Engines), nil
	}
	return list.Command(&cobra.Command{
		Use:   "engines NAME",
		Short: "List the engines of a pool with their states (for operators)",
		Long: "Lists the engines of a pool: their states and since when, what they render, their versions, and the models that they lack.\n" +
			"An engine is unknown if no agent has reported it for a minute. See docs/operators/engines.md.",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(1)(cmd, args); err != nil {
				return err
			}
			name = args[0]
			return nil
		},
	})
}

var engineTable = output.Table[client.Engine]{
	Columns: []output.Column[client.Engine]{
		{Title: "ENGINE", Value: func(e client.Engine) any { return e.Url }},
		{Title: "STATE", Kind: output.State, Value: func(e client.Engine) any { return engineState(e) }},
		{Title: "SINCE", Value: func(e client.Engine) any { return e.Since }},
		{Title: "JOB", Value: func(e client.Engine) any { return output.OrDash(engineJob(e)) }},
		{Title: "VERSION", Minor: true, Value: func(e client.Engine) any { return output.Clean(e.Version) }},
		{Title: "GPU", Minor: true, Value: func(e client.Engine) any { return engineGPU(e) }},
		{Title: "LACKS", Minor: true, Value: func(e client.Engine) any {
			return lo.Map(e.Lacks, func(l client.EngineLack, _ int) string { return l.Model })
		}},
		{Title: "WHY", Kind: output.Long, Value: func(e client.Engine) any { return output.Clean(e.Reason) }},
	},
	Name: func(e client.Engine) string { return e.Url },
	None: "The pool has no engines.",
}

func engineState(e client.Engine) string {
	state := strings.ToLower(string(e.State))
	if e.Held && e.State != client.EngineStateHeld {
		state += ", held"
	}
	return state
}

// engineJob returns the job that an engine renders, or nil.
func engineJob(e client.Engine) *string {
	if e.Worker == nil || e.Worker.CurrentJob == nil {
		return nil
	}
	return &e.Worker.CurrentJob.Id
}

func engineGPU(e client.Engine) string {
	says := output.Clean(e.GpuName)
	if e.GpuMemoryBytes != nil {
		memory := output.Size(*e.GpuMemoryBytes)
		if e.GpuMemoryFreeBytes != nil {
			memory = output.Size(*e.GpuMemoryFreeBytes) + " of " + memory + " free"
		}
		says = strings.TrimSpace(says + " " + memory)
	}
	return says
}

// describe is an engine in one line.
func describe(e client.Engine) string {
	says := fmt.Sprintf("%s  %s since %s", e.Url, engineState(e), output.Moment(e.Since))
	if job := engineJob(e); job != nil {
		says += ", renders " + *job
	}
	if e.Held && e.HeldBy != nil {
		says += ", held by " + output.Clean(*e.HeldBy)
	}
	if e.Reason != "" {
		says += ": " + output.Clean(e.Reason)
	}
	for _, l := range e.Lacks {
		says += fmt.Sprintf("; lacks %s (%s)", output.Clean(l.Model), cmp.Or(output.Clean(l.Missing), "it does not say what"))
	}
	return says
}

func engineAction(
	verb, short, done string, do func(*client.Client, context.Context, string, string) (*client.Engine, error),
) *cobra.Command {
	act := &connect.Call{Target: connect.Target{Operator: true}}
	return act.Command(&cobra.Command{
		Use:   verb + " NAME URL",
		Short: short + " (for operators)",
		Args:  cobra.ExactArgs(2),
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		pool, err := findPool(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		e, err := do(c, ctx, pool.Id, args[1])
		if err != nil {
			return nil, nil, err
		}
		return e, output.Line("%s the engine %s of the pool %s. Its state: %s.", done, e.Url, pool.Name, engineState(*e)), nil
	})
}
