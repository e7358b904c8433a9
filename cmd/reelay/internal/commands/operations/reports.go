package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// ReportsCommand returns `reelay reports`.
func ReportsCommand() *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use: "reports", SuggestFor: []string{"report"}, Args: cobra.NoArgs,
		Short: "Show dead letters by type, the longest waits, retries, flakiness and retention (for operators)",
		Long: `Shows the open dead letters by type, model and failure class, the ten jobs that have waited longest and why, how often
completed jobs were tried again, how reliably each provider, region and pool completes jobs, and how much is kept for how
long. GET /api/v1/reports.csv has each as CSV.`,
		Example: "  reelay reports\n  reelay reports --days 30 --jq '.flakiness[] | select(.failureRate > 0.2)'",
	}
	cmd.Flags().IntVar(&days, "days", 7, "how many days retries and flakiness are of, 1 to 90")
	call := &connect.Call{Target: connect.Target{Operator: true}}
	call.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		found, err := c.Reports(ctx, days)
		return found, func(out io.Writer) error { return printReports(out, found) }, err
	})
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if days < 1 || days > 90 {
			return terminal.UsageError(cmd, errors.New("--days must be from 1 to 90"))
		}
		return nil
	}
	return cmd
}

// printReports prints one table after another.
func printReports(out io.Writer, r *client.Reports) error {
	screen := output.ScreenOf(out)
	table := func(title, none string, header []string, rows [][]string) error {
		fmt.Fprintf(screen, "%s\n", title)
		if len(rows) == 0 {
			fmt.Fprintf(screen, "%s\n\n", none)
			return nil
		}
		err := output.WriteRows(screen, header, rows)
		fmt.Fprintln(screen)
		return err
	}
	var letters, waiting, retries, flaky, kept [][]string
	for _, d := range r.DeadLetters {
		letters = append(letters, []string{d.Type, d.Model, strings.ToLower(string(d.FailureClass)), fmt.Sprint(d.Count),
			output.Ago(d.OldestAt), output.Ago(d.NewestAt)})
	}
	for _, w := range r.Waiting {
		why := "nothing holds it back"
		if len(w.Reasons) > 0 {
			why = output.Clean(w.Reasons[0].Message)
		}
		waiting = append(waiting, []string{w.Job.Id, text.Seconds(w.Seconds), strings.ToLower(string(w.Job.Lane)), w.Job.Type, w.Job.Model, why})
	}
	for _, t := range r.Retries {
		retries = append(retries, []string{t.Type, fmt.Sprint(t.Completed), fmt.Sprint(t.Retried), fmt.Sprintf("%.2f", t.Mean),
			fmt.Sprint(t.Most)})
	}
	for _, f := range r.Flakiness {
		flaky = append(flaky, []string{strings.ToLower(string(f.By)), orDash(f.Name), fmt.Sprint(f.Attempts), fmt.Sprint(f.Completed),
			fmt.Sprint(f.Cancelled), known(f.AttemptsPerVideo, func(v float64) string { return fmt.Sprintf("%.2f", v) }), percent(f.FailureRate),
			text.Seconds(f.WastedSeconds)})
	}
	for _, k := range r.Retention {
		rows, keep := fmt.Sprint(k.Rows), "for ever"
		if !k.Exact {
			rows = "about " + rows
		}
		if k.KeptSeconds != nil {
			keep = text.Duration(time.Duration(*k.KeptSeconds * float64(time.Second)))
		}
		kept = append(kept, []string{strings.ToLower(strings.ReplaceAll(string(k.Kind), "_", " ")), rows, output.Since(k.OldestAt), keep,
			day(k.GoesAt)})
	}
	more := ""
	if r.MoreDeadLetters {
		more = ", of the newest 10,000"
	}
	for _, err := range []error{
		table("Open dead letters by type"+more, "None.", []string{"TYPE", "MODEL", "CLASS", "COUNT", "OLDEST", "NEWEST"}, letters),
		table("The longest waits", "No job waits in a queue.", []string{"JOB", "WAITED", "LANE", "TYPE", "MODEL", "WHY"}, waiting),
		table(fmt.Sprintf("Retries of jobs that completed, %s", text.Count(r.Days, "day")), "No job completed.",
			[]string{"TYPE", "COMPLETED", "RETRIED", "MEAN", "MOST"}, retries),
		table(fmt.Sprintf("Flakiness, %s", text.Count(r.Days, "day")), "No attempt ended.",
			[]string{"BY", "NAME", "ATTEMPTS", "COMPLETED", "CANCELLED", "PER VIDEO", "FAILED", "WASTED"}, flaky),
		table("Retention", "", []string{"KIND", "ROWS", "OLDEST", "KEPT", "GOES"}, kept),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// day is the day of a time in UTC.
func day(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.DateOnly)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return output.Clean(s)
}
