package operations

import (
	"context"
	"fmt"
	"io"
	"strconv"
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

// PricesCommand returns `reelay prices`.
func PricesCommand() *cobra.Command {
	var all bool
	list := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := list.Command(&cobra.Command{
		Use: "prices", Args: terminal.NoSuchCommand,
		Short: "Show and import what hosted providers charge (for operators)",
		Long: `Shows what hosted providers charge for the videos of the catalogue's models. A job costs the price that held when it was
submitted to the provider. If the price of a model is unknown, so is what its jobs cost. With --all, all versions of all
prices are shown, also those of the past. The price of a GPU hour is that of its pool: reelay pools show NAME.`,
		Example: "  reelay prices\n  reelay prices import prices.yaml",
	}, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		book, err := c.PriceBook(ctx)
		return book, func(out io.Writer) error { return printBook(out, book, all) }, err
	})
	cmd.Flags().BoolVar(&all, "all", false, "show all versions of all prices")
	cmd.AddCommand(importPricesCommand())
	return cmd
}

// maxPriceFile bounds a file of prices, in bytes.
const maxPriceFile = 256 << 10

func importPricesCommand() *cobra.Command {
	var dryRun bool
	call := &connect.Call{Target: connect.Target{Operator: true}}
	cmd := &cobra.Command{
		Use: "import FILE", Args: cobra.ExactArgs(1),
		Short: "Add the prices of a file (for operators)",
		Long: `Adds the prices of a YAML or JSON file, all or none of them. A price is not changed afterwards: another one has a later
time. To import a file again adds nothing. FILE may be - for standard input. docs/operators/costs.md explains the file.`,
		Example: "  reelay prices import prices.yaml --dry-run\n  reelay prices import prices.yaml",
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be added, and add nothing")
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		source, err := input.ReadUpTo(args[0], cmd.InOrStdin(), maxPriceFile)
		if err != nil {
			return nil, nil, err
		}
		changes, err := c.ImportProviderPrices(ctx, args[0], string(source), dryRun)
		if err != nil {
			return nil, nil, err
		}
		return output.All(changes), func(out io.Writer) error { return printPriceChanges(out, changes, dryRun) }, nil
	})
}

// printBook prints the models with their prices, or all versions of all prices.
func printBook(out io.Writer, book *client.PriceBook, all bool) error {
	screen := output.ScreenOf(out)
	var rows [][]string
	if all {
		for i := range book.Prices {
			price := &book.Prices[i]
			rows = append(rows, []string{price.Provider, output.Clean(price.Model), moment(price.Since), untilWords(price), rulesWords(price)})
		}
		return output.WriteRows(screen, []string{"PROVIDER", "ITS MODEL", "FROM", "UNTIL", "PRICE"}, rows)
	}
	unknown := 0
	for _, m := range book.Models {
		price := "unknown"
		if m.Price != nil {
			price = rulesWords(m.Price)
		} else {
			unknown++
		}
		rows = append(rows, []string{output.Clean(m.Model), m.Provider, output.Clean(m.ProviderModel), price})
	}
	if err := output.WriteRows(screen, []string{"MODEL", "PROVIDER", "ITS MODEL", "PRICE"}, rows); err != nil {
		return err
	}
	if unknown > 0 {
		fmt.Fprintf(screen, "\n%s without a price: what their jobs cost is unknown. Write a file of prices (docs/operators/costs.md), and import it\n"+
			"with `reelay prices import FILE`.\n", text.Count(unknown, "model"))
	}
	return nil
}

func moment(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func untilWords(p *client.ProviderPrice) string {
	if p.Until == nil {
		return "-"
	}
	return moment(*p.Until)
}

// rulesWords are the rules of a price in words.
func rulesWords(p *client.ProviderPrice) string {
	var rules []string
	for _, r := range p.Rules {
		rules = append(rules, text.ProviderPrice(output.Clean(r.Resolution), r.Audio, amount(r.PerSecondUsd), amount(r.PerCallUsd)))
	}
	return strings.Join(rules, "; ")
}

// amount writes an amount with all its digits.
func amount(usd float64) string { return strconv.FormatFloat(usd, 'f', -1, 64) }

func printPriceChanges(out io.Writer, changes []client.ProviderPriceChange, dryRun bool) error {
	added := "added"
	if dryRun {
		added = "would add"
	}
	screen := output.ScreenOf(out)
	for i := range changes {
		c := &changes[i]
		fmt.Fprintf(screen, "%-9s  %s %s from %s: %s\n", map[bool]string{true: added, false: "unchanged"}[c.Added], c.Price.Provider,
			output.Clean(c.Price.Model), moment(c.Price.Since), rulesWords(&c.Price))
		for _, note := range c.Notes {
			fmt.Fprintf(screen, "           %s\n", output.Clean(note))
		}
		if c.Warning != "" {
			fmt.Fprintf(screen, "           warning: %s\n", output.Clean(c.Warning))
		}
	}
	return nil
}
