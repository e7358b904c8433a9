package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// AccountsCommand returns `reelay accounts`.
func AccountsCommand() *cobra.Command {
	cmd := listAccounts(&cobra.Command{
		Use:   "accounts",
		Short: "List, create, change and delete accounts (for operators)",
		Long:  "Lists the accounts, newest first.",
		Args:  terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listAccounts(&cobra.Command{Use: "list", Short: "List accounts, newest first", Args: cobra.NoArgs}),
		accountsCreateCommand(), accountsUpdateCommand(), accountsDeleteCommand(), accountsDeletionsCommand())
	return cmd
}

func listAccounts(cmd *cobra.Command) *cobra.Command {
	list := &connect.Lister[client.Account]{
		Target: connect.Target{Operator: true}, Table: accountTable,
		Ask: func(ctx context.Context, c *client.Client, p connect.Page) (output.List[client.Account], error) {
			return output.Page[client.Account](c.Accounts(ctx, p.First, p.After))
		},
	}
	return list.Command(cmd)
}

var accountTable = output.Table[client.Account]{
	Columns: []output.Column[client.Account]{
		{Title: "ACCOUNT", Kind: output.ID, Value: func(a client.Account) any { return a.Id }},
		{Title: "NAME", Kind: output.Long, Value: func(a client.Account) any { return a.Name }},
		{Title: "TIER", Value: func(a client.Account) any { return a.Tier }},
		{Title: "MAX QUEUED", Value: func(a client.Account) any { return a.MaxQueued }},
		{Title: "MAX RUNNING", Value: func(a client.Account) any { return a.MaxRunning }},
		{Title: "SUBMITS/MIN", Value: func(a client.Account) any { return a.SubmitsPerMinute }},
		{Title: "DELETING", Wide: true, Value: func(a client.Account) any { return a.ClosedAt }},
		{Title: "DRAFTS KEPT", Wide: true, Value: func(a client.Account) any { return fmt.Sprintf("%d h", a.DraftsKeptHours) }},
		{Title: "TIME ZONE", Wide: true, Value: func(a client.Account) any { return a.TimeZone }},
	},
	Name: func(a client.Account) string { return a.Id },
	None: "No accounts.",
}

// accountFlags are the properties of an account that can be set.
type accountFlags struct {
	name, tier, zone               string
	queued, running, submitsPerMin int
	draftsKept                     int
}

func (a *accountFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.name, "name", "", "name of the account")
	f.StringVar(&a.zone, "time-zone", "", "time zone in which its days and months begin, such as Europe/Berlin (default UTC)")
	f.StringVar(&a.tier, "tier", "", "enterprise, pro, free or batch; critical is reserved for operators")
	f.IntVar(&a.queued, "max-queued", 0, "how many of its jobs may wait (default: the tier's)")
	f.IntVar(&a.running, "max-running", 0, "how many of its jobs may run at once (default: the tier's)")
	f.IntVar(&a.draftsKept, "drafts-kept-hours", 0, "how many hours its drafts are kept, 1 to 2160; for admins (default 168)")
	f.IntVar(&a.submitsPerMin, "submits-per-minute", 0, "how many jobs it may submit in a minute (default: the tier's)")
}

// input returns the flags that were given.
func (a *accountFlags) input(cmd *cobra.Command) (in client.AccountInput, err error) {
	f := cmd.Flags()
	if f.Changed("name") {
		in.Name = &a.name
	}
	if f.Changed("time-zone") {
		in.TimeZone = &a.zone
	}
	if f.Changed("tier") {
		tier, err := input.ParseEnum("tier", a.tier, client.AllTier)
		if err != nil {
			return in, err
		}
		in.Tier = &tier
	}
	for flag, to := range map[string]struct {
		field **int
		value *int
	}{
		"max-queued": {&in.MaxQueued, &a.queued}, "max-running": {&in.MaxRunning, &a.running},
		"submits-per-minute": {&in.SubmitsPerMinute, &a.submitsPerMin}, "drafts-kept-hours": {&in.DraftsKeptHours, &a.draftsKept},
	} {
		if f.Changed(flag) {
			*to.field = to.value
		}
	}
	return in, nil
}

