package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// CostsCommand returns `reelay costs`.
func CostsCommand() *cobra.Command {
	var by string
	var from, to dayValue
	in := client.CostRequest{}
	cmd := &cobra.Command{
		Use: "costs", SuggestFor: []string{"spend", "bill", "usage"}, Args: cobra.NoArgs,
		Short: "Show what jobs cost, by model, account, day and more",
		Long: `Shows what the attempts of some days cost: the time on each worker at the price that its pool had then, and the fees
of hosted providers. Accounts pay the useful time of jobs that completed, and their fees. Operators also see what was wasted, and what their machines cost while they booted and
were idle. Days are those of UTC. GET /api/v1/costs has the same as CSV.`,
		Example: "  reelay costs --by day\n  reelay costs --from 2026-10-01 --to 2026-11-01 --by account\n" +
			"  reelay costs --by user --account acc_… --json",
	}
	cmd.AddCommand(statementCommand(), reconcileCommand())
	f := cmd.Flags()
	f.StringVar(&by, "by", "model", "what to show a row for each of: "+strings.ToLower(input.OneOf(client.AllCostGroup)))
	f.Var(&from, "from", "the first day, such as 2026-10-31 (default 29 days before the last)")
	f.Var(&to, "to", "the day after the last (default: tomorrow)")
	f.StringVar(&in.Account, "account", "", "only the jobs of this account, by id (for operators)")
	f.IntVar(&in.First, "first", 100, "the number of rows, 1 to 5000")
	call := &connect.Call{Target: connect.Target{Operator: true}}
	call.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		in.From, in.To = from.day, to.day
		report, err := c.Costs(ctx, in)
		return report, func(out io.Writer) error { return printCosts(out, report, in.By) }, err
	})
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		if in.By, err = input.ParseEnum("by", by, client.AllCostGroup); err == nil {
			err = checkDays(from.day, to.day, time.Now())
		}
		if err != nil {
			return terminal.UsageError(cmd, err)
		}
		return nil
	}
	return cmd
}

// checkDays returns an error that names the flags unless there is a day from one to before the other that has begun in UTC.
func checkDays(from, to *time.Time, now time.Time) error {
	switch {
	case from != nil && from.After(now):
		return fmt.Errorf("--from is %s: it must not be in the future (days are those of UTC)", from.Format(time.DateOnly))
	case from != nil && to != nil && !to.After(*from):
		return fmt.Errorf("--to is %s and --from is %s: --to is the day after the last, so it must be after --from", to.Format(time.DateOnly),
			from.Format(time.DateOnly))
	}
	return nil
}

// printCosts prints the rows, their total, and what the machines cost.
func printCosts(out io.Writer, report *client.CostReport, by client.CostGroup) error {
	screen := output.ScreenOf(out)
	fmt.Fprintf(screen, "from %s to %s (UTC)\n\n", report.From.UTC().Format(time.DateOnly), report.To.UTC().AddDate(0, 0, -1).Format(time.DateOnly))
	operator := report.Total.CostUsd != nil
	header := []string{string(by), "VIDEOS", "ATTEMPTS", "GPU HOURS", "CHARGED"}
	if operator {
		header = append(header, "COST", "WASTED", "PER VIDEO")
	}
	var rows [][]string
	for i, row := range append(slices.Clone(report.Rows), report.Total) {
		name := row.Name
		switch {
		case i == len(report.Rows):
			name = "total"
		case name == "":
			name = "-"
		}
		line := []string{name, fmt.Sprint(row.Videos), fmt.Sprint(row.Attempts), fmt.Sprintf("%.2f", (row.UsefulSeconds+row.WastedSeconds)/3600),
			text.USD(row.ChargedUsd)}
		if operator {
			line = append(line, known(row.CostUsd, text.USD), known(row.WastedUsd, text.USD), known(row.CostPerVideoUsd, text.USD))
		}
		rows = append(rows, line)
	}
	if err := output.WriteRows(screen, header, rows); err != nil {
		return err
	}
	if report.More {
		fmt.Fprintln(screen, "\nThere are more rows: the total has all. Show more with --first.")
	}
	if report.Total.Unpriced > 0 {
		fmt.Fprintf(screen, "\n%s in the ledger without an amount, since a pool or a model of a provider had no price: these sums are too low.\n"+
			"Set pricePerHourUsd of the pools, and see `reelay prices`.\n",
			text.Count(int(report.Total.Unpriced), "entry"))
	}
	if len(report.Machines) > 0 {
		sum, parts := 0.0, []string{}
		for _, paid := range report.Machines {
			sum += paid.Usd
			if paid.Usd != 0 {
				parts = append(parts, strings.ToLower(string(paid.Class))+" "+text.USD(paid.Usd))
			}
		}
		fmt.Fprintf(screen, "\nThe machines of these days cost %s", text.USD(sum))
		if len(parts) > 0 {
			fmt.Fprintf(screen, ": %s", strings.Join(parts, ", "))
		}
		fmt.Fprintln(screen, ".")
	}
	return nil
}

// dayValue is the value of a flag that names a day in UTC.
type dayValue struct{ day *time.Time }

// Set implements [pflag.Value].
func (v *dayValue) Set(value string) error {
	day, err := time.Parse(time.DateOnly, value)
	if err != nil {
		return errors.New("it must be a day such as 2026-10-31")
	}
	v.day = &day
	return nil
}

// String implements [pflag.Value].
func (v *dayValue) String() string {
	if v.day == nil {
		return ""
	}
	return v.day.Format(time.DateOnly)
}

// Type implements [pflag.Value].
func (v *dayValue) Type() string { return "day" }
