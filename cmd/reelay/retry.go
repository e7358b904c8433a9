package main

import (
	"context"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func retryCommand() *cobra.Command {
	var fromScratch bool
	cmd := &cobra.Command{
		Use:   "retry JOB",
		Short: "Retry a failed or cancelled job",
		Long: "Retries a job that failed or was cancelled, from its newest checkpoint or from scratch. Its attempts keep\n" +
			"counting; its count of failures starts again at zero.",
		Args: jobArg,
	}
	cmd.Flags().BoolVar(&fromScratch, "from-scratch", false, "do not resume from a checkpoint")
	return new(apiCall).command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, printer, error) {
		job, err := c.RetryJob(ctx, args[0], fromScratch)
		if err != nil {
			return nil, nil, err
		}
		return job, line("%s runs again; follow it with: reelay watch %s", job.Id, job.Id), nil
	})
}
