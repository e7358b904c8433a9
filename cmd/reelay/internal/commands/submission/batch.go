package submission

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// BatchCommand returns `reelay batch`.
func BatchCommand() *cobra.Command {
	var t connect.Target
	var o output.Options
	var watch connect.WatchFlag
	cmd := &cobra.Command{
		Use:        "batch NAME",
		SuggestFor: []string{"batches"},
		Short:      "Show how far the jobs of a file are",
		Long: "Shows how far a batch is: the jobs of one `reelay submit --file`, which has the name of the file unless --batch named it.\n" +
			"Its jobs are those whose metadata has the name: `reelay list meta:batch=NAME` lists them.",
		Example: "  reelay batch shots --watch\n  reelay batch shots --jq .failures\n  reelay bulk start retry 'meta:batch=shots status:failed'",
		Args:    terminal.OneArg("NAME", "the name of a batch, which `reelay submit --file` says"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return terminal.UsageError(cmd, err)
			}
			if !batchName.MatchString(args[0]) {
				return terminal.UsageError(cmd, fmt.Errorf("%q is not the name of a batch: it has up to 100 letters, digits, points, _ and -", args[0]))
			}
			c, err := t.Client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			show := func(ctx context.Context, s *output.Screen) error {
				totals, err := c.JobTotals(ctx, batchFilter(args[0]))
				if err != nil {
					return t.Explain(err)
				}
				if totals.Total == 0 {
					return fmt.Errorf("there is no batch %s: no job has it in its metadata", args[0])
				}
				return o.Print(s, totals, func(out io.Writer) error { return printBatch(out, c, s, args[0], totals) })
			}
			if watch.Every > 0 {
				return watch.Run(cmd, &o, show)
			}
			return show(cmd.Context(), o.Screen(cmd, cmd.OutOrStdout()))
		},
	}
	t.AddFlags(cmd)
	o.AddFlags(cmd)
	watch.AddFlag(cmd.Flags())
	return cmd
}

func printBatch(out io.Writer, c *client.Client, s *output.Screen, name string, t *client.JobTotals) error {
	field := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	var statuses, failures []string
	for _, of := range t.Statuses {
		statuses = append(statuses, fmt.Sprintf("%d %s", of.Jobs, strings.ToLower(string(of.Status))))
	}
	for _, of := range t.Failures {
		failures = append(failures, fmt.Sprintf("%d %s", of.Jobs, of.FailureClass))
	}
	more := ""
	if t.Partly {
		more = ", and more that were not counted"
	}
	field("batch", "%s", name)
	field("jobs", "%s%s: %s", text.Count(t.Total, "job"), more, strings.Join(statuses, ", "))
	bar := progress.View{Color: s.Color}.Bar(t.Percent, progress.Trail{}, progress.MaxBar)
	field("done", "%3.0f %% %s", math.Floor(t.Percent), bar)
	if len(failures) > 0 {
		field("failed", "%s", strings.Join(failures, ", "))
	}
	if t.EstimatedEndAt != nil {
		field("ends", "in about %s, at the pace of the last ten minutes", text.Seconds(time.Until(*t.EstimatedEndAt).Seconds()))
	}
	_, err := fmt.Fprintf(out, "%-10s %s\n", "console", batchURL(c, name))
	return err
}

// batchURL is the page of the console that lists the jobs of a batch.
func batchURL(c *client.Client, name string) string {
	return connect.ConsoleURL(c, "/jobs") + "?q=" + url.QueryEscape(batchSearch(name))
}
