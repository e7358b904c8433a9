package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func accountsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accounts",
		Short: "List, make and change accounts (for operators)",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(accountsListCommand(), accountsCreateCommand(), accountsUpdateCommand())
	return cmd
}

func accountsListCommand() *cobra.Command {
	list := &lister[client.Account]{
		target: target{operator: true}, header: accountHeader, row: accountRow,
		ask: func(ctx context.Context, c *client.Client, p page) (listed[client.Account], error) {
			found, err := c.Accounts(ctx, p.first, p.after)
			if err != nil {
				return listed[client.Account]{}, err
			}
			return listOf[client.Account](found.Edges, found.PageInfo, nil), nil
		},
	}
	return list.command(&cobra.Command{Use: "list", Short: "List accounts, newest first", Args: cobra.NoArgs})
}

var accountHeader = []string{"ACCOUNT", "NAME", "TIER", "MAX QUEUED", "MAX RUNNING", "SUBMITS/MIN"}

func accountRow(a client.Account) []string {
	return []string{a.Id, a.Name, string(a.Tier), fmt.Sprint(a.MaxQueued), fmt.Sprint(a.MaxRunning), fmt.Sprint(a.SubmitsPerMinute)}
}

// accountFlags are what an account can be given.
type accountFlags struct {
	name, tier                     string
	queued, running, submitsPerMin int
}

func (a *accountFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.name, "name", "", "what it is called")
	f.StringVar(&a.tier, "tier", "", "enterprise, pro, free or batch; critical is the operators' own")
	f.IntVar(&a.queued, "max-queued", 0, "how many of its jobs may wait (default: the tier's)")
	f.IntVar(&a.running, "max-running", 0, "how many of its jobs may run at once (default: the tier's)")
	f.IntVar(&a.submitsPerMin, "submits-per-minute", 0, "how many jobs it may submit in a minute (default: the tier's)")
}

// input is what was given of the flags.
func (a *accountFlags) input(cmd *cobra.Command) (in client.AccountInput, err error) {
	f := cmd.Flags()
	if f.Changed("name") {
		in.Name = &a.name
	}
	if f.Changed("tier") {
		tier, err := parseEnum("tier", a.tier, client.AllTier)
		if err != nil {
			return in, err
		}
		in.Tier = &tier
	}
	for flag, to := range map[string]struct {
		field **int
		value *int
	}{"max-queued": {&in.MaxQueued, &a.queued}, "max-running": {&in.MaxRunning, &a.running}, "submits-per-minute": {&in.SubmitsPerMinute, &a.submitsPerMin}} {
		if f.Changed(flag) {
			*to.field = to.value
		}
	}
	return in, nil
}

func accountsCreateCommand() *cobra.Command {
	t := target{admin: true}
	var flags accountFlags
	var asJSON, force bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an account (for admins)",
		Long: "Makes an account. Names may repeat, but a second account of one name is mostly a command that was sent\n" +
			"twice: it takes --force.",
		Example: "  reelay accounts create --name acme --tier pro",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, err := flags.input(cmd)
			if err == nil && (in.Name == nil || in.Tier == nil) {
				err = errors.New("--name and --tier are needed")
			}
			if err != nil {
				return &usageError{cmd, err}
			}
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if !force {
				if err := isNew(cmd.Context(), c, *in.Name); err != nil {
					return err
				}
			}
			account, err := c.CreateAccount(cmd.Context(), in)
			return printAccount(cmd, account, err, asJSON)
		},
	}
	t.addFlags(cmd)
	flags.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.Flags().BoolVar(&force, "force", false, "make it though there is one of that name")
	return cmd
}

// isNew refuses the name of an account that is there.
func isNew(ctx context.Context, c *client.Client, name string) error {
	ids, err := accountsNamed(ctx, c, name)
	if err != nil || len(ids) == 0 {
		return err
	}
	return fmt.Errorf("there is an account of the name %q already: %s. Change it with `reelay accounts update`, or make another of that name with --force",
		name, strings.Join(ids, ", "))
}

func accountsUpdateCommand() *cobra.Command {
	t := target{operator: true}
	var flags accountFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "update ACCOUNT",
		Short: "Change an account, which is named by its name or id",
		Long: "Changes what is given. With a new tier go its limits, but for those that are given or were not the old\n" +
			"tier's. Jobs that were accepted keep their tier.",
		Example: "  reelay accounts update acme --tier enterprise --max-running 50",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return errors.New("give the name or the id of one account")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := flags.input(cmd)
			if err == nil && in == (client.AccountInput{}) {
				err = errors.New("there is nothing to change: give --name, --tier or a limit")
			}
			if err != nil {
				return &usageError{cmd, err}
			}
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			id, err := accountID(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			account, err := c.UpdateAccount(cmd.Context(), id, in)
			return printAccount(cmd, account, err, asJSON)
		},
	}
	t.addFlags(cmd)
	flags.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func printAccount(cmd *cobra.Command, account *client.Account, err error, asJSON bool) error {
	if err != nil {
		return apiError(err)
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), account)
	}
	return printTable(cmd.OutOrStdout(), accountHeader, [][]string{accountRow(*account)})
}

// accountID finds the account of a name. An id, or nothing, stays as it is.
func accountID(ctx context.Context, c *client.Client, name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "acc_") {
		return name, nil
	}
	ids, err := accountsNamed(ctx, c, name)
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", fmt.Errorf("there is no account of the name %q: `reelay accounts list` shows them", name)
	case len(ids) == 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("%d accounts have the name %q: give the id of one (%s)", len(ids), name, strings.Join(ids, ", "))
}

// accountsNamed are the ids of the accounts that have a name.
func accountsNamed(ctx context.Context, c *client.Client, name string) (ids []string, err error) {
	for after := ""; ; {
		found, err := c.Accounts(ctx, 200, after)
		if err != nil {
			return nil, apiError(err)
		}
		for _, edge := range found.Edges {
			if edge.Node.Name == name {
				ids = append(ids, edge.Node.Id)
			}
		}
		if !found.PageInfo.HasNextPage || found.PageInfo.EndCursor == nil {
			return ids, nil
		}
		after = *found.PageInfo.EndCursor
	}
}
