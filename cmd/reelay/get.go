package main

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func getCommand() *cobra.Command {
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "get JOB",
		Short:   "Show a job with its attempts and artifacts",
		Example: "  reelay get job_01937d3e-…\n  reelay get job_01937d3e-… --json | jq -r .result.url",
		Args:    jobArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			job, err := c.JobHistory(cmd.Context(), args[0])
			if err != nil {
				return apiError(err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), job)
			}
			return printJob(cmd.OutOrStdout(), job)
		},
	}
	t.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document, with the job's events")
	return cmd
}

func printJob(to io.Writer, job *client.JobHistory) error {
	out := bufio.NewWriter(to)
	field := func(name string, format string, args ...any) {
		fmt.Fprintf(out, "%-10s %s\n", name, clean(fmt.Sprintf(format, args...)))
	}
	field("job", "%s", job.Id)
	field("status", "%s", job.Status)
	field("progress", "%.0f %%  %s", job.Progress.Percent, describe(job.Progress))
	field("model", "%s  %s", job.Model, job.Params)
	field("tier", "%s, in lane %s, priority %d", job.Tier, job.Lane, job.Priority)
	field("attempts", "%d of %d", job.AttemptNo, job.MaxAttempts)
	field("created", "%s", job.CreatedAt.Local().Format(time.RFC3339))
	if job.CompletedAt != nil {
		field("ended", "%s, %s after it was created", job.CompletedAt.Local().Format(time.RFC3339), formatSeconds(job.CompletedAt.Sub(job.CreatedAt).Seconds()))
	}
	if job.Status == client.JobStatusFailed {
		field("why", "%s", ending(&job.Job))
	}
	if job.Result != nil {
		field("film", "%s, crc32c %s; fetch it with `reelay download %s`", formatSize(job.Result.SizeBytes), job.Result.Checksum, job.Id)
	}
	if len(job.Attempts) > 0 {
		fmt.Fprintln(out)
		if err := printTable(out, []string{"ATTEMPT", "STATUS", "WORKER", "RESUMED FROM STEP", "GPU SECONDS", "WASTED", "WHY"}, attemptRows(job.Attempts)); err != nil {
			return err
		}
	}
	return out.Flush()
}

func attemptRows(attempts []client.Attempt) [][]string {
	var rows [][]string
	for _, a := range attempts {
		worker := "-"
		if a.Worker != nil {
			worker = a.Worker.Id
		}
		rows = append(rows, []string{
			fmt.Sprint(a.AttemptNo), string(a.Status), worker, orDash(a.ResumedFromStep),
			fmt.Sprintf("%.1f", a.GpuSeconds), fmt.Sprintf("%.1f", a.WastedGpuSeconds), orDash(a.FailureClass),
		})
	}
	return rows
}
