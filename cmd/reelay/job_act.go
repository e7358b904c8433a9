package main

import (
	"context"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func cancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "cancel JOB",
		SuggestFor: []string{"rm", "delete", "kill", "stop"},
		Short:      "Cancel a job",
		Long: "Cancels a job. A waiting job is cancelled at once. If the job is running, its worker is asked to stop, and\n" +
			"the job is cancelled when the worker has stopped.",
		Args: jobArg,
	}
	return (&apiCall{kind: "job"}).command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, printer, error) {
		job, err := c.CancelJob(ctx, args[0])
		if err != nil {
			return nil, nil, err
		}
		text := "is cancelled"
		if !job.Status.Terminal() {
			text = "will be cancelled as soon as its worker has stopped"
		}
		return job, line("%s %s", job.Id, text), nil
	})
}

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
	return (&apiCall{kind: "job"}).command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, printer, error) {
		job, err := c.RetryJob(ctx, args[0], fromScratch)
		if err != nil {
			return nil, nil, err
		}
		return job, line("%s runs again; follow it with: reelay watch %s", job.Id, job.Id), nil
	})
}
