package main

import (
	"fmt"
	"slices"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func workersCommand() *cobra.Command {
	t := target{operator: true}
	var p page
	var status []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "workers",
		Short:   "List workers (for operators)",
		Example: "  reelay workers --status idle,busy",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			states, err := parseEnums("status", status, client.AllWorkerStatus)
			if err == nil {
				err = p.check()
			}
			if err != nil {
				return &usageError{cmd, err}
			}
			if len(states) == 0 {
				states = slices.DeleteFunc(slices.Clone(client.AllWorkerStatus), func(s client.WorkerStatus) bool {
					return s == client.WorkerStatusTerminated
				})
			}
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			found, err := c.Workers(cmd.Context(), client.WorkerFilter{Status: states}, p.first, p.after)
			if err != nil {
				return apiError(err)
			}
			return printWorkers(cmd, found, asJSON)
		},
	}
	t.addFlags(cmd)
	p.addFlags(cmd)
	cmd.Flags().StringSliceVar(&status, "status", nil, "only workers in these states (default: all but terminated)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func printWorkers(cmd *cobra.Command, found *client.WorkerPage, asJSON bool) error {
	list := listed[client.Worker]{Items: []client.Worker{}, TotalCount: found.TotalCount, HasNextPage: found.PageInfo.HasNextPage, EndCursor: found.PageInfo.EndCursor}
	var rows [][]string
	for _, edge := range found.Edges {
		w := edge.Node
		list.Items = append(list.Items, w)
		job := "-"
		if w.CurrentJob != nil {
			job = w.CurrentJob.Id
		}
		rows = append(rows, []string{w.Id, string(w.Status), w.ProviderInstanceId, w.GpuType, job, fmt.Sprint(w.JobsCompleted), ago(w.LastHeartbeatAt)})
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), list)
	}
	if err := printTable(cmd.OutOrStdout(), []string{"WORKER", "STATUS", "INSTANCE", "GPU", "JOB", "COMPLETED", "SEEN"}, rows); err != nil {
		return err
	}
	return list.printMore(cmd.OutOrStdout())
}

func queuesCommand() *cobra.Command {
	t := target{operator: true}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "Show what waits and runs in each lane (for operators)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			queues, err := c.Queues(cmd.Context())
			if err != nil {
				return apiError(err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), queues)
			}
			var rows [][]string
			for _, q := range queues {
				oldest := "-"
				if q.OldestWaitSeconds != nil {
					oldest = formatSeconds(*q.OldestWaitSeconds)
				}
				rows = append(rows, []string{string(q.Tier), orDash(q.Model), fmt.Sprint(q.Depth), fmt.Sprint(q.Running), oldest})
			}
			return printTable(cmd.OutOrStdout(), []string{"LANE", "MODEL", "WAITING", "RUNNING", "OLDEST WAITS"}, rows)
		},
	}
	t.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
