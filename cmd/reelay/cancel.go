package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func cancelCommand() *cobra.Command {
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel JOB",
		Short: "Cancel a job",
		Long: "Cancels a job: at once if it waits; if it runs, its worker is asked to stop and the job is cancelled\n" +
			"when it has.",
		Args: jobArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			job, err := c.CancelJob(cmd.Context(), args[0])
			if err != nil {
				return apiError(err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), job)
			}
			text := "is cancelled"
			if !job.Status.Terminal() {
				text = "will be cancelled as soon as its worker has stopped"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), job.Id, text)
			return err
		},
	}
	t.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
