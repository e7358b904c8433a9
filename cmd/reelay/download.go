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
		Use:        "download JOB",
		SuggestFor: []string{"dl", "fetch"},
		Short:      "Download a finished video and verify it",
		Long: "Downloads a finished video. The file appears when it is complete and its checksum is right. An interrupted\n" +
			"download resumes where it stopped.",
		Example: "  reelay download job_01937d3e-… --output video.mp4",
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
	f.StringVarP(&output, "output", "o", "", "file to store the video in (default JOB.mp4)")
	f.BoolVar(&force, "force", false, "replace the file if it exists")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func download(cmd *cobra.Command, c *client.Client, id, output string) (*savedFile, error) {
	job, err := c.Job(cmd.Context(), id)
	if err != nil {
		return nil, apiError(err)
	}
	if !job.Status.Terminal() {
		return nil, fmt.Errorf("%s has no video yet: it is %s at %.0f %%. Follow it with `reelay watch %s`", id, job.Status, job.Progress.Percent, id)
	}
	if err := ending(job); err != nil {
		return nil, err
	}
	return save(cmd.Context(), c, job, output, newDisplay(cmd.ErrOrStderr()))
}
