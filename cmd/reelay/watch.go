package main

import (
	"encoding/json"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func watchCommand() *cobra.Command {
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "watch JOB",
		SuggestFor: []string{"follow", "logs", "tail"},
		Short:      "Show a job's progress until it ends",
		Long: "Shows a job's progress until the job ends. If the connection breaks, it reconnects.\n" +
			"The exit status is 1 if the job failed or was cancelled.",
		Example: "  reelay watch job_01937d3e-…\n  reelay watch job_01937d3e-… --json | jq .progress.percent",
		Args:    jobArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			d := newDisplay(cmd.OutOrStdout())
			show := d.job
			if lines := json.NewEncoder(cmd.OutOrStdout()); asJSON {
				d.silent, show = true, func(job *client.Job) error { return lines.Encode(job) }
			}
			job, err := follow(cmd.Context(), c, args[0], d, show)
			if err != nil {
				return err
			}
			if d.note(string(job.Status)); d.err != nil {
				return d.err
			}
			return ending(job)
		},
	}
	t.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each state as one line of JSON")
	return cmd
}
