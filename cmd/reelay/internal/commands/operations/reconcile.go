package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/bill"
	"github.com/shopspring/decimal"
	"github.com/spf13/cobra"
)

// reconciliation is what `reelay costs reconcile` found.
type reconciliation struct {
	TolerancePercent float64     `json:"tolerancePercent"`
	Machines         *reconciled `json:"machines,omitempty"`
	Tasks            *reconciled `json:"tasks,omitempty"`
}

// reconciled compares one file.
type reconciled struct {
	File string    `json:"file"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Lines are those of the file. Repeated, outside of the time and broken ones are not counted.
	Lines       int             `json:"lines"`
	Repeated    int             `json:"repeated"`
	Outside     int             `json:"outside"`
	Broken      int             `json:"broken"`
	BrokenLines []bill.Problem  `json:"brokenLines"`
	OtherLines  int             `json:"otherLines"`
	OtherUSD    decimal.Decimal `json:"otherUsd"`
	*bill.Result
}

// agrees reports whether nothing differs, and every line was understood.
func (r *reconciled) agrees() bool { return r.Agrees() && r.Broken == 0 }

// firstOf says why the first line that was not understood was not.
func firstOf(problems []bill.Problem) string {
	if len(problems) == 0 {
		return ": it has no lines"
	}
	return fmt.Sprintf(". Line %d: %s", problems[0].Line, problems[0].Why)
}

// reconcileRequest is what the flags say.
type reconcileRequest struct {
	bill, usage, provider, usageProvider string
	from, to                             dayValue
	tolerance                            float64
	// named means that usageProvider was given.
	named bool
}

// reconcileCommand returns `reelay costs reconcile`.
func reconcileCommand() *cobra.Command {
	in := reconcileRequest{}
	agrees := true
	cmd := &cobra.Command{
		Use: "reconcile", SuggestFor: []string{"compare"}, Args: cobra.NoArgs,
		Short: "Compare what a cloud or a provider bills with what Reelay has (for operators)",
		Long: `Compares Google Cloud's detailed billing export, as CSV, with the ledger of machines, and a provider's export of its tasks with
the ledger of attempts. It lists what only one of them has, and amounts that differ by more than the tolerance. Then it exits
with status 1. The files are read on this machine, at any length: only their ids, times and amounts matter.`,
		Example: "  reelay costs reconcile --bill 2026-10.csv\n" +
			"  reelay costs reconcile --usage runway.csv --from 2026-10-01 --to 2026-11-01 --json",
	}
	f := cmd.Flags()
	f.StringVar(&in.bill, "bill", "", "the cloud's bill: Google Cloud's detailed export, as CSV")
	f.StringVar(&in.usage, "usage", "", "a hosted provider's export of its tasks, as CSV: id, time, amount, currency")
	f.StringVar(&in.usageProvider, "usage-provider", "", "the hosted provider of that export, such as runway; needed if there are several")
	f.StringVar(&in.provider, "provider", "gce", "the provider of the machines on the bill")
	f.Var(&in.from, "from", "the first day, in UTC (default: the first time in the file)")
	f.Var(&in.to, "to", "the day after the last (default: the last time in the file)")
	f.Float64Var(&in.tolerance, "tolerance", 2, "how far amounts can differ, in percent of the larger one")
	call := &connect.Call{Target: connect.Target{Operator: true}}
	call.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		found, err := in.reconcile(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		for _, part := range []*reconciled{found.Machines, found.Tasks} {
			agrees = agrees && (part == nil || part.agrees())
		}
		return found, func(out io.Writer) error { return printReconciliation(out, found) }, nil
	})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := run(cmd, args); err != nil {
			return err
		}
		if !agrees {
			return errors.New("the bill and Reelay differ")
		}
		return nil
	}
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case in.bill == "" && in.usage == "":
			return terminal.UsageError(cmd, errors.New("give --bill, --usage, or both"))
		case !(in.tolerance >= 0 && in.tolerance <= 100):
			return terminal.UsageError(cmd, errors.New("--tolerance must be from 0 to 100"))
		case in.from.day != nil && in.to.day != nil && !in.to.day.After(*in.from.day):
			return terminal.UsageError(cmd, errors.New("--to must be after --from"))
		}
		return nil
	}
	return cmd
}

// reconcile reads the files and compares them with what the server has.
func (in *reconcileRequest) reconcile(ctx context.Context, c *client.Client) (found *reconciliation, err error) {
	in.named = in.usageProvider != ""
	found = &reconciliation{TolerancePercent: in.tolerance}
	if in.bill != "" {
		if found.Machines, err = in.compare(ctx, c, in.bill, bill.GCP, in.machines); err != nil {
			return nil, err
		}
	}
	if in.usage != "" {
		if found.Tasks, err = in.compare(ctx, c, in.usage, bill.Usage, in.tasks); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// compare compares one file with what own returns of its time.
func (in *reconcileRequest) compare(ctx context.Context, c *client.Client, path string, kind bill.Kind,
	own func(context.Context, *client.Client, *bill.Sums) ([]bill.Own, error)) (*reconciled, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var from, to time.Time
	if in.from.day != nil {
		from = *in.from.day
	}
	if in.to.day != nil {
		to = *in.to.day
	}
	sums, err := bill.Read(file, kind, from, to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if sums.Lines == sums.Broken && in.from.day == nil {
		return nil, fmt.Errorf("%s: no line of it could be read%s", path, firstOf(sums.Problems))
	}
	if !sums.To.After(sums.From) {
		sums.To = sums.From.Add(time.Second) // no line, or all at one time
	}
	has, err := own(ctx, c, sums)
	if err != nil {
		return nil, err
	}
	return &reconciled{
		File: path, From: sums.From, To: sums.To, Lines: sums.Lines, Repeated: sums.Repeated, Outside: sums.Outside, Broken: sums.Broken,
		BrokenLines: append([]bill.Problem{}, sums.Problems...), OtherLines: sums.Other.Lines, OtherUSD: sums.Other.USD,
		Result: bill.Compare(sums.Items, has, decimal.NewFromFloat(in.tolerance)),
	}, nil
}

// machines returns what the machines of the provider cost in the time of a bill. One without a price has no amount.
func (in *reconcileRequest) machines(ctx context.Context, c *client.Client, sums *bill.Sums) (own []bill.Own, err error) {
	if sums.From.IsZero() {
		return nil, nil
	}
	filter := client.MachineFilter{PaidFrom: &sums.From, PaidUntil: &sums.To}
	for after := ""; ; {
		page, err := c.Machines(ctx, filter, 200, after)
		if err != nil {
			return nil, err
		}
		for _, edge := range page.Edges {
			m := edge.Node
			if m.Provider != in.provider || m.PaidSeconds == 0 {
				continue
			}
			one := bill.Own{ID: bill.Name(m.InstanceId)}
			if m.CostUsd != 0 {
				one.USD = new(decimal.NewFromFloat(m.CostUsd))
			}
			own = append(own, one)
		}
		if !page.PageInfo.HasNextPage || page.PageInfo.EndCursor == nil {
			return own, nil
		}
		after = *page.PageInfo.EndCursor
	}
}

// taskSlack is how far apart the times of a task are at its provider and in the ledger: that of the ledger is the end.
const taskSlack = 24 * time.Hour

// tasks returns what the ledger has for the tasks of a provider's export: those that ended in its time, and those of its
// ids that ended a day before or after it.
func (in *reconcileRequest) tasks(ctx context.Context, c *client.Client, sums *bill.Sums) (own []bill.Own, err error) {
	if sums.From.IsZero() {
		return nil, nil
	}
	const first = 200
	for from := sums.From.Add(-taskSlack); from.Before(sums.To.Add(taskSlack)); from = from.Add(24 * time.Hour) {
		for after := int64(0); ; {
			found, err := c.ProviderTasks(ctx, from, from.Add(24*time.Hour), after, first)
			if err != nil {
				return nil, err
			}
			for _, task := range found {
				after = task.Entry
				if in.usageProvider == "" {
					in.usageProvider = task.Provider
				} else if in.usageProvider != task.Provider && !in.named {
					return nil, fmt.Errorf("there are tasks of %s and %s in this time: say whose export it is, with --usage-provider", in.usageProvider, task.Provider)
				}
				if in.usageProvider != task.Provider {
					continue
				}
				one := bill.Own{ID: bill.Name(task.Task), Name: task.JobId}
				if outside := task.At.Before(sums.From) || !task.At.Before(sums.To); outside && sums.Items[one.ID] == nil {
					continue
				}
				if task.CostUsd != nil {
					one.USD = new(decimal.NewFromFloat(*task.CostUsd))
				}
				own = append(own, one)
			}
			if len(found) < first {
				break
			}
		}
	}
	return own, nil
}
