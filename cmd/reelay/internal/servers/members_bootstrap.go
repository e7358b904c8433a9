package servers

import (
	"context"
	"errors"
	"fmt"

	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models/postgres"
	"github.com/spf13/cobra"
	"github.com/uptrace/bun"
)

// MembersBootstrapCommand returns `reelay members bootstrap`.
func MembersBootstrapCommand() *cobra.Command {
	var account string
	var another, asJSON bool
	var document output.Options
	cmd := &cobra.Command{
		Use:   "bootstrap EMAIL",
		Short: "Create the first ADMIN member, directly in the database",
		Long: "Creates an ADMIN member in the database at DATABASE_URL, and its account if no account has that name, and prints\n" +
			"the link at REELAY_PUBLIC_URL with which it chooses a password. It refuses if there is a member, unless --another is\n" +
			"given, for example because no admin can log in. Run `reelay migrate` first.",
		Example: "  DATABASE_URL=postgres://… REELAY_PUBLIC_URL=https://reelay.example.com reelay members bootstrap ana@example.com",
		Args:    terminal.OneArg("EMAIL", "the e-mail address of the member, such as ana@example.com"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg := settings.Read()
			invitation, err := bootstrapMember(cmd.Context(), cfg, account, args[0], another)
			if jobsErr, ok := errors.AsType[*apierror.Error](err); ok && jobsErr.Code == apierror.CodeConflict {
				return fmt.Errorf("%w If none can log in, add --another", err)
			}
			if err != nil {
				return err
			}
			m, link := invitation.Member, cfg.PublicURL+"/join/"+invitation.Token
			if asJSON {
				return document.Print(output.ScreenOf(cmd.OutOrStdout()), map[string]any{
					"member": map[string]any{"id": m.ID, "email": m.Email, "role": m.Role}, "url": link, "expiresAt": invitation.ExpiresAt.UTC(),
				}, nil)
			}
			return output.Line("%s  %s\n%s\nOpen this link to choose a password. It is valid once, until %s, and is not shown again.",
				m.Email, m.Role, link, output.Moment(invitation.ExpiresAt))(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&account, "account", "house", "name of the account of the jobs that it submits")
	f.BoolVar(&another, "another", false, "create a member even if there is one")
	document.AddDocumentFlags(cmd, &asJSON)
	return cmd
}

func bootstrapMember(ctx context.Context, cfg settings.Config, account, email string, another bool) (
	invitation *auth.Invitation, err error,
) {
	if cfg.PublicURL == "" {
		return nil, errors.New("REELAY_PUBLIC_URL is not set: it must be the address of the console, such as https://reelay.example.com")
	}
	err = withDatabase(ctx, cfg, func(db *bun.DB) error {
		invitation, err = (&auth.Members{DB: db}).Bootstrap(ctx, account, email, another)
		return err
	})
	return invitation, err
}

// withDatabase calls do with the database at DATABASE_URL.
func withDatabase(ctx context.Context, c settings.Config, do func(*bun.DB) error) error {
	if c.DatabaseURL == "" {
		return errors.New("DATABASE_URL is not set: it must be postgres://user:password@host:5432/name")
	}
	if err := c.Check(); err != nil {
		return err
	}
	db, done, err := postgres.Open(ctx, c.DatabaseURL, 1)
	if err != nil {
		return err
	}
	defer done()
	return do(db)
}