func accountsCreateCommand() *cobra.Command {
	var flags accountFlags
	var in client.AccountInput
	var force bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create an account (for admins)",
		Long: "Creates an account. Two accounts can have the same name, but a second one is usually a command sent twice:\n" +
			"it needs --force.",
		Example: "  reelay accounts create --name acme --tier pro",
		Args:    cobra.NoArgs,
	}
	flags.addFlags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "create the account even if its name is taken")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		in, err = flags.input(cmd)
		if err == nil && (in.Name == nil || in.Tier == nil) {
			err = errors.New("--name and --tier are required")
		}
		if err != nil {
			return terminal.UsageError(cmd, err)
		}
		return nil
	}
	call := &connect.Call{Target: connect.Target{Admin: true}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		if !force {
			if err := isNew(ctx, c, *in.Name); err != nil {
				return nil, nil, err
			}
		}
		account, err := c.CreateAccount(ctx, in)
		return account, printAccount(account), err
	})
}

// isNew returns an error if an account with this name exists.
func isNew(ctx context.Context, c *client.Client, name string) error {
	ids, err := accountsNamed(ctx, c, name)
	if err != nil || len(ids) == 0 {
		return err
	}
	return fmt.Errorf("an account with the name %q exists: %s. Change it with `reelay accounts update`, or create another with --force",
		name, strings.Join(ids, ", "))
}

func accountsUpdateCommand() *cobra.Command {
	var flags accountFlags
	var in client.AccountInput
	cmd := &cobra.Command{
		Use:   "update ACCOUNT",
		Short: "Change an account, given by its name or id",
		Long: "Changes what is given. A new tier also brings its limits, except those that are given or that differed from\n" +
			"the old tier's. Jobs that were already accepted keep their tier.",
		Example: "  reelay accounts update acme --tier enterprise --max-running 50",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return errors.New("give the name or the id of one account")
			}
			return nil
		},
	}
	flags.addFlags(cmd)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		in, err = flags.input(cmd)
		if err == nil && in == (client.AccountInput{}) {
			err = errors.New("there is nothing to change: give --name, --tier or a limit")
		}
		if err != nil {
			return terminal.UsageError(cmd, err)
		}
		return nil
	}
	call := &connect.Call{Target: connect.Target{Operator: true}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		id, err := AccountID(ctx, c, args[0])
		if err != nil {
			return nil, nil, err
		}
		account, err := c.UpdateAccount(ctx, id, in)
		return account, printAccount(account), err
	})
}

func printAccount(account *client.Account) output.Printer {
	return func(out io.Writer) error { return accountTable.Write(output.ScreenOf(out), []client.Account{*account}) }
}

// AccountID returns the id of the account with this name. It returns an id, or an
// empty name, unchanged.
func AccountID(ctx context.Context, c *client.Client, name string) (string, error) {
	switch {
	case name == "":
		return "", nil
	case strings.HasPrefix(name, "acc_"):
		return connect.FullID(ctx, c, "acc", name)
	}
	ids, err := accountsNamed(ctx, c, name)
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", fmt.Errorf("no account has the name %q: `reelay accounts list` shows the accounts", name)
	case len(ids) == 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("%d accounts have the name %q: give the id of one (%s)", len(ids), name, strings.Join(ids, ", "))
}

// accountsNamed returns the ids of the accounts with this name.
func accountsNamed(ctx context.Context, c *client.Client, name string) (ids []string, err error) {
	_, err = findAccount(ctx, c, func(a *client.Account) bool {
		if a.Name == name {
			ids = append(ids, a.Id)
		}
		return false
	})
	return ids, err
}

// findAccount returns the first account that is wanted, or nil.
func findAccount(ctx context.Context, c *client.Client, wanted func(*client.Account) bool) (*client.Account, error) {
	for after := ""; ; {
		found, err := c.Accounts(ctx, 200, after)
		if err != nil {
			return nil, err
		}
		for i := range found.Edges {
			if wanted(&found.Edges[i].Node) {
				return &found.Edges[i].Node, nil
			}
		}
		if !found.PageInfo.HasNextPage || found.PageInfo.EndCursor == nil {
			return nil, nil
		}
		after = *found.PageInfo.EndCursor
	}
}
