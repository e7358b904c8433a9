package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

// WorkersCommand returns `reelay workers`.
func WorkersCommand() *cobra.Command {
	cmd := listWorkers(&cobra.Command{
		Use:        "workers",
		SuggestFor: []string{"agents", "nodes", "hosts"},
		Short:      "List, drain, preempt, terminate and quarantine workers (for operators)",
		Example:    "  reelay workers --status idle,busy --zone us-central1-a\n  reelay workers --quarantined",
		Args:       terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listWorkers(&cobra.Command{Use: "list", Short: "List workers", Args: cobra.NoArgs}),
		workersShowCommand(), workersDrainCommand(), workersPreemptCommand(), workersTerminateCommand(), workersQuarantineCommand(),
		workersReleaseCommand())
	return cmd
}

func listWorkers(cmd *cobra.Command) *cobra.Command {
	var status []string
	var states []client.WorkerStatus
	var filter client.WorkerFilter
	var pool string
	cmd.Flags().StringSliceVar(&status, "status", nil, "only workers in these states (default: all but terminated)")
	cmd.Flags().StringVar(&pool, "pool", "", "only workers of this pool, by name or id")
	cmd.Flags().StringVar(&filter.GPUType, "gpu-type", "", "only workers with this type of GPU")
	cmd.Flags().StringVar(&filter.Zone, "zone", "", "only workers in this zone, or in this region if they have no zone")
	cmd.Flags().StringVar(&filter.AgentVersion, "agent-version", "", "only workers with this version of the agent")
	cmd.Flags().BoolVar(&filter.Quarantined, "quarantined", false, "only workers whose host is in quarantine")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		if states, err = input.ParseEnums("status", status, client.AllWorkerStatus); err != nil {
			return terminal.UsageError(cmd, err)
		}
		if len(states) == 0 {
			states = LiveWorkers()
		}
		return nil
	}
	list := &connect.Lister[client.Worker]{
		Target: connect.Target{Operator: true},
		Table:  WorkerTable,
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (output.List[client.Worker], error) {
			filter := filter
			filter.Status = states
			if pool != "" {
				found, err := findPool(ctx, c, pool)
				if err != nil {
					return output.List[client.Worker]{}, err
				}
				filter.PoolID = found.Id
			}
			return output.Page[client.Worker](c.Workers(ctx, filter, p.First, p.After))
		},
	}
	return list.Command(cmd)
}

// WorkerTable shows workers.
var WorkerTable = output.Table[client.Worker]{
	Columns: []output.Column[client.Worker]{
		{Title: "WORKER", Kind: output.ID, Value: func(w client.Worker) any { return w.Id }},
		{Title: "STATUS", Kind: output.State, Value: func(w client.Worker) any { return workerState(w) }},
		{Title: "INSTANCE", Minor: true, Kind: output.Long, Value: func(w client.Worker) any { return PlaceOf(w.ProviderInstanceId, w.Slot) }},
		{Title: "POOL", Minor: true, Value: func(w client.Worker) any {
			if w.Pool == nil {
				return nil
			}
			return w.Pool.Name
		}},
		{Title: "ZONE", Wide: true, Value: func(w client.Worker) any { return cmp.Or(lo.FromPtrOr(w.Zone, ""), w.Region) }},
		{Title: "CLASS", Wide: true, Value: func(w client.Worker) any { return w.CapacityClass }},
		{Title: "MODELS", Minor: true, Kind: output.Long, Value: func(w client.Worker) any { return w.Models }},
		{Title: "GPU", Minor: true, Value: func(w client.Worker) any { return w.GpuType }},
		{Title: "USE", Minor: true, Value: func(w client.Worker) any { return sumGPUs(w.Gpus).use }},
		{Title: "MEMORY", Minor: true, Value: func(w client.Worker) any { return sumGPUs(w.Gpus).memory }},
		{Title: "TEMP", Minor: true, Value: func(w client.Worker) any { return sumGPUs(w.Gpus).temperature }},
		{Title: "POWER", Wide: true, Value: func(w client.Worker) any { return sumGPUs(w.Gpus).power }},
		{Title: "ERRORS", Minor: true, Value: func(w client.Worker) any { return sumGPUs(w.Gpus).errors }},
		{Title: "JOB", Kind: output.ID, Value: func(w client.Worker) any {
			if w.CurrentJob == nil {
				return nil
			}
			return w.CurrentJob.Id
		}},
		{Title: "AGENT", Wide: true, Value: func(w client.Worker) any { return w.AgentVersion }},
		{Title: "COMPLETED", Wide: true, Value: func(w client.Worker) any { return w.JobsCompleted }},
		{Title: "SEEN", Value: func(w client.Worker) any { return w.LastHeartbeatAt }},
	},
	Name: func(w client.Worker) string { return w.Id },
	None: "No workers.",
}

