package operations

import (
	"fmt"
	"io"
	"time"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/internal/bill"
	"github.com/reelay/reelay/internal/text"
	"github.com/shopspring/decimal"
)

// shownDifferences bounds each list that is printed for people. JSON has all.
const shownDifferences = 50

// printReconciliation prints the sums, and then what differs.
func printReconciliation(out io.Writer, found *reconciliation) error {
	for _, part := range []struct {
		of         *reconciled
		what, many string
	}{{found.Machines, "machine", "machines"}, {found.Tasks, "task", "tasks"}} {
		if part.of == nil {
			continue
		}
		if err := part.of.print(output.ScreenOf(out), part.what, part.many, found.TolerancePercent); err != nil {
			return err
		}
	}
	return nil
}

func (r *reconciled) print(screen *output.Screen, what, many string, tolerance float64) error {
	fmt.Fprintf(screen, "%s: %s, from %s to %s (UTC)\n", output.Clean(r.File), text.Count(r.Lines, "line"), r.From.UTC().Format(time.DateTime),
		r.To.UTC().Format(time.DateTime))
	for _, count := range []struct {
		n   int
		say string
	}{
		{r.Repeated, "repeated an earlier line: counted once"}, {r.Outside, "outside of this time: not counted"},
		{r.Broken, "cannot be read: not counted"},
	} {
		if count.n > 0 {
			fmt.Fprintf(screen, "%s %s\n", text.Count(count.n, "line"), count.say)
		}
	}
	for _, problem := range r.BrokenLines {
		fmt.Fprintf(screen, "  %s\n", output.Clean(problem.Error()))
	}
	if r.OtherLines > 0 {
		fmt.Fprintf(screen, "%s for no %s: %s\n", text.Count(r.OtherLines, "line"), what, money(&r.OtherUSD))
	}
	difference := r.DifferenceUSD()
	fmt.Fprintf(screen, "\n%s in both. Billed %s, Reelay has %s: a difference of %s\n", text.Count(r.Both, what),
		money(&r.BilledUSD), money(&r.OwnUSD), money(&difference))
	for _, list := range []struct {
		title string
		rows  []bill.Difference
	}{
		{"Only the bill has", r.Unknown}, {"Only Reelay has", r.Unbilled},
		{fmt.Sprintf("More than %g %% apart, or without a price", tolerance), r.Differing},
		{"Reelay lacks the provider's id of", r.Unnamed},
	} {
		if len(list.rows) == 0 {
			continue
		}
		fmt.Fprintf(screen, "\n%s %s:\n", list.title, text.Count(len(list.rows), what))
		var rows [][]string
		for _, d := range list.rows[:min(len(list.rows), shownDifferences)] {
			rows = append(rows, []string{output.Clean(d.ID), money(d.BilledUSD), money(d.OwnUSD)})
		}
		if err := output.WriteRows(screen, []string{"ID", "BILLED", "REELAY"}, rows); err != nil {
			return err
		}
		if more := len(list.rows) - shownDifferences; more > 0 {
			fmt.Fprintf(screen, "and %d more: --json has all\n", more)
		}
	}
	if r.agrees() {
		fmt.Fprintf(screen, "The bill and Reelay agree on all %s.\n", many)
	}
	fmt.Fprintln(screen)
	return nil
}

// money is an exact amount to the hundredth of a cent, or n/a if it is unknown.
func money(usd *decimal.Decimal) string {
	if usd == nil {
		return "n/a"
	}
	return "$" + usd.StringFixed(4)
}
