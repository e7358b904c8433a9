package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func workersCommand() *cobra.Command {
	var status []string
	cmd := &cobra.Command{
		Use:        "workers",
		SuggestFor: []string{"top", "agents", "nodes"},
		Short:      "List workers (for operators)",
		Example:    "  reelay workers --status idle,busy",
		Args:       cobra.NoArgs,
	}
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
		header: []string{"WORKER", "STATUS", "INSTANCE", "GPU", "JOB", "COMPLETED", "SEEN"},
		row: func(w client.Worker) []string {
			job := "-"
			if w.CurrentJob != nil {
				job = w.CurrentJob.Id
			}
			return []string{w.Id, string(w.Status), w.ProviderInstanceId, w.GpuType, job, fmt.Sprint(w.JobsCompleted), ago(w.LastHeartbeatAt)}
		},
		ask: func(ctx context.Context, c *client.Client, p page) (listed[client.Worker], error) {
			return listOf[client.Worker](c.Workers(ctx, client.WorkerFilter{Status: states}, p.first, p.after))
		},
	}
	return list.command(cmd)
}
