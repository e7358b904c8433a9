package jobs

import (
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/spf13/cobra"
)

// WatchCommand returns `reelay watch`.
func WatchCommand() *cobra.Command {
	var t connect.Target
	var asJSON bool
	var document output.Options
	cmd := &cobra.Command{
		Use:        "watch JOB",
		SuggestFor: []string{"follow", "logs", "tail"},
		Short:      "Show a job's progress until it ends",
		Long: "Shows a job's progress until the job ends. If the connection breaks, it reconnects. A terminal with\n" +
			"24-bit colours (COLORTERM=truecolor) also shows pictures of the unfinished video.\n" +
			"The exit status is 1 if the job failed or was cancelled.",
		Example: "  reelay watch job_01937d3e-…\n  reelay watch job_01937d3e-… --jq .progress.percent",
		Args:    JobArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			d := progress.DisplayFor(cmd, cmd.OutOrStdout())
			show := d.WithPreviews(cmd.Context(), c)
			if asJSON {
				d.Silent, show = true, func(job *client.Job) error {
					return document.Line(cmd.OutOrStdout(), watchedJob{job, d.Reasons})
				}
			}
			id, err := connect.FullID(cmd.Context(), c, "job", args[0])
			if err != nil {
				return t.Explain(err)
			}
			job, err := progress.Follow(cmd.Context(), c, id, d, show)
			if err != nil {
				return t.Explain(err)
			}
			if d.Note(string(job.Status)); d.Err != nil {
				return d.Err
			}
			return progress.Ending(job)
		},
	}
	t.AddFlags(cmd)
	document.AddDocumentFlags(cmd, &asJSON)
	cmd.Flags().Lookup("json").Usage = "print each state as one line of JSON"
	return cmd
}

// watchedJob is a line of JSON: the job, and why it waits while it does.
type watchedJob struct {
	*client.Job
	WaitingFor []client.WaitingReason `json:"waitingFor,omitempty"`
}
