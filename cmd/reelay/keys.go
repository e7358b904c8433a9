package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/auth"
	"github.com/reelay/reelay/models"
	"github.com/spf13/cobra"
)

func keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and revoke API keys (for admins)",
		Long: "API keys, each of one account and one role; see docs/operators/keys.md. They take an ADMIN key, but for\n" +
			"bootstrap, which makes the first one and speaks to the database itself.",
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(keysBootstrapCommand(), keysCreateCommand(), keysListCommand(), keysRevokeCommand())
	return cmd
}

func keysBootstrapCommand() *cobra.Command {
	var account, name string
	var another, asJSON bool
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Make the first ADMIN key, in the database itself",
		Long: "Makes an ADMIN key in the database at DATABASE_URL, and its account if there is none of that name. It\n" +
			"refuses where there is a valid ADMIN key already, unless --another says that this one is wanted too:\n" +
			"when that one is lost. `reelay migrate` comes first.",
		Example: "  DATABASE_URL=postgres://… reelay keys bootstrap",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, secret, err := bootstrap(cmd.Context(), account, name, another)
			if jobsErr, ok := errors.AsType[*apierror.Error](err); ok && jobsErr.Code == apierror.CodeConflict {
				return fmt.Errorf("%w If it is lost, add --another", err)
			}
			if err != nil {
				return err
			}
			return printCreated(cmd, &client.CreatedApiKey{Id: string(key.ID), Secret: secret, Role: client.Role(key.Role)}, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&account, "account", "house", "name of its account")
	f.StringVar(&name, "name", "bootstrap", "what the key is called")
	f.BoolVar(&another, "another", false, "also where there is a valid ADMIN key")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func bootstrap(ctx context.Context, account, name string, another bool) (*models.APIKey, string, error) {
	cfg := readConfig()
	if cfg.databaseURL == "" {
		return nil, "", errors.New("DATABASE_URL is not set: it must be postgres://user:password@host:5432/name")
	}
	if err := cfg.check(); err != nil {
		return nil, "", err
	}
	db, done, err := models.Open(ctx, cfg.databaseURL, 1)
	if err != nil {
		return nil, "", err
	}
	defer done()
	return (&auth.Keys{DB: db}).Bootstrap(ctx, account, name, another)
}

func printCreated(cmd *cobra.Command, key *client.CreatedApiKey, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), key)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n%s\nThe secret is shown only now.\n", key.Id, key.Role, key.Secret)
	return err
}

// keyRoles are what a key may be made for.
var keyRoles = []client.Role{client.RoleClient, client.RoleWorker, client.RoleOperator, client.RoleAdmin}

func keysCreateCommand() *cobra.Command {
	t := target{admin: true}
	var account, role, name string
	var days int
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "create",
		Short:   "Make a key",
		Example: "  reelay keys create --account acme --role client --name 'acme production' --expires-in-days 365",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			as, err := parseEnum("role", role, keyRoles)
			if err == nil && (days < 0 || days > maxDays) {
				err = fmt.Errorf("--expires-in-days is %d: it must be from 1 to %d, or 0 for never", days, maxDays)
			}
			if err == nil && (account == "" || name == "") {
				err = errors.New("--account and --name are needed")
			}
			if err != nil {
				return &usageError{cmd, err}
			}
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			id, err := accountID(cmd.Context(), c, account)
			if err != nil {
				return err
			}
			var expires time.Time
			if days > 0 {
				expires = time.Now().Add(time.Duration(days) * day)
			}
			key, err := c.CreateAPIKey(cmd.Context(), id, as, name, expires)
			if err != nil {
				return apiError(err)
			}
			return printCreated(cmd, key, asJSON)
		},
	}
	t.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&account, "account", "", "name or id of its account")
	f.StringVar(&role, "role", "", "client, worker (an enrolment key), operator or admin")
	f.StringVar(&name, "name", "", "what it is called in lists and in the audit log")
	f.IntVar(&days, "expires-in-days", 0, "for how long it is good; 0 is for ever")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func keysListCommand() *cobra.Command {
	t := target{admin: true}
	var account string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List keys, newest first, those that are over too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			id, err := accountID(cmd.Context(), c, account)
			if err != nil {
				return err
			}
			keys, err := c.APIKeys(cmd.Context(), id)
			if err != nil {
				return apiError(err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"items": keys})
			}
			var rows [][]string
			for _, key := range keys {
				rows = append(rows, []string{key.Id, string(key.Role), key.Account.Name, key.Name, key.Prefix + "…", ago(key.LastUsedAt), keyState(key, time.Now())})
			}
			return printTable(cmd.OutOrStdout(), []string{"KEY", "ROLE", "ACCOUNT", "NAME", "SECRET", "USED", "STATE"}, rows)
		},
	}
	t.addFlags(cmd)
	cmd.Flags().StringVar(&account, "account", "", "only those of the account of this name or id")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// keyState tells until when a key is good, or why it is not.
func keyState(key client.ApiKey, now time.Time) string {
	switch {
	case key.RevokedAt != nil:
		return "revoked " + ago(key.RevokedAt)
	case key.ExpiresAt == nil:
		return "good"
	case key.ExpiresAt.After(now):
		return "good until " + key.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return "expired " + ago(key.ExpiresAt)
}

func keysRevokeCommand() *cobra.Command {
	t := target{admin: true}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke KEY",
		Short: "End a key, everywhere within 5 seconds",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !strings.HasPrefix(args[0], "key_") {
				return errors.New("give the id of one key, such as key_0195…: `reelay keys list` shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := c.RevokeAPIKey(cmd.Context(), args[0]); err != nil {
				return apiError(err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]string{"id": args[0]})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is revoked\n", args[0])
			return err
		},
	}
	t.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
