package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/access"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// statementCommand returns `reelay costs statement`.
func statementCommand() *cobra.Command {
	var account, month, csv, html string
	cmd := &cobra.Command{
		Use: "statement", SuggestFor: []string{"invoice"}, Args: cobra.NoArgs,
		Short: "Show what an account pays for a month, or write it to a file",
		Long: `Shows what an account pays for a month: the useful time of its jobs that completed, by day, model, user and type. Each part
adds up to the total. A file is CSV with exact amounts, or a page to print.`,
		Example: "  reelay costs statement --month 2026-10\n" +
			"  reelay costs statement --account acme --month 2026-10 --csv acme.csv --html acme.html",
	}
	f := cmd.Flags()
	f.StringVar(&month, "month", "", "the month, such as 2026-10 (default: the last one)")
	f.StringVar(&account, "account", "", "the account, by name or id (for operators; default: the key's own)")
	f.StringVar(&csv, "csv", "", "also write it to this file, as CSV")
	f.StringVar(&html, "html", "", "also write it to this file, as a page to print")
	call := &connect.Call{}
	call.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		id, err := access.AccountID(ctx, c, account)
		if err != nil {
			return nil, nil, err
		}
		found, err := c.Statement(ctx, month, id)
		if err != nil {
			return nil, nil, err
		}
		if !cmd.Flags().Changed("month") {
			fmt.Fprintf(cmd.ErrOrStderr(), "This is the last month, %s. For the present one, until now: --month %s\n", month,
				time.Now().UTC().Format("2006-01"))
		}
		for _, file := range []struct{ path, format string }{{csv, "csv"}, {html, "html"}} {
			if file.path == "" {
				continue
			}
			data, err := c.StatementFile(ctx, month, id, file.format)
			if err != nil {
				return nil, nil, err
			}
			if err := os.WriteFile(file.path, data, 0o644); err != nil {
				return nil, nil, fmt.Errorf("write the statement: %w", err)
			}
		}
		return found, func(out io.Writer) error { return printStatement(out, found) }, nil
	})
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		call.Target.Operator = account != ""
		if month == "" {
			now := time.Now().UTC()
			month = time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC).Format("2006-01")
		}
		if _, err := time.Parse("2006-01", month); err != nil {
			return terminal.UsageError(cmd, errors.New("--month must be a month such as 2026-10"))
		}
		return nil
	}
	return cmd
}

// printStatement prints one table for each part.
func printStatement(out io.Writer, s *client.Statement) error {
	screen := output.ScreenOf(out)
	fmt.Fprintf(screen, "%s, %s (%s): %s for %s\n", output.Clean(s.AccountName), s.Month, s.TimeZone, text.USD(s.Total.ChargedUsd),
		text.Count(int(s.Total.Videos), "video"))
	if !s.Complete {
		fmt.Fprintln(screen, "The month is not complete.")
	}
	if s.Total.Unpriced > 0 {
		fmt.Fprintf(screen, "%s without an amount, since there was no price: the total does not have them.\n",
			text.Count(int(s.Total.Unpriced), "entry"))
	}
	for _, part := range s.Parts {
		var rows [][]string
		for _, row := range part.Rows {
			rows = append(rows, []string{orDash(row.Name), fmt.Sprint(row.Videos), fmt.Sprintf("%.2f", row.UsefulSeconds/3600),
				text.USD(row.ChargedUsd)})
		}
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintln(screen)
		if err := output.WriteRows(screen, []string{strings.ToUpper(string(part.By)), "VIDEOS", "GPU HOURS", "CHARGED"}, rows); err != nil {
			return err
		}
	}
	return nil
}
