package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/spf13/cobra"
)

// KeysCommand takes the command that creates the first key, which needs the database.
func KeysCommand(bootstrap *cobra.Command) *cobra.Command {
	cmd := listKeys(&cobra.Command{
		Use:   "keys",
		Short: "List, create and revoke API keys (for admins)",
		Long: "Lists the API keys, newest first, including expired and revoked ones. Each has one account and one role; see\n" +
			"docs/operators/keys.md. These commands need an ADMIN key, except bootstrap, which creates the first one and\n" +
			"connects to the database directly.",
		Args: terminal.NoSuchCommand,
	})
	cmd.AddCommand(
		listKeys(&cobra.Command{Use: "list", Short: "List keys, newest first, including expired and revoked ones", Args: cobra.NoArgs}),
		bootstrap, keysCreateCommand(), keysRevokeCommand())
	return cmd
}

func createdKey(key *client.CreatedApiKey) output.Printer {
	return output.Line("%s  %s\n%s\nStore the secret now: it is not shown again.", key.Id, key.Role, key.Secret)
}

// KeyRoles are the roles that a key can have.
var KeyRoles = []client.Role{client.RoleClient, client.RoleWorker, client.RoleViewer, client.RoleOperator, client.RoleAdmin}

// maxKeyDays is the longest life of a key: ten years.
const maxKeyDays = 3650

func keysCreateCommand() *cobra.Command {
	var account, role, name string
	var days int
	var as client.Role
	cmd := &cobra.Command{
		Use:     "create",
		Short:   "Create a key",
		Example: "  reelay keys create --account acme --role client --name 'acme production' --expires-in-days 365",
		Args:    cobra.NoArgs,
	}
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		as, err = input.ParseEnum("role", role, KeyRoles)
		if err == nil && (days < 0 || days > maxKeyDays) {
			err = fmt.Errorf("--expires-in-days is %d: it must be from 1 to %d, or 0 for never", days, maxKeyDays)
		}
		if err == nil && (account == "" || name == "") {
			err = errors.New("--account and --name are required")
		}
		if err != nil {
			return terminal.UsageError(cmd, err)
		}
		return nil
	}
	f := cmd.Flags()
	f.StringVar(&account, "account", "", "name or id of the key's account")
	f.StringVar(&role, "role", "", "client, worker (an enrolment key), viewer (reads what operators read), operator or admin")
	f.StringVar(&name, "name", "", "name of the key in lists and in the audit log")
	f.IntVar(&days, "expires-in-days", 0, "days until the key expires; 0 is never")
	call := &connect.Call{Target: connect.Target{Admin: true}}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, output.Printer, error) {
		id, err := AccountID(ctx, c, account)
		if err != nil {
			return nil, nil, err
		}
		var expires time.Time
		if days > 0 {
			expires = time.Now().Add(time.Duration(days) * 24 * time.Hour)
		}
		key, err := c.CreateAPIKey(ctx, id, as, name, expires)
		if err != nil {
			return nil, nil, err
		}
		return key, createdKey(key), nil
	})
}

func listKeys(cmd *cobra.Command) *cobra.Command {
	var account string
	cmd.Flags().StringVar(&account, "account", "", "only keys of the account with this name or id")
	list := &connect.Lister[client.ApiKey]{
		Target: connect.Target{Admin: true}, Table: keyTable, Whole: true,
		Ask: func(ctx context.Context, c *client.Client, _ connect.Page) (output.List[client.ApiKey], error) {
			id, err := AccountID(ctx, c, account)
			if err != nil {
				return output.List[client.ApiKey]{}, err
			}
			return output.Complete(c.APIKeys(ctx, id))
		},
	}
	return list.Command(cmd)
}

var keyTable = output.Table[client.ApiKey]{
	Columns: []output.Column[client.ApiKey]{
		{Title: "KEY", Kind: output.ID, Value: func(k client.ApiKey) any { return k.Id }},
		{Title: "ROLE", Value: func(k client.ApiKey) any { return k.Role }},
		{Title: "ACCOUNT", Kind: output.Long, Value: func(k client.ApiKey) any { return k.Account.Name }},
		{Title: "NAME", Kind: output.Long, Value: func(k client.ApiKey) any { return k.Name }},
		{Title: "SECRET", Minor: true, Value: func(k client.ApiKey) any { return k.Prefix + "…" }},
		{Title: "CREATED", Wide: true, Value: func(k client.ApiKey) any { return k.CreatedAt }},
		{Title: "USED", Value: func(k client.ApiKey) any { return k.LastUsedAt }},
		{Title: "STATE", Kind: output.State, Value: func(k client.ApiKey) any { return keyState(k, time.Now()) }},
	},
	Name: func(k client.ApiKey) string { return k.Id },
	None: "No keys.",
}

// keyState says until when a key is valid, or why it is not.
func keyState(key client.ApiKey, now time.Time) string {
	switch {
	case key.RevokedAt != nil:
		return "revoked " + output.Since(key.RevokedAt)
	case key.ExpiresAt == nil:
		return "valid"
	case key.ExpiresAt.After(now):
		return "valid until " + output.Moment(*key.ExpiresAt)
	}
	return "expired " + output.Since(key.ExpiresAt)
}

func keysRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "revoke KEY",
		SuggestFor: []string{"rm", "delete"},
		Short:      "Revoke a key; it stops working everywhere within 5 seconds",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("give the id of one key, such as key_0195…: `reelay keys list` shows them")
			}
			return nil
		},
	}
	call := &connect.Call{Target: connect.Target{Admin: true}, Kind: "key",
		Danger: connect.Question("Revoke %s? It stops working everywhere, and cannot be restored.")}
	return call.Command(cmd, func(ctx context.Context, c *client.Client, args []string) (any, output.Printer, error) {
		return map[string]string{"id": args[0]}, output.Line("%s is revoked", args[0]), c.RevokeAPIKey(ctx, args[0])
	})
}
