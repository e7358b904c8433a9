package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/access"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// BudgetsCommand returns `reelay budgets`.
func BudgetsCommand() *cobra.Command {
	list := func(cmd *cobra.Command) *cobra.Command {
		var account string
		cmd.Flags().StringVar(&account, "account", "", "only the budgets of this account, by name or id (for operators)")
		call := &connect.Call{Target: connect.Target{Operator: true}}
		return call.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
			id, err := access.AccountID(ctx, c, account)
			if err != nil {
				return nil, nil, err
			}
			found, err := c.Budgets(ctx, id)
			return found, printBudgets(found), err
		})
	}
	cmd := list(&cobra.Command{
		Use: "budgets", SuggestFor: []string{"budget", "limits"}, Args: terminal.NoSuchCommand,
		Short: "Show what may be spent and how much of it is; set and remove budgets",
		Long: `Shows the budgets of accounts and their users, and how much of them is used in the present day or month of the account's time
zone. A hard budget refuses submits above it with BUDGET_EXCEEDED, and starts no job once it is spent; a soft one only notifies.
Operators see the budgets of all accounts. Beside a running reelay up, --as client shows those of its client.`,
	})
	cmd.AddCommand(list(&cobra.Command{Use: "list", Short: "List budgets", Args: cobra.NoArgs}), setBudgetCommand(), removeBudgetCommand())
	return cmd
}

func setBudgetCommand() *cobra.Command {
	var account, user, atLimit, unknown string
	var day, month float64
	in := client.BudgetInput{}
	cmd := &cobra.Command{
		Use: "set --account ACCOUNT (--day USD | --month USD)", Args: cobra.NoArgs,
		Short: "Set a budget (for operators)",
		Long: `Sets a budget of an account, of one of its users, or of each user. The one of the same account, user, period and hardness is
changed. Accepted jobs stay accepted: a limit below what is reserved for them refuses new jobs only.`,
		Example: "  reelay budgets set --account acme --month 500\n  reelay budgets set --account acme --each-user --day 2.50 --at-limit cancel\n" +
			"  reelay budgets set --account acme --month 400 --soft",
	}
	f := cmd.Flags()
	f.StringVar(&account, "account", "", "the account, by name or id")
	f.StringVar(&user, "user", "", "bound one user of the account")
	f.BoolVar(&in.EachUser, "each-user", false, "bound each user without a budget of their own")
	f.Float64Var(&day, "day", 0, "the limit of a day, in US dollars; 0 refuses every job")
	f.Float64Var(&month, "month", 0, "the limit of a month, in US dollars; 0 refuses every job")
	f.BoolVar(&in.Soft, "soft", false, "only notify, at 50, 80 and 100 percent")
	f.StringVar(&atLimit, "at-limit", "wait", "what becomes of waiting jobs once it is spent: wait or cancel")
	f.StringVar(&unknown, "unknown", "refuse", "what to do with jobs whose cost is unknown: refuse or allow")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		switch {
		case account == "":
			err = errors.New("give the account, with --account")
		case f.Changed("day") == f.Changed("month"):
			err = errors.New("give one limit: --day or --month")
		case f.Changed("day"):
			in.Period, in.LimitUsd = client.BudgetPeriodDay, day
			err = checkLimit("day", day)
		default:
			in.Period, in.LimitUsd = client.BudgetPeriodMonth, month
			err = checkLimit("month", month)
		}
		if err == nil {
			in.AtLimit, err = input.ParseEnum("at-limit", atLimit, client.AllBudgetAtLimit)
		}
		if err == nil {
			in.Unknown, err = input.ParseEnum("unknown", unknown, client.AllBudgetUnknown)
		}
		if err != nil {
			return terminal.UsageError(cmd, err)
		}
		return nil
	}
	call := &connect.Call{Target: connect.Target{Operator: true}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		var err error
		if in.AccountId, err = access.AccountID(ctx, c, account); err != nil {
			return nil, nil, err
		}
		in.UserId = client.Optional(user)
		set, err := c.SetBudget(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		return set, func(out io.Writer) error {
			err := printBudgets([]client.Budget{*set})(out)
			if set.Hard && set.LimitUsd == 0 && err == nil {
				_, err = fmt.Fprintln(out, "\nIts limit is 0: it refuses every job from now on that costs something.")
			}
			return err
		}, nil
	})
}

// maxLimit is the highest limit that the API accepts, in US dollars.
const maxLimit = 1_000_000_000

// checkLimit returns an error that names the flag unless the API accepts such a limit.
func checkLimit(flag string, usd float64) error {
	if usd >= 0 && usd <= maxLimit { // NaN is neither
		return nil
	}
	return fmt.Errorf("--%s is %g: it must be from 0 to %d US dollars", flag, usd, maxLimit)
}

func removeBudgetCommand() *cobra.Command {
	call := &connect.Call{Target: connect.Target{Operator: true}}
	return call.Command(&cobra.Command{
		Use: "remove BUDGET", Short: "Remove a budget, given by its id (for operators)", Args: cobra.ExactArgs(1),
		Long:    "Removes a budget. Jobs that it held back start.",
		Example: "  reelay budgets remove bud_0192f3c8-7a1e-7c3b-9f52-3f3a3c0f7a11",
	}, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		err := c.RemoveBudget(ctx, args[0])
		return map[string]string{"removed": args[0]}, func(out io.Writer) error {
			_, err := fmt.Fprintln(out, "The budget is removed.")
			return err
		}, err
	})
}

// resetsAt is when the next day or month of a budget begins, with its time zone.
func resetsAt(at time.Time) string { return at.Local().Format("2006-01-02 15:04 MST") }

// printBudgets prints a line for each budget, and for each user of one of each user.
func printBudgets(found []client.Budget) output.Printer {
	return func(out io.Writer) error {
		screen := output.ScreenOf(out)
		if len(found) == 0 {
			_, err := fmt.Fprintln(screen, "No budgets. An operator sets one: reelay budgets set --account ACCOUNT --month USD")
			return err
		}
		var rows [][]string
		for _, b := range found {
			of := "the account"
			switch {
			case b.UserId != nil:
				of = "user " + *b.UserId
			case b.Scope == client.BudgetScopeEachUser:
				of = "each user"
			}
			kind := "soft"
			if b.Hard {
				kind = "hard, " + strings.ToLower(string(b.AtLimit)+", unknown "+string(b.Unknown))
			}
			line := []string{b.Id, b.Account.Name, of, strings.ToLower(string(b.Period)), text.USD(b.LimitUsd), kind}
			if len(b.Use) == 0 || b.Scope == client.BudgetScopeEachUser {
				resets := "-"
				if len(b.Use) > 0 {
					resets = resetsAt(b.Use[0].EndsAt)
				}
				rows = append(rows, append(line, "-", "", "-", resets))
				line = []string{"", "", "", "", "", ""}
			}
			for _, u := range b.Use {
				if b.Scope == client.BudgetScopeEachUser && u.UserId != nil {
					line[2] = "  " + *u.UserId
				}
				rows = append(rows, append(line[:6:6], text.USD(u.SpentUsd), fmt.Sprintf("%.0f%%", u.Percent), text.USD(u.ReservedUsd),
					resetsAt(u.EndsAt)))
				line = []string{"", "", "", "", "", ""}
			}
		}
		return output.WriteRows(screen, []string{"BUDGET", "ACCOUNT", "OF", "PERIOD", "LIMIT", "KIND", "SPENT", "", "RESERVED", "RESETS AT"}, rows)
	}
}
