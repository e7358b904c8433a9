package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func workersCommand() *cobra.Command {
	var status []string
	cmd := &cobra.Command{
		Use:        "workers",
		SuggestFor: []string{"top", "agents", "nodes"},
		Short:      "List, drain, preempt, terminate and quarantine workers (for operators)",
		Example:    "  reelay workers --status idle,busy",
		Args:       noSuchCommand,
	}
	cmd.AddCommand(workersDrainCommand(), workersPreemptCommand(), workersTerminateCommand(), workersQuarantineCommand(), workersReleaseCommand())
	cmd.Flags().StringSliceVar(&status, "status", nil, "only workers in these states (default: all but terminated)")
	var states []client.WorkerStatus
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		if states, err = parseEnums("status", status, client.AllWorkerStatus); err != nil {
			return &usageError{cmd, err}
		}
		if len(states) == 0 {
			states = slices.DeleteFunc(slices.Clone(client.AllWorkerStatus), func(s client.WorkerStatus) bool {
				return s == client.WorkerStatusTerminated
			})
		}
		return nil
	}
	list := &lister[client.Worker]{
		target: target{operator: true},
		header: []string{"WORKER", "STATUS", "INSTANCE", "GPU", "USE", "MEMORY", "TEMP", "POWER", "ERRORS", "JOB", "COMPLETED", "SEEN"},
		row: func(w client.Worker) []string {
			job := "-"
			if w.CurrentJob != nil {
				job = w.CurrentJob.Id
			}
			row := append([]string{w.Id, workerState(w), placeOf(w.ProviderInstanceId, w.Slot), w.GpuType}, gpuCells(w.Gpus)...)
			return append(row, job, fmt.Sprint(w.JobsCompleted), ago(w.LastHeartbeatAt))
		},
		ask: func(ctx context.Context, c *client.Client, p page) (listed[client.Worker], error) {
			return listOf[client.Worker](c.Workers(ctx, client.WorkerFilter{Status: states}, p.first, p.after))
		},
	}
	return list.command(cmd)
}

// workerState is a worker's state, and that it gets no jobs if its host is in quarantine.
func workerState(w client.Worker) string {
	if w.QuarantinedUntil != nil && w.QuarantinedUntil.After(time.Now()) {
		return string(w.Status) + ", in quarantine"
	}
	return string(w.Status)
}

// gpuCells sums up a worker's GPUs: mean use, all memory, the highest temperature, all power, and
// errors.
func gpuCells(gpus []client.GPUState) []string {
	var use, used, total, hottest, power, known float64
	var errors []string
	for _, g := range gpus {
		if g.Utilization != nil {
			use, known = use+*g.Utilization, known+1
		}
		if g.MemoryUsedBytes != nil && g.MemoryTotalBytes != nil {
			used, total = used+float64(*g.MemoryUsedBytes), total+float64(*g.MemoryTotalBytes)
		}
		hottest = max(hottest, valueOr(g.TemperatureC, 0))
		power += valueOr(g.PowerW, 0)
		if n := valueOr(g.EccUncorrected, 0); n > 0 {
			errors = append(errors, fmt.Sprintf("%d ECC", n))
		}
		if xid := valueOr(g.Xid, 0); xid > 0 {
			errors = append(errors, fmt.Sprintf("XID %d", xid))
		}
	}
	cells := []string{"-", "-", "-", "-", "-"}
	for i, cell := range []struct {
		known bool
		text  string
	}{
		{known > 0, fmt.Sprintf("%.0f %%", 100*use/max(known, 1))}, {total > 0, fmt.Sprintf("%.0f/%.0f GiB", used/(1<<30), total/(1<<30))},
		{hottest > 0, fmt.Sprintf("%.0f °C", hottest)}, {power > 0, fmt.Sprintf("%.0f W", power)}, {len(errors) > 0, strings.Join(errors, ", ")},
	} {
		if cell.known {
			cells[i] = cell.text
		}
	}
	return cells
}

// valueOr returns an optional value, or the given default.
func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// placeOf returns the machine of a worker, with its number if it is not the machine's first.
func placeOf(machine string, slot int) string {
	if slot == 0 {
		return machine
	}
	return fmt.Sprintf("%s/%d", machine, slot)
}
