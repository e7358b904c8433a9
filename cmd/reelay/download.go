package main

import (
	"fmt"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func downloadCommand() *cobra.Command {
	var t target
	var output string
	var force, asJSON bool
	cmd := &cobra.Command{
		Use:   "download JOB",
		Short: "Fetch a finished film and verify it",
		Long: "Fetches a finished film. The file appears when it is whole and its checksum is right; a download that\n" +
			"was broken off goes on where it ended.",
		Example: "  reelay download job_01937d3e-… --output film.mp4",
		Args:    jobArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				output = args[0] + ".mp4"
			}
			if err := checkOutput(output, force); err != nil {
				return err
			}
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			file, err := download(cmd, c, args[0], output)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), file)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), file)
			return err
		},
	}
	t.addFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "file to store the film in (default JOB.mp4)")
	f.BoolVar(&force, "force", false, "replace the file if it is there")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func download(cmd *cobra.Command, c *client.Client, id, output string) (*savedFile, error) {
	job, err := c.Job(cmd.Context(), id)
	if err != nil {
		return nil, apiError(err)
	}
	if !job.Status.Terminal() {
		return nil, fmt.Errorf("%s has no film yet: it is %s at %.0f %%. Follow it with `reelay watch %s`", id, job.Status, job.Progress.Percent, id)
	}
	if err := ending(job); err != nil {
		return nil, err
	}
	return save(cmd.Context(), c, job, output, newDisplay(cmd.ErrOrStderr()))
}
