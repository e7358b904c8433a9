package fleet

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// MachinesCommand returns `reelay machines`.
func MachinesCommand() *cobra.Command {
	var states []string
	var pool, instance string
	var filter client.MachineFilter
	cmd := &cobra.Command{
		Use:        "machines",
		SuggestFor: []string{"instances", "ledger", "vms"},
		Short:      "List the ledger of machines, with what each was paid for (for operators)",
		Example:    "  reelay machines --pool l4-spot --state booting,running\n  reelay machines --instance reelay-l4-spot-x7k2 --json",
		Args:       cobra.NoArgs,
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only machines in these states (default: all)")
	cmd.Flags().StringVar(&pool, "pool", "", "only machines of this pool, by name or id; a deleted pool has only its id")
	cmd.Flags().StringVar(&instance, "instance", "", "only the machine with this name at its provider, as on a bill")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		if filter.States, err = input.ParseEnums("state", states, client.AllMachineState); err != nil {
			return terminal.UsageError(cmd, err)
		}
		if pool != "" {
			filter.PoolId = &pool
		}
		if instance != "" {
			filter.InstanceId = &instance
		}
		return nil
	}
	list := &connect.Lister[client.Machine]{
		Target: connect.Target{Operator: true},
		Table:  machineTable,
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (output.List[client.Machine], error) {
			return output.Page[client.Machine](c.Machines(ctx, filter, p.First, p.After))
		},
	}
	return list.Command(cmd)
}

var machineTable = output.Table[client.Machine]{
	Columns: []output.Column[client.Machine]{
		{Title: "MACHINE", Kind: output.Long, Value: func(m client.Machine) any { return m.InstanceId }},
		{Title: "STATE", Kind: output.State, Value: func(m client.Machine) any { return m.State }},
		{Title: "POOL", Minor: true, Value: func(m client.Machine) any { return m.Pool.Name }},
		{Title: "PROVIDER", Wide: true, Value: func(m client.Machine) any { return m.Provider }},
		{Title: "ASKED", Wide: true, Value: func(m client.Machine) any { return m.AskedAt }},
		{Title: "CREATED", Value: func(m client.Machine) any { return m.CreatedAt }},
		{Title: "REGISTERED", Wide: true, Value: func(m client.Machine) any { return m.RegisteredAt }},
		{Title: "PAID UNTIL", Value: func(m client.Machine) any { return m.BilledUntil }},
		{Title: "WORKER HOURS", Value: func(m client.Machine) any { return fmt.Sprintf("%.3f", m.PaidSeconds/3600) }},
		{Title: "COST", Value: func(m client.Machine) any { return fmt.Sprintf("$%.4f", m.CostUsd) }},
		{Title: "WORKERS", Wide: true, Kind: output.Long, Value: func(m client.Machine) any { return m.WorkerIds }},
	},
	Name: func(m client.Machine) string { return m.InstanceId },
	None: "No machines.",
}
