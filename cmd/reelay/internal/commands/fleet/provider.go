package fleet

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/spf13/cobra"
)

// poolsProviderCommand shows what a pool uses at its hosted provider.
func poolsProviderCommand() *cobra.Command {
	var reset bool
	cmd := &cobra.Command{
		Use:   "provider NAME",
		Short: "Show what a pool uses at its hosted provider, and what that answers (for operators)",
		Long: "Shows the account of a pool at its hosted provider: its state, its slots and calls against their limits, and its errors.\n" +
			"The limits hold for all machines together: docs/operators/provider-limits.md. With --reset the circuit closes and a pause\n" +
			"ends, when you know that the cause is gone.",
		Example: "  reelay pools provider runway\n  reelay pools provider runway --reset",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&reset, "reset", false, "close the circuit and end a pause")
	call := &connect.Call{Target: connect.Target{Operator: true}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		pool, err := findPool(ctx, c, args[0])
		if err == nil && pool.ProviderAccount == nil {
			err = fmt.Errorf("the pool %s is of no hosted provider", pool.Name)
		}
		if err == nil && reset {
			pool, err = c.ResetProvider(ctx, pool.Id)
		}
		if err != nil {
			return nil, nil, err
		}
		return pool.ProviderAccount, func(out io.Writer) error { return printAccount(out, pool.Name, pool.ProviderAccount) }, nil
	})
}

func printAccount(out io.Writer, pool string, a *client.ProviderAccount) error {
	fmt.Fprintf(out, "%s: %s %s, %s", pool, a.Title, a.ApiVersion, strings.ToLower(string(a.State)))
	if a.Until != nil {
		fmt.Fprintf(out, " until %s", output.Moment(*a.Until))
	}
	fmt.Fprintln(out)
	if a.Reason != "" {
		fmt.Fprintln(out, output.Clean(a.Reason))
	}
	fmt.Fprintf(out, "Slots: %d of %d. Calls in the last minute: %d of %d.\n", a.SlotsTaken, a.Concurrent, a.CallsInMinute, a.PerMinute)
	if a.UnknownSubmits > 0 {
		fmt.Fprintf(out, "Submits that were not answered: %d. `reelay jobs decide` ends their wait.\n", a.UnknownSubmits)
	}
	for _, s := range a.Slots {
		fmt.Fprintf(out, "  %s since %s", s.JobId, output.Moment(s.TakenAt))
		if s.ExpiresAt != nil {
			fmt.Fprintf(out, ", without a worker; kept until %s", output.Moment(*s.ExpiresAt))
		}
		fmt.Fprintln(out)
	}
	for _, e := range a.Errors {
		fmt.Fprintf(out, "  %d × status %d", e.Count, e.Status)
		if e.Code != "" {
			fmt.Fprintf(out, " %s", output.Clean(e.Code))
		}
		known := ""
		if !e.Known {
			known = ", which no rule knows"
		}
		fmt.Fprintf(out, ": %s%s, last %s: %s\n", e.Means, known, output.Moment(e.LastAt), output.Clean(e.Text))
	}
	return nil
}