// workerState is a worker's state, and why it gets no jobs: its host is in quarantine, or it gets jobs of none
// of its models. It names the models of which it gets none.
func workerState(w client.Worker) string {
	state := stateOfHost(w)
	switch {
	case len(w.RefusedModels) == 0 || w.Status == client.WorkerStatusTerminated:
		return state
	case len(w.Models) == 0:
		return state + ", gets no jobs"
	}
	return state + ", without " + strings.Join(lo.Map(w.RefusedModels, func(r client.RefusedModel, _ int) string { return r.Model }), " ")
}

func stateOfHost(w client.Worker) string {
	if w.QuarantinedUntil != nil && w.QuarantinedUntil.After(time.Now()) {
		return string(w.Status) + ", in quarantine"
	}
	return string(w.Status)
}

// gpuSums are a worker's GPUs together: mean use, all memory, the highest temperature, all power,
// and errors. What is unknown is empty.
type gpuSums struct{ use, memory, temperature, power, errors string }

func sumGPUs(gpus []client.GPUState) (sums gpuSums) {
	var use, used, total, hottest, power, known float64
	var errors []string
	for _, g := range gpus {
		if g.Utilization != nil {
			use, known = use+*g.Utilization, known+1
		}
		if g.MemoryUsedBytes != nil && g.MemoryTotalBytes != nil {
			used, total = used+float64(*g.MemoryUsedBytes), total+float64(*g.MemoryTotalBytes)
		}
		hottest = max(hottest, lo.FromPtrOr(g.TemperatureC, 0))
		power += lo.FromPtrOr(g.PowerW, 0)
		if n := lo.FromPtrOr(g.EccUncorrected, 0); n > 0 {
			errors = append(errors, fmt.Sprintf("%d ECC", n))
		}
		if xid := lo.FromPtrOr(g.Xid, 0); xid > 0 {
			errors = append(errors, fmt.Sprintf("XID %d", xid))
		}
	}
	if known > 0 {
		sums.use = fmt.Sprintf("%.0f %%", 100*use/known)
	}
	if total > 0 {
		sums.memory = fmt.Sprintf("%.0f/%.0f GiB", used/(1<<30), total/(1<<30))
	}
	if hottest > 0 {
		sums.temperature = fmt.Sprintf("%.0f °C", hottest)
	}
	if power > 0 {
		sums.power = fmt.Sprintf("%.0f W", power)
	}
	sums.errors = strings.Join(errors, ", ")
	return sums
}

// PlaceOf returns the machine of a worker, with its number if it is not the machine's first.
func PlaceOf(machine string, slot int) string {
	if slot == 0 {
		return machine
	}
	return fmt.Sprintf("%s/%d", machine, slot)
}

// LiveWorkers are the states of workers that have not ended.
func LiveWorkers() []client.WorkerStatus {
	return slices.DeleteFunc(slices.Clone(client.AllWorkerStatus),
		func(s client.WorkerStatus) bool { return s == client.WorkerStatusTerminated })
}
