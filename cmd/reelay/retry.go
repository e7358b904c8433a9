package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func retryCommand() *cobra.Command {
	var t target
	var asJSON, fromScratch bool
	cmd := &cobra.Command{
		Use:   "retry JOB",
		Short: "Run a failed or cancelled job again",
		Long: "Opens a new run of a job that failed or was cancelled: from its newest checkpoint, or from scratch.\n" +
			"Its attempts are counted on, its failures afresh.",
		Args: jobArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			job, err := c.RetryJob(cmd.Context(), args[0], fromScratch)
			if err != nil {
				return apiError(err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), job)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s runs again; follow it with: reelay watch %s\n", job.Id, job.Id)
			return err
		},
	}
	t.addFlags(cmd)
	cmd.Flags().BoolVar(&fromScratch, "from-scratch", false, "use no checkpoint of the runs before")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
