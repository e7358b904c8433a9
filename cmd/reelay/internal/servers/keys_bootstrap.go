package servers

import (
	"context"
	"errors"
	"fmt"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models/access"
	"github.com/spf13/cobra"
	"github.com/uptrace/bun"
)

// KeysBootstrapCommand returns `reelay keys bootstrap`.
func KeysBootstrapCommand() *cobra.Command {
	var account, name string
	var another, asJSON bool
	var document output.Options
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Create the first ADMIN key, directly in the database",
		Long: "Creates an ADMIN key in the database at DATABASE_URL, and its account if no account has that name. It\n" +
			"refuses if a valid ADMIN key exists, unless --another is given, for example because that key is lost.\n" +
			"Run `reelay migrate` first.",
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
			created := &client.CreatedApiKey{Id: string(key.ID), Secret: secret, Role: client.Role(key.Role)}
			if asJSON {
				return document.Print(output.ScreenOf(cmd.OutOrStdout()), created, nil)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n%s\nStore the secret now: it is not shown again.\n", created.Id, created.Role,
				created.Secret)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&account, "account", "house", "name of the key's account")
	f.StringVar(&name, "name", "bootstrap", "name of the key")
	f.BoolVar(&another, "another", false, "create a key even if a valid ADMIN key exists")
	document.AddDocumentFlags(cmd, &asJSON)
	return cmd
}

func bootstrap(ctx context.Context, account, name string, another bool) (key *access.APIKey, secret string, err error) {
	cfg := settings.Read()
	err = withDatabase(ctx, cfg, func(db *bun.DB) error {
		key, secret, err = (&auth.Keys{DB: db}).Bootstrap(ctx, account, name, another)
		return err
	})
	return key, secret, err
}
