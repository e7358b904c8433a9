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
	return new(apiCall).command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, printer, error) {
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
